// Pipeline trains a network for handwritten digits whose layers lie on several devices of this process, one behind the other.
//
//	go run ./examples/pipeline                                      two devices of host memory
//	go run ./examples/pipeline -devices cuda:0,cuda:1               two GPUs: activations go from one to the other by the driver
//	go run ./examples/pipeline -devices host:1GiB                   one device: the same losses, to the last digit
//	go run ./examples/pipeline -devices sim:80GiB,sim:80GiB -width 8192 -layers 32 -batch 4096
//	                                                                what would each device hold?
//
// A batch is cut into parts. While one part is on the second device the next is on the first, where work is asynchronous, and no device holds
// the activations of more parts than there are devices from it to the end. The gradients of all parts are added up before the optimizers step.
package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cistern-ml/cistern/examples/internal/digits"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/internal/command"
	"github.com/cistern-ml/cistern/internal/stepplan"
)

// options are the program's flags.
type options struct {
	Devices []string `json:"devices"`
	Parts   int      `json:"parts"`
	Batch   int      `json:"batch"`
	Steps   int      `json:"steps"`
	Width   int      `json:"width"`
	Layers  int      `json:"layers"`
	LR      float64  `json:"lr"`
	Seed    uint64   `json:"seed"`
	Plan    bool     `json:"plan"`

	devices string
	json    string
	session func(device string) (*session.Session, error)
}

func main() { command.Main("pipeline", run) }

func run(args []string, stdout, stderr io.Writer) int {
	o := options{session: func(device string) (*session.Session, error) { return session.Open(device, 1) }}
	return command.Run("pipeline", stderr, func() error { return o.parse(args, stderr) }, func() error { return o.train(stdout, stderr) })
}

func (o *options) parse(args []string, stderr io.Writer) error {
	f := session.NewChecked("pipeline", stderr)
	f.StringVar(&o.devices, "devices", "host:1GiB,host:1GiB", "the devices, with commas between them: host:1GiB, cuda:0 or sim:80GiB, each with a part of the layers")
	f.Count(&o.Parts, "parts", 4, 1, session.MostBatch, "parts of a batch")
	f.Count(&o.Batch, "batch", 64, 1, session.MostBatch, "images in a step, a multiple of -parts")
	f.Count(&o.Steps, "steps", 300, 1, session.MostSteps, "steps of training")
	f.Count(&o.Width, "width", 256, 1, session.MostWidth, "width of the hidden layers")
	f.Count(&o.Layers, "layers", 4, 1, 1<<10, "linear layers")
	f.Positive(&o.LR, "lr", 1e-3, "learning rate")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of all random numbers")
	f.PlanFlag(&o.Plan)
	f.File(&o.json, "json", "", "file to write the figures to")
	if err := f.Read(args); err != nil {
		return err
	}
	o.Devices = strings.Split(o.devices, ",")
	switch {
	case len(o.Devices) > o.Layers:
		return fmt.Errorf("-devices has %d, more than -layers, which is %d", len(o.Devices), o.Layers)
	case o.Batch%o.Parts != 0:
		return fmt.Errorf("-batch is %d, must be a multiple of -parts, which is %d", o.Batch, o.Parts)
	}
	return nil
}

// report is what the program tells; lists are by device.
type report struct {
	options
	Losses []float64           `json:"losses"` // by step, the mean of its images
	Held   []uint64            `json:"held_bytes"`
	Peak   []uint64            `json:"peak_allocated_bytes"`
	Counts []int               `json:"layers_by_device"`
	Plans  []*stepplan.Figures `json:"plans,omitempty"` // by device, with -plan
}

// train does all that the flags ask for.
func (o *options) train(stdout, stderr io.Writer) (err error) {
	set, _, err := digits.Load("", 2)
	if err != nil {
		return err
	}
	p, err := o.open(set)
	if err != nil {
		return err
	}
	r := report{options: *o}
	defer func() {
		err = p.close(err)
	}()
	bar, end := session.Progress(stderr)
	err = p.stages[0].Loop(bar, o.Steps, func() (string, error) {
		loss, err := p.step(len(r.Losses))
		r.Losses = append(r.Losses, loss)
		return p.stages[0].Says("training", "loss %.4f", loss), err
	})
	end()
	if err != nil && !errors.Is(err, session.ErrInterrupted) {
		return err
	}
	for _, s := range p.stages {
		err = errors.Join(err, s.EndPlan())
		if s.Plan != nil {
			r.Plans = append(r.Plans, s.Plan)
		}
		r.Counts, r.Held, r.Peak = append(r.Counts, s.layers), append(r.Held, s.Allocated()), append(r.Peak, s.peak())
	}
	return errors.Join(err, r.tell(stdout, p.computes()))
}

// tell prints the table, and writes the figures.
func (r *report) tell(w io.Writer, computed bool) error {
	if n := len(r.Losses); computed && n > 0 {
		fmt.Fprintf(w, "%d devices, batches of %d in %d parts: loss %.4f at first, %.4f after %d steps\n\n", len(r.Devices), r.Batch, r.Parts, r.Losses[0], r.Losses[n-1], n)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "device\tlayers\theld\tpeak\t")
	for i, d := range r.Devices {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t\n", d, r.Counts[i], session.Bytes(r.Held[i]), session.Bytes(r.Peak[i]))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i, plan := range r.Plans {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s: plan, %s\n", r.Devices[i], plan)
	}
	if r.json == "" {
		return nil
	}
	if !computed {
		r.Losses = nil
	}
	return session.WriteJSON(r.json, r)
}
