package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/cistern-ml/cistern/examples/internal/lm"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/examples/internal/text"
)

// report collects the numbers of a run. On a simulated device the losses are 0, as nothing is computed there.
type report struct {
	TrainLoss      float64 `json:"train_loss"` // mean of the last steps
	ValLoss        float64 `json:"val_loss"`
	FirstLoss      float64 `json:"first_loss"`
	StepsPerSecond float64 `json:"steps_per_second"`
	LateSteps      float64 `json:"late_steps_per_second"` // of the second half, when everything is loaded
	Parameters     int     `json:"parameters"`
	Skipped        int     `json:"skipped_steps"`
	session.Memory

	sample      string
	interrupted bool
}

// program runs everything. Whatever happens, it gives all device memory back, and says so if that fails.
func program(o options, stdout, stderr io.Writer) (err error) {
	if err := session.CheckOutputs(session.Output{Flag: "save", File: o.save}, session.Output{Flag: "json", File: o.JSON}); err != nil {
		return err
	}
	corpus, err := text.Load(o.Text)
	if err != nil {
		return err
	}
	s, err := o.watch.Open(o.Device, o.fraction, stderr)
	if err != nil {
		return err
	}
	defer func() { err = s.Close(err) }()
	if err := s.BeginPlan(o.plan); err != nil {
		return err
	}
	t, err := lm.New(s, o.Config, corpus)
	if err != nil {
		return err
	}
	defer t.Release()
	r, err := train(t, o, stderr)
	if err != nil {
		return err
	}
	r.print(stdout, t)
	if err := session.WriteJSON(o.JSON, r); err != nil {
		return err
	}
	if r.interrupted {
		return session.ErrInterrupted
	}
	return nil
}

func train(t *lm.Trainer, o options, bars io.Writer) (*report, error) {
	if err := t.Resume(o.resume); err != nil {
		return nil, err
	}
	r := &report{Parameters: t.Parameters()}
	last := o.Steps
	if o.stop > 0 {
		last = min(last, o.stop)
	}
	p, err := t.Train("", last, bars, nil)
	if err != nil {
		return nil, err
	}
	if len(p.Losses) > 0 {
		r.FirstLoss = p.Losses[0]
	}
	r.TrainLoss, r.StepsPerSecond, r.LateSteps = p.TrainLoss, p.StepsPerSecond, p.LateSteps
	if r.interrupted = p.Interrupted; !r.interrupted {
		err := r.try(t, o)
		if r.interrupted = errors.Is(err, session.ErrInterrupted); err != nil && !r.interrupted {
			return nil, err
		}
	}
	if err := t.Save(o.save); err != nil {
		return nil, err
	}
	if r.Skipped, err = t.Skipped(); err != nil {
		return nil, err
	}
	t.Finish()
	r.Memory = t.Memory
	return r, nil
}

// try finds out what the model has learned.
func (r *report) try(t *lm.Trainer, o options) (err error) {
	if r.ValLoss, err = t.Validate(); err != nil {
		return fmt.Errorf("validating: %w", err)
	}
	if t.Computes() {
		if r.sample, err = t.Sample("\nPROP. ", o.sample, o.Seed, o.writing); err != nil {
			return fmt.Errorf("sampling: %w", err)
		}
	}
	return nil
}

// print writes what the model wrote, the closing table and the memory summary.
func (r *report) print(w io.Writer, t *lm.Trainer) {
	if r.sample != "" {
		fmt.Fprintf(w, "--- the model writes ---%s\n---\n", r.sample)
	}
	t.Print(w, func(row session.Row) {
		row("characters", "%d to train, %d to validate, %d different", len(t.Corpus.Train), len(t.Corpus.Val), len(t.Corpus.Alphabet))
		row("parameters", "%d", r.Parameters)
		if t.Computes() {
			row("training loss", "%.4f at first, %.4f at last", r.FirstLoss, r.TrainLoss)
			if r.interrupted && r.ValLoss == 0 {
				row("validation loss", "none: interrupted")
			} else {
				row("validation loss", "%.4f per character", r.ValLoss)
			}
		} else {
			row("losses", "none: a simulated device does not compute")
		}
		row("training steps", "%d, %.2f per second, %d left out", t.Session.Steps, r.StepsPerSecond, r.Skipped)
	})
}
