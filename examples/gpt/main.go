// Gpt trains a transformer to write like Newton, character by character, and tells how well it does and what memory it took.
//
//	go run ./examples/gpt                             on the host, with the text that comes with Go
//	go run ./examples/gpt -text FILE                  with another text
//	go run ./examples/gpt -amp bf16                   matrix products in bfloat16 (fp16: float16, with scaled gradients)
//	go run ./examples/gpt -checkpoint                 less memory, more time
//	go run ./examples/gpt -save FILE                  write the state of training at the end; -resume FILE goes on from it
//	go run ./examples/gpt -device sim:80GiB -layers 12 -width 768 -heads 12 -seq 1024 -vocab 50304 -steps 2
//	                                                  what would GPT-2 take? A simulated device keeps the books without computing
//
// It ends with a table of the losses, the speed, and the memory summary of the device; -json writes the numbers to a file. Ctrl-C
// ends training after the step that runs, saves, and prints the table; the exit code is 130.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/examples/internal/lm"
	"github.com/cistern-ml/cistern/examples/internal/session"
)

// options are the program's flags.
type options struct {
	lm.Config
	device   string
	text     string
	json     string
	save     string
	resume   string
	stop     int
	sample   int
	fraction float64
}

func main() {
	code := run(os.Args[1:], os.Stdout, os.Stderr)
	if err := device.Shutdown(); err != nil {
		fmt.Fprintln(os.Stderr, "gpt:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags, 130 after Ctrl-C.
func run(args []string, stdout, stderr io.Writer) int {
	o, err := parseFlags(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // what is wrong has been said
	}
	if err := program(o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "gpt:", err)
		return session.ExitCode(err)
	}
	return 0
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("gpt", flag.ContinueOnError)
	f.SetOutput(stderr)
	o.Flags(f)
	f.StringVar(&o.AMP, "amp", "off", "precision of matrix products: off, fp16 or bf16")
	f.StringVar(&o.device, "device", "host", "where to run: host, host:4GiB, sim, sim:80GiB or cuda:0")
	f.StringVar(&o.text, "text", "", "text to learn, in UTF-8 (default: Newton's Opticks, which every Go installation has)")
	f.StringVar(&o.json, "json", "", "file to write the figures to")
	f.StringVar(&o.save, "save", "", "file to write the state of training to, at the end")
	f.StringVar(&o.resume, "resume", "", "file to read the state of training from, at the start")
	f.IntVar(&o.stop, "stop", 0, "stop after this step, of all -steps (default: go to the end)")
	f.IntVar(&o.sample, "sample", 300, "characters to write at the end")
	f.Float64Var(&o.fraction, "memory-fraction", 1, "part of the device's memory that may be reserved")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	err := o.Check()
	switch {
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.sample < 0:
		err = fmt.Errorf("-sample is %d, must not be negative", o.sample)
	}
	if err != nil {
		fmt.Fprintln(stderr, "gpt:", err)
	}
	return o, err
}
