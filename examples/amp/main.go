// Amp trains the same transformer three times from the same start: in float32, in mixed precision with float16 and scaled
// gradients, and in mixed precision with bfloat16. It shows that the losses run together and how much memory each took.
//
//	go run ./examples/amp                     three trainings on the host: a table, and the curves in amp.png
//	go run ./examples/amp -steps 50 -plot ""  shorter, without the plot
//	go run ./examples/amp -device sim:80GiB   the memory numbers alone, for any size of model
//
// In the float16 training one gradient is made infinite, as if it had overflowed: the scaler leaves that step out and halves
// the scale. The flags of the model are those of examples/gpt; -json writes the numbers to a file. Ctrl-C ends the program after the
// step that runs, with the table of what there is by then, and exit code 130.
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
	plot     string
	overflow int
}

func main() {
	code := run(os.Args[1:], os.Stdout, os.Stderr)
	if err := device.Shutdown(); err != nil {
		fmt.Fprintln(os.Stderr, "amp:", err)
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
		fmt.Fprintln(stderr, "amp:", err)
		return session.ExitCode(err)
	}
	return 0
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	o := options{Config: lm.Config{AMP: "off"}}
	f := flag.NewFlagSet("amp", flag.ContinueOnError)
	f.SetOutput(stderr)
	o.Flags(f)
	f.StringVar(&o.device, "device", "host", "where to run: host, host:4GiB, sim, sim:80GiB or cuda:0")
	f.StringVar(&o.text, "text", "", "text to learn, in UTF-8 (default: Newton's Opticks, which every Go installation has)")
	f.StringVar(&o.json, "json", "", "file to write the figures to")
	f.StringVar(&o.plot, "plot", "amp.png", "file to draw the losses into, PNG or SVG; none if empty")
	f.IntVar(&o.overflow, "overflow", -1, "step of the float16 training in which a gradient is made infinite; 0 for none (default: the middle one)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.overflow < 0 {
		o.overflow = o.Steps / 2
	}
	err := o.Check()
	switch {
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.plot != "" && !drawable(o.plot):
		err = fmt.Errorf("-plot is %q, must end in .png or .svg", o.plot)
	case o.Steps < 1:
		err = fmt.Errorf("-steps is %d, must be at least 1", o.Steps)
	}
	if err != nil {
		fmt.Fprintln(stderr, "amp:", err)
	}
	return o, err
}
