// Fit says what would fit a GPU, without one: the largest batch with which each of some models trains, in float32 and in half precision, with and without
// checkpointed activations and expandable segments, and what the memory goes to.
//
//	go run ./examples/fit                                  GPT-2 with 124 million parameters and 1,024 tokens, on 80 GiB
//	go run ./examples/fit -model resnet50 -device "RTX 4090"   another model, on a GPU by its name
//	go run ./examples/fit -device sim:24GiB -occupied 1GiB     other memory, of which others have some
//	go run ./examples/fit -precisions float32,bfloat16         other precisions
//	go run ./examples/fit -list                                the models and the GPUs
//
// The models train on simulated devices, where nothing is computed: each batch that is tried takes as long as launching the operations of its training steps takes:
// as many as it takes until memory repeats itself, -steps at most. Half precision is autocast with scaled gradients, the optimizer is AdamW, and gradients are clipped. -json writes the figures to
// a file. Ctrl-C ends the search; what was found until then is printed, and the exit code is 130. A second one ends the program at once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cistern-ml/cistern/autograd/fit"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/internal/command"
	"github.com/cistern-ml/cistern/tensor"
)

// options are the program's flags.
type options struct {
	model      *network
	capacity   uint64
	gpu        string // its name, if it is one's
	occupied   uint64
	precisions []tensor.DType
	steps      int
	most       int
	json       string
	list       bool
}

func main() { command.Main("fit", run) }

// run is main with its surroundings as arguments. It returns the exit code: 1 for an error, 2 for wrong flags, 130 after Ctrl-C.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	return command.Run("fit", stderr, func() error { return o.parse(args, stderr) }, func() error { return program(o, stdout, stderr) })
}

func (o *options) parse(args []string, stderr io.Writer) error {
	f := command.NewFlagSet("fit", stderr)
	model := f.String("model", "gpt2", "what trains: "+strings.Join(names(), ", "))
	dev := f.String("device", "sim:80GiB", "where: memory (sim:80GiB, 80GiB), or a GPU by its name (H100, A100-40GB, \"RTX 4090\"; -list has all)")
	occupied := f.String("occupied", "0", "memory of the device that others have, the driver included, such as 600MiB")
	precisions := f.String("precisions", "float32,float16", "precisions to try: float32, float16, bfloat16")
	f.IntVar(&o.steps, "steps", 64, "training steps of each trial at most; it ends earlier when its memory repeats itself")
	f.IntVar(&o.most, "max-batch", 1<<24, "the largest batch to try")
	f.StringVar(&o.json, "json", "", "file to write the figures to")
	f.BoolVar(&o.list, "list", false, "print the models and the GPUs")
	if err := command.Parse(f, args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o.read(*model, *dev, *occupied, *precisions)
}

// read reads what flags say in words, and refuses what cannot be.
func (o *options) read(model, dev, occupied, precisions string) (err error) {
	if o.model = find(model); o.model == nil {
		return fmt.Errorf("-model is %q, must be one of %s", model, strings.Join(names(), ", "))
	}
	if o.capacity, err = fit.Capacity(dev); err != nil {
		return fmt.Errorf("-device: %w", err)
	}
	if g, ok := fit.FindGPU(dev); ok {
		o.gpu = g.Name
	}
	if o.occupied, err = device.ParseBytes(occupied); err != nil {
		return fmt.Errorf("-occupied: %w", err)
	}
	for name := range strings.SplitSeq(precisions, ",") {
		p, ok := map[string]tensor.DType{"float32": tensor.Float32, "float16": tensor.Float16, "bfloat16": tensor.BFloat16}[name]
		if !ok {
			return fmt.Errorf("-precisions has %q, must be float32, float16 or bfloat16", name)
		}
		if slices.Contains(o.precisions, p) {
			return fmt.Errorf("-precisions has %s twice", name)
		}
		o.precisions = append(o.precisions, p)
	}
	switch {
	case o.steps < 1:
		return fmt.Errorf("-steps is %d, must be at least 1", o.steps)
	case o.most < 1:
		return fmt.Errorf("-max-batch is %d, must be at least 1", o.most)
	case o.occupied >= o.capacity:
		return fmt.Errorf("-occupied is %s, must be less than the device's memory", occupied)
	}
	return nil
}

func program(o options, stdout, stderr io.Writer) error {
	if o.list {
		return list(stdout)
	}
	if err := session.CheckOutputs(session.Output{Flag: "json", File: o.json}); err != nil {
		return err
	}
	ctx, stop := command.Interrupts()
	defer stop()
	bar, end := progress(stderr)
	report, err := fit.Largest(ctx, o.capacity, o.model.program(), o.options(bar)...)
	end()
	if errors.Is(err, context.Canceled) {
		err = session.ErrInterrupted
	}
	if err != nil {
		err = unprefixed{err}
	}
	if len(report.Results) == 0 && err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: %s\n%s", o.model.name, o.model.about, report)
	return errors.Join(err, session.WriteJSON(o.json, report.Results))
}

// unprefixed is an error of package fit without its name, which is the program's too.
type unprefixed struct{ error }

func (u unprefixed) Error() string { return strings.TrimPrefix(u.error.Error(), "fit: ") }
func (u unprefixed) Unwrap() error { return u.error }

// options are those of the search.
func (o *options) options(bar func(fit.Trial, bool)) []fit.Option {
	all := []fit.Option{fit.Precisions(o.precisions...), fit.MaxBatch(o.most), fit.Occupied(o.occupied), fit.MaxSteps(o.steps),
		fit.DeviceName(o.gpu), fit.Progress(bar)}
	if o.model.checkpoints {
		all = append(all, fit.Checkpointing())
	}
	return all
}

// progress is what shows the trials on w, and what ends that.
func progress(w io.Writer) (show func(fit.Trial, bool), end func()) {
	w, end = session.Progress(w)
	return func(t fit.Trial, fits bool) {
		says := "does not fit"
		if fits {
			says = "fits"
		}
		fmt.Fprintf(w, "\r%-60s", fmt.Sprintf("%s: %d %s", t.Settings, t.Batch, says))
	}, end
}

// list prints what there is to choose from.
func list(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := range networks {
		fmt.Fprintf(table, "%s\t%s\n", networks[i].name, networks[i].about)
	}
	fmt.Fprintln(table)
	for _, g := range fit.GPUs() {
		fmt.Fprintf(table, "%s\t%s\t%s\n", g.Name, device.FormatBytes(g.Memory), g.Source)
	}
	return table.Flush()
}
