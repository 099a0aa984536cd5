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
	"fmt"
	"io"

	"github.com/cistern-ml/cistern/examples/internal/lm"
	"github.com/cistern-ml/cistern/internal/command"
)

// options are the program's flags.
type options struct {
	lm.Program
	save     string
	resume   string
	stop     int
	sample   int
	fraction float64
}

func main() { command.Main("gpt", run) }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags, 130 after Ctrl-C.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	return command.Run("gpt", stderr, func() error { return o.parse(args, stderr) }, func() error { return program(o, stdout, stderr) })
}

func (o *options) parse(args []string, stderr io.Writer) error {
	f := command.NewFlagSet("gpt", stderr)
	o.Flags(f)
	f.StringVar(&o.AMP, "amp", "off", "precision of matrix products: off, fp16 or bf16")
	f.StringVar(&o.save, "save", "", "file to write the state of training to, at the end")
	f.StringVar(&o.resume, "resume", "", "file to read the state of training from, at the start")
	f.IntVar(&o.stop, "stop", 0, "stop after this step, of all -steps (default: go to the end)")
	f.IntVar(&o.sample, "sample", 300, "characters to write at the end")
	f.Float64Var(&o.fraction, "memory-fraction", 1, "part of the device's memory that may be reserved")
	if err := command.Parse(f, args); err != nil {
		return err
	}
	if o.sample < 0 {
		return fmt.Errorf("-sample is %d, must not be negative", o.sample)
	}
	return o.Check(f)
}
