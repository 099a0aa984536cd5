package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/examples/internal/lm"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/examples/internal/text"
	"github.com/cistern-ml/cistern/internal/plural"
)

// training is one of the three. On a simulated device the losses are 0, as nothing is computed there.
type training struct {
	Name           string    `json:"name"`
	Losses         []float64 `json:"losses"` // of each step
	TrainLoss      float64   `json:"train_loss"`
	ValLoss        float64   `json:"val_loss"`
	StepsPerSecond float64   `json:"steps_per_second"`
	LateSteps      float64   `json:"late_steps_per_second"` // of the second half, when everything is loaded
	Skipped        int       `json:"skipped_steps"`
	Overflow       *overflow `json:"forced_overflow,omitempty"`
	session.Memory

	interrupted bool // the numbers are of the steps until then, without validation
}

// overflow is what the scaler made of the infinite gradient.
type overflow struct {
	Step        int     `json:"step"`
	ScaleBefore float64 `json:"scale_before"`
	ScaleAfter  float64 `json:"scale_after"`
	Skipped     int     `json:"skipped_steps"`
}

// report is the program's JSON.
type report struct {
	Parameters int         `json:"parameters"`
	Trainings  []*training `json:"trainings"`

	interrupted bool
}

// precisions are the trainings, in their order.
var precisions = []struct{ amp, name, file string }{
	{"off", "float32", "float32"}, {"fp16", "float16 with GradScaler", "float16"}, {"bf16", "bfloat16", "bfloat16"},
}

func program(o options, stdout, stderr io.Writer) error {
	if err := session.CheckOutputs(append(o.watched(), session.Output{Flag: "plot", File: o.plot}, session.Output{Flag: "json", File: o.JSON})...); err != nil {
		return err
	}
	corpus, err := text.Load(o.Text)
	if err != nil {
		return err
	}
	r := &report{}
	for _, p := range precisions {
		run, err := r.train(o, corpus, p.amp, p.name, o.watch.Of(p.file), stderr)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if len(run.Losses) > 0 {
			r.Trainings = append(r.Trainings, run)
		}
		if run.interrupted {
			r.interrupted = true
			break
		}
	}
	if len(r.Trainings) == 0 {
		return session.ErrInterrupted
	}
	r.print(stdout)
	if o.plot != "" && r.computed() {
		if err := r.draw(o.plot); err != nil {
			return err
		}
		fmt.Fprintln(stdout, "\nthe losses are drawn in", o.plot)
	}
	if err := session.WriteJSON(o.JSON, r); err != nil {
		return err
	}
	if r.interrupted {
		return session.ErrInterrupted
	}
	return nil
}

// train is one training on a device of its own. Whatever happens, it gives all device memory back, and says so if that fails.
func (r *report) train(o options, corpus *text.Corpus, precision, name string, watch *session.Watch, bars io.Writer) (run *training, err error) {
	s, err := watch.Open(o.Device, 1, bars)
	if err != nil {
		return nil, err
	}
	defer func() { err = s.Close(err) }()
	if err := s.BeginPlan(o.plan); err != nil {
		return nil, err
	}
	o.AMP = precision
	t, err := lm.New(s, o.Config, corpus)
	if err != nil {
		return nil, err
	}
	defer t.Release()
	r.Parameters = t.Parameters()
	run = &training{Name: name}
	if err := run.steps(t, o, bars); err != nil {
		return nil, err
	}
	if !run.interrupted {
		run.ValLoss, err = t.Validate()
		if run.interrupted = errors.Is(err, session.ErrInterrupted); err != nil && !run.interrupted {
			return nil, fmt.Errorf("validating: %w", err)
		}
	}
	if run.Skipped, err = t.Skipped(); err != nil {
		return nil, err
	}
	t.Finish()
	run.Memory = t.Memory
	return run, nil
}

func (run *training) steps(t *lm.Trainer, o options, bars io.Writer) error {
	p, err := t.Train(run.Name+", ", o.Steps, bars, func(at int) (float64, error) {
		if o.AMP == "fp16" && at > 0 && at == o.overflow {
			return run.spoiled(t, at)
		}
		return t.TrainStep()
	})
	run.Losses, run.TrainLoss, run.StepsPerSecond, run.LateSteps, run.interrupted = p.Losses, p.TrainLoss, p.StepsPerSecond, p.LateSteps, p.Interrupted
	return err
}

// spoiled is a step in which the first parameter's gradient is infinite.
func (run *training) spoiled(t *lm.Trainer, at int) (float64, error) {
	t.Spoil = func(_ int, params []*autograd.Parameter) error { return params[0].Grad().FillInPlace(math.Inf(1)) }
	defer func() { t.Spoil = nil }()
	before, err := t.Scale()
	if err != nil {
		return 0, err
	}
	skipped, err := t.Skipped()
	if err != nil {
		return 0, err
	}
	loss, err := t.TrainStep()
	if err != nil {
		return 0, err
	}
	after, err := t.Scale()
	if err != nil {
		return 0, err
	}
	now, err := t.Skipped()
	run.Overflow = &overflow{Step: at + 1, ScaleBefore: before, ScaleAfter: after, Skipped: now - skipped}
	return loss, err
}

// planned tells of the plans, if there were any.
func (r *report) planned(w io.Writer) {
	for _, t := range r.Trainings {
		if t.Plan != nil {
			fmt.Fprintf(w, "\n%s: plan, %s", t.Name, t.Plan)
		}
	}
	if r.Trainings[0].Plan != nil {
		fmt.Fprintln(w)
	}
}

// computed reports whether there are losses.
func (r *report) computed() bool { return r.Trainings[0].Losses[0] != 0 }

// print writes the table.
func (r *report) print(w io.Writer) {
	base := r.Trainings[0]
	fmt.Fprintf(w, "\n%s, %d parameters, %s\n\n", base.Memory.Name, r.Parameters, plural.Of(base.Steps, "step"))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "precision\ttraining loss\tvalidation loss\tsteps/s\tpeak allocated\tof float32's\tpeak reserved\tleft out\t")
	for _, t := range r.Trainings {
		training, validation := fmt.Sprintf("%.4f", t.TrainLoss), fmt.Sprintf("%.4f", t.ValLoss)
		if t.interrupted {
			validation = "interrupted"
		}
		if !r.computed() {
			training, validation = "none", "none"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%.2f\t%s\t%.3f\t%s\t%d\t\n", t.Name, training, validation, t.StepsPerSecond,
			device.FormatBytes(uint64(t.PeakAllocated)), float64(t.PeakAllocated)/float64(base.PeakAllocated),
			device.FormatBytes(uint64(t.PeakReserved)), t.Skipped)
	}
	table.Flush()
	r.planned(w)
	if !r.computed() {
		fmt.Fprintln(w, "\nThere are no losses: a simulated device does not compute.")
		return
	}
	for _, t := range r.Trainings {
		if o := t.Overflow; o != nil {
			fmt.Fprintf(w, "\nIn step %d of %s a gradient was made infinite: %d step was left out, and the scale went from %g to %g.\n",
				o.Step, t.Name, o.Skipped, o.ScaleBefore, o.ScaleAfter)
		}
	}
}
