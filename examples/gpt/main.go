// Gpt trains a transformer to write like Newton, character by character, and tells how well it does and what memory it took.
//
//	go run ./examples/gpt                             on the host, with the text that comes with Go
//	go run ./examples/gpt -text FILE                  with another text
//	go run ./examples/gpt -amp bf16                   matrix products in bfloat16 (fp16: float16, with scaled gradients)
//	go run ./examples/gpt -checkpoint                 less memory, more time
//	go run ./examples/gpt -graph                      a training step is captured once and replayed: on a GPU, little time of the processor
//	go run ./examples/gpt -plan                       the blocks of a step have fixed places: less memory reserved
//	go run ./examples/gpt -temperature 0.8 -top-k 20  how it writes at the end: also -top-p, -repetition-penalty, -greedy, and -beam 4
//	go run ./examples/gpt -save FILE                  write the state of training at the end; -resume FILE goes on from it
//	go run ./examples/gpt -device sim:80GiB -layers 12 -width 768 -heads 12 -seq 1024 -vocab 50304 -steps 2
//	                                                  what would GPT-2 take? A simulated device keeps the books without computing
//
// It ends with a table of the losses, the speed, and the memory summary of the device; -json writes the numbers to a file. Ctrl-C
// ends training after the step that runs, saves, and prints the table; the exit code is 130.
package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/cistern-ml/cistern/examples/internal/lm"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/internal/command"
)

// options are the program's flags.
type options struct {
	lm.Program
	save     string
	resume   string
	stop     int
	sample   int
	writing  lm.Writing
	fraction float64
	plan     bool
	watch    session.Watch
}

// mostBeams is the largest -beam: each has a copy of all that is written, and of the keys and values of a sequence.
const mostBeams = 256

func main() { command.Main("gpt", run) }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags, 130 after Ctrl-C.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	return command.Run("gpt", stderr, func() error { return o.parse(args, stderr) }, func() error { return program(o, stdout, stderr) })
}

func (o *options) parse(args []string, stderr io.Writer) error {
	f := session.NewChecked("gpt", stderr)
	o.Flags(f, 0)
	f.StringVar(&o.AMP, "amp", "off", "precision of matrix products: off, fp16 or bf16")
	f.File(&o.save, "save", "", "file to write the state of training to, at the end")
	f.StringVar(&o.resume, "resume", "", "file to read the state of training from, at the start")
	f.Count(&o.stop, "stop", 0, 0, session.MostSteps, "stop after this step, of all -steps (default: go to the end)")
	f.Count(&o.sample, "sample", 300, 0, session.MostWritten, "characters to write at the end")
	f.BoolVar(&o.writing.Greedy, "greedy", false, "write the likeliest character each time")
	f.Positive(&o.writing.Temperature, "temperature", 1, "divisor of the logits: below 1 the likely becomes likelier (-greedy stands for 0)")
	f.Count(&o.writing.TopK, "top-k", 0, 0, session.MostTokens, "draw from so many of the likeliest characters (default: all)")
	f.Number(&o.writing.TopP, "top-p", 1, "draw from the likeliest characters whose probabilities add up to this", "be above 0 and at most 1",
		func(v float64) bool { return v > 0 && v <= 1 })
	f.Positive(&o.writing.RepetitionPenalty, "repetition-penalty", 1, "what the logits of characters that are there already are divided by")
	f.Count(&o.writing.Beam, "beam", 0, 0, mostBeams, "write what beam search with so many hypotheses finds likeliest (default: draw)")
	f.Part(&o.fraction, "memory-fraction", 1, "part of the device's memory that may be reserved")
	f.PlanFlag(&o.plan)
	f.BoolVar(&o.Graph, "graph", false, "capture a whole training step as one graph, and replay it: the same losses for less time of the processor. On a host or simulated device each step runs as without")
	o.watch.AddFlags(f)
	if err := f.Read(args); err != nil {
		return err
	}
	if o.writing.Beam > 1 && o.writing.Greedy {
		return fmt.Errorf("-beam %d and -greedy exclude each other", o.writing.Beam)
	}
	if o.Graph && o.plan {
		return errors.New("-graph and -plan exclude each other: a captured step has memory of its own")
	}
	return nil
}
