package main

import (
	"errors"
	"time"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/stepplan"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// trainer is a program in work.
type trainer struct {
	*program
	options
	dev    device.Device
	exec   tensor.Exec
	alloc  memory.Allocator
	model  nn.Layer
	opt    *optim.Grouped
	scaler *amp.GradScaler
	casts  *amp.WeightCache // nil for none
	plan   *memory.Plan     // nil for none
	gen    *tensor.Generator
}

// train runs a program on a device of its own and gives everything back. Between the steps it calls after.
func train(o options, p *program, after func(t *trainer, step int)) error {
	dev, err := device.Open(o.device)
	if err != nil {
		return err
	}
	return trainOn(dev, o, p, after)
}

// trainOn is train on a device, which it closes.
func trainOn(dev device.Device, o options, p *program, after func(t *trainer, step int)) (err error) {
	defer func() { err = errors.Join(err, memory.Drop(dev), dev.Close()) }()
	t := &trainer{program: p, options: o, dev: dev, gen: tensor.NewGenerator(1), scaler: amp.NewGradScaler(amp.Enabled(o.amp == "fp16")), casts: amp.NewWeightCache()}
	if p.checkpoints { // each part frees its casts when it is done; kept ones would be the most of what there is at the peak
		t.casts = nil
	}
	defer t.scaler.Release()
	defer t.casts.Release()
	if t.alloc, err = memory.For(dev); err != nil {
		return err
	}
	if o.plan {
		if t.plan, err = stepplan.Begin(t.alloc); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.plan.Close()) }()
	}
	if t.exec, err = tensor.On(dev); err != nil {
		return err
	}
	if t.model, err = p.model(p); err != nil {
		return err
	}
	defer t.model.Release()
	place := []nn.Option{nn.WithGenerator(t.gen)}
	if o.last {
		place = append(place, nn.MemoryFormat(tensor.ChannelsLast))
	}
	if err := t.model.To(dev, place...); err != nil {
		return err
	}
	t.opt = p.optim(t.model.Parameters())
	defer t.opt.Release()
	return t.steps(after)
}

func (t *trainer) steps(after func(t *trainer, step int)) error {
	lengths, n := varying(t.varying), t.options.steps
	if len(lengths) > 0 {
		n = len(lengths)
	}
	for i := range n {
		seq := t.program.seq
		if len(lengths) > 0 {
			seq = lengths[i]
		}
		if err := t.step(t.program.batch, seq); err != nil {
			return err
		}
		if t.evalAt > 0 && (i+1)%t.evalAt == 0 {
			if err := t.evaluate(); err != nil {
				return err
			}
		}
		if after != nil {
			after(t, i)
		}
	}
	return nil
}

func (t *trainer) graph(opts ...autograd.Option) *autograd.Graph {
	opts = append(opts, autograd.WithGenerator(t.gen), autograd.WithPlan(t.plan))
	if t.amp != "off" {
		opts = append(opts, amp.Autocast(precisions[t.amp], t.casts))
	}
	return autograd.NewGraph(t.dev, opts...)
}

// step is one training step.
func (t *trainer) step(batch, seq int) error {
	g := t.graph() // before the batch, which is of the step then
	defer g.Release()
	x, y, err := t.inputs(t.exec, t.gen, batch, seq, t.last)
	if err != nil {
		return err
	}
	defer x.Release()
	defer y.Release()
	if err := t.gradients(g, x, y); err != nil {
		return err
	}
	t.casts.Release() // the weights are about to change
	if err := t.scaler.Step(t.opt); err != nil {
		return err
	}
	if err := t.scaler.Update(); err != nil {
		return err
	}
	t.opt.ZeroGrad()
	return nil
}

func (t *trainer) gradients(g *autograd.Graph, x, y *tensor.Tensor) error {
	defer g.Release()
	loss := g.Scope(func() *autograd.Variable {
		logits := t.model.Forward(g.Input(x))
		return logits.Reshape(y.Len(), logits.Dim(-1)).CrossEntropy(g.Input(y))
	})
	return t.scaler.Backward(loss)
}

// evaluate runs the model on a batch of 200 without gradients.
func (t *trainer) evaluate() error {
	g := t.graph(autograd.NoGrad())
	defer g.Release()
	x, y, err := t.inputs(t.exec, t.gen, 200, t.program.seq, t.last)
	if err != nil {
		return err
	}
	defer x.Release()
	defer y.Release()
	nn.Eval(t.model)
	defer nn.Train(t.model)
	t.model.Forward(g.Input(x))
	return g.Err()
}

// varying are the lengths of sequences, 32 to 256, in an order that looks random and is the same each time.
func varying(steps int) []int {
	lengths := make([]int, steps)
	at := uint32(1)
	for i := range lengths {
		at = at*1664525 + 1013904223 // Numerical Recipes' generator: its upper bits will do here
		lengths[i] = 32 + int(at>>16)%225
	}
	return lengths
}

// timed is the time of f.
func timed(f func() error) (time.Duration, error) {
	start := time.Now()
	err := f()
	return time.Since(start), err
}
