// Memory is a guided tour of the caching allocator. It allocates and frees, and draws after each call where the blocks lie: why reserved
// memory stays, how fragmentation comes about and what cures it, what a limit does, why a block waits for another stream, what a private
// pool is, and that a graph gives all of its memory back.
//
//	go run ./examples/memory               on the host's memory; a little more than a minute
//	go run ./examples/memory -pace 0       at once
//	go run ./examples/memory -device sim   on a simulated device: the same pictures, as the same calls take the same memory
//
// Nothing is made up: all that it draws and all numbers are read from the allocator. The device has 64 MiB, so that its end is near. Colours are left
// out where the output is no terminal, or NO_COLOR is set. Ctrl-C ends the tour after the step that is shown; the exit code is 130.
package main

import (
	"fmt"
	"io"
	"time"

	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/internal/command"
)

// options are the program's flags.
type options struct {
	device string
	pace   time.Duration
	watch  session.Watch
}

func main() { command.Main("memory", run) }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags, 130 after Ctrl-C.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	return command.Run("memory", stderr, func() error { return o.parse(args, stderr) }, func() error { return program(o, stdout, stderr) })
}

func (o *options) parse(args []string, stderr io.Writer) error {
	f := session.NewChecked("memory", stderr)
	f.StringVar(&o.device, "device", "host", "whose memory to show: host, or sim for a simulated device")
	f.DurationVar(&o.pace, "pace", 1500*time.Millisecond, "pause after each step; 0 for none, 1h at most")
	o.watch.AddFlags(f)
	if err := f.Read(args); err != nil {
		return err
	}
	switch {
	case o.device != "host" && o.device != "sim":
		return fmt.Errorf("-device is %q, must be host or sim: the tour needs a small device of its own", o.device)
	case o.pace < 0 || o.pace > time.Hour:
		return fmt.Errorf("-pace is %s, must be 0 to 1h", o.pace)
	}
	return nil
}
