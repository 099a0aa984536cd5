package lm

import (
	"context"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
)

// state is all that training goes on from: with it, the next step has the numbers that it would have had without a break.
func (t *Trainer) state() *checkpoint.Checkpoint {
	return checkpoint.New().
		Add("model", checkpoint.Module(t.model)).
		Add("optimizer", checkpoint.Optimizer(t.opt)).
		Add("scaler", checkpoint.State(t.scaler)).
		Add("generator", checkpoint.Generator(t.gen)).
		Add("step", checkpoint.Value(&t.step))
}

// Save writes the state of training to a file, unless it has no name. Weights are those of a safetensors file.
func (t *Trainer) Save(file string) error {
	if file == "" {
		return nil
	}
	return errors.Wrap(t.state().WriteFile(context.Background(), file), "saving to "+file)
}

// Resume reads the state of training from a file, unless it has no name.
func (t *Trainer) Resume(file string) error {
	if file == "" {
		return nil
	}
	return errors.Wrap(t.state().ReadFile(context.Background(), file), "resuming from "+file)
}

// Next is the number of the next step.
func (t *Trainer) Next() int { return t.step }
