package main

import (
	"context"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/fit"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

// trainer is a network in training, on a trial's device.
type trainer struct {
	*network
	fit.Trial
	layer  nn.Layer
	opt    *optim.Grouped
	scaler *amp.GradScaler
	casts  *amp.WeightCache // of the weights, until the step that changes them; nil if layers are computed again
	exec   tensor.Exec
}

// program trains for as many steps as a trial wants.
func (n *network) program() fit.Program {
	return func(ctx context.Context, trial fit.Trial) error {
		t, err := n.trainer(trial)
		if err != nil {
			return err
		}
		defer t.release()
		for range trial.Steps() {
			if err := t.step(); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
}

func (n *network) trainer(trial fit.Trial) (*trainer, error) {
	exec, err := tensor.On(trial.Device)
	if err != nil {
		return nil, err
	}
	layer, err := n.model(trial.Checkpoint)
	if err != nil {
		return nil, err
	}
	if err := layer.To(trial.Device, nn.Seed(1)); err != nil {
		layer.Release()
		return nil, err
	}
	t := &trainer{network: n, Trial: trial, layer: layer, opt: optim.AdamW(layer.Parameters()), exec: exec,
		scaler: amp.NewGradScaler(amp.Enabled(trial.Precision == tensor.Float16))}
	if !trial.Checkpoint { // each layer frees its casts when it is done, then; kept ones would be there at the peak
		t.casts = amp.NewWeightCache()
	}
	return t, nil
}

func (t *trainer) release() {
	t.casts.Release()
	t.scaler.Release()
	t.opt.Release()
	t.layer.Release()
}

// step takes one training step on a batch of its own.
func (t *trainer) step() error {
	x, y, err := t.batch(t.exec, t.Batch)
	if err != nil {
		return err
	}
	defer x.Release()
	defer y.Release()
	if err := t.gradients(x, y); err != nil {
		return err
	}
	t.casts.Release() // the weights are about to change
	if err := t.scaler.Unscale(t.opt); err != nil {
		return err
	}
	if err := optim.ClipGradNormAsync(t.opt.Parameters(), 1); err != nil {
		return err
	}
	if err := t.scaler.Step(t.opt); err != nil {
		return err
	}
	t.opt.ZeroGrad()
	return t.scaler.Update()
}

// gradients goes forward and backward.
func (t *trainer) gradients(x, y *tensor.Tensor) error {
	var opts []autograd.Option
	if t.Half() {
		opts = append(opts, amp.Autocast(t.Precision, t.casts))
	}
	g := autograd.NewGraph(t.Device, opts...)
	defer g.Release()
	return t.scaler.Backward(loss(g, t.layer, x, y))
}
