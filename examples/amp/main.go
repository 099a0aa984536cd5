// Amp trains the same transformer three times from the same start: in float32, in mixed precision with float16 and scaled
// gradients, and in mixed precision with bfloat16. It shows that the losses run together and how much memory each took.
//
//	go run ./examples/amp                     three trainings on the host: a table, and the curves in amp.png
//	go run ./examples/amp -steps 50 -plot ""  shorter, without the plot
//	go run ./examples/amp -device sim:80GiB   the memory numbers alone, for any size of model
//
// In the float16 training one gradient is made infinite, as if it had overflowed: the scaler leaves that step out and halves
// the scale. The flags of the model are those of examples/gpt; -json writes the numbers to a file. Each training is a session of its own: -memory-report,
// -snapshot and -trace write a file for each, as report-float32.json, report-float16.json and report-bfloat16.json for report.json. Ctrl-C ends the program after the
// step that runs, with the table of what there is by then, and exit code 130.
package main

import (
	"fmt"
	"io"

	"github.com/cistern-ml/cistern/examples/internal/lm"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/internal/command"
	"github.com/cistern-ml/cistern/internal/plotfile"
)

// options are the program's flags.
type options struct {
	lm.Program
	plot     string
	overflow int
	plan     bool
	watch    session.Watch
}

func main() { command.Main("amp", run) }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags, 130 after Ctrl-C.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	return command.Run("amp", stderr, func() error { return o.parse(args, stderr) }, func() error { return program(o, stdout, stderr) })
}

func (o *options) parse(args []string, stderr io.Writer) error {
	f := session.NewChecked("amp", stderr)
	o.AMP = "off"
	o.Flags(f, 1)
	f.File(&o.plot, "plot", "amp.png", "file to draw the losses into, PNG or SVG; none if empty")
	f.Count(&o.overflow, "overflow", -1, -1, session.MostSteps, "step of the float16 training in which a gradient is made infinite; 0 for none (default: the middle one)")
	f.PlanFlag(&o.plan)
	o.watch.AddFlags(f)
	f.Writes(o.watched)
	for _, name := range []string{"memory-report", "snapshot", "trace"} {
		f.Lookup(name).Usage += "; one for each training, with -float32, -float16 and -bfloat16 before the end of its name"
	}
	if err := f.Read(args); err != nil {
		return err
	}
	if o.overflow < 0 {
		o.overflow = o.Steps / 2
	}
	if o.plot != "" && !plotfile.Drawable(o.plot) {
		return fmt.Errorf("-plot is %q, must end in .png or .svg", o.plot)
	}
	return nil
}

// watched are the files of the three trainings that are watched.
func (o *options) watched() (all []session.Output) {
	for _, p := range precisions {
		all = append(all, o.watch.Of(p.file).Outputs()...)
	}
	return all
}
