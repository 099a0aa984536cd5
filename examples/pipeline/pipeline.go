package main

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/examples/internal/digits"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/tensor"
)

// stage is the layers of one device.
type stage struct {
	*session.Session
	exec   tensor.Exec
	layers int
	model  nn.Layer
	opt    optim.Optimizer
}

func (s *stage) peak() uint64 { return uint64(s.Alloc.Stats().AllocatedBytes.All.Peak) }

// pipeline is all stages, and what they are trained with.
type pipeline struct {
	*options
	stages []*stage
	set    digits.Set
}

// open spreads the layers over the devices.
func (o *options) open(set digits.Set) (p *pipeline, err error) {
	p = &pipeline{options: o, set: set}
	defer func() {
		if err != nil {
			err = p.close(err)
		}
	}()
	first := 0
	for i, name := range o.Devices {
		end := o.Layers * (i + 1) / len(o.Devices)
		s, err := o.openStage(name, first, end, set.Side*set.Side)
		if s != nil {
			p.stages = append(p.stages, s)
		}
		if err != nil {
			return p, err
		}
		if err := p.fits(s, i); err != nil {
			return p, err
		}
		first = end
	}
	return p, nil
}

// fits refuses a device that is a stage already, whose memory would be counted twice, and one that computes beside one that does not.
func (p *pipeline) fits(s *stage, at int) error {
	for i, other := range p.stages[:at] {
		if other.Device.ID() == s.Device.ID() {
			return fmt.Errorf("-devices names %v twice, as %s and as %s", s.Device.ID(), p.Devices[i], p.Devices[at])
		}
		if other.Computes() != s.Computes() {
			return fmt.Errorf("-devices has %s and %s, of which only one computes", p.Devices[i], p.Devices[at])
		}
	}
	return nil
}

// openStage opens a device and makes layers first to end-1 of the network there.
func (o *options) openStage(name string, first, end, pixels int) (*stage, error) {
	opened, err := o.session(name)
	if err != nil {
		return nil, err
	}
	s := &stage{Session: opened, layers: end - first}
	if err := s.BeginPlan(o.Plan); err != nil {
		return s, err
	}
	if s.exec, err = tensor.On(s.Device); err != nil {
		return s, err
	}
	var layers []nn.Layer
	for i := first; i < end; i++ {
		in, out := o.Width, o.Width
		if i == 0 {
			in = pixels
		}
		if i == o.Layers-1 {
			out = 10
		}
		linear := nn.Linear(in, out)
		layers = append(layers, linear)
		if i < o.Layers-1 {
			layers = append(layers, nn.ReLU())
		}
		if err := linear.To(s.Device, nn.Seed(o.Seed+uint64(i))); err != nil { // the same wherever the layer lies
			nn.Sequential(layers...).Release()
			return s, err
		}
	}
	s.model = nn.Sequential(layers...)
	s.opt = optim.AdamW(s.model.Parameters(), optim.LR(o.LR))
	return s, nil
}

func (p *pipeline) computes() bool { return p.stages[0].Computes() }

// close gives everything back.
func (p *pipeline) close(err error) error {
	for _, s := range p.stages {
		if s.opt != nil {
			s.opt.Release()
		}
		if s.model != nil {
			s.model.Release()
		}
		err = s.Close(err)
	}
	return err
}

// part is a part of a batch on its way: for each stage a graph, what came in, and what went out.
type part struct {
	graphs  []*autograd.Graph
	in, out []*autograd.Variable
	given   []*tensor.Tensor // what graphs have borrowed
	loss    *tensor.Tensor   // after backward
}

func (t *part) release() {
	for _, g := range t.graphs {
		g.Release()
	}
	for _, x := range t.given {
		x.Release()
	}
	t.graphs, t.in, t.out, t.given = nil, nil, nil, nil
}

// step trains on one batch and returns the loss. Backward of a part comes when as many are on their way as there are stages.
func (p *pipeline) step(number int) (loss float64, err error) {
	way := make([]part, p.Parts)
	defer func() {
		for i := range way {
			way[i].release() // after an error
			way[i].loss.Release()
		}
	}()
	for i := 0; i < p.Parts+len(p.stages)-1; i++ {
		if i < p.Parts {
			if err := p.forward(&way[i], number, i); err != nil {
				return 0, err
			}
		}
		if k := i - len(p.stages) + 1; k >= 0 {
			if err := p.backward(&way[k]); err != nil {
				return 0, err
			}
		}
	}
	for _, s := range p.stages {
		if err := s.opt.Step(); err != nil {
			return 0, err
		}
		s.opt.ZeroGrad()
		s.Step()
	}
	for i := range way { // only now: reading waits for the device
		of, err := way[i].loss.Item()
		if err != nil {
			return 0, err
		}
		loss += of
	}
	return loss, nil
}

// forward sends a part through all stages.
func (p *pipeline) forward(t *part, number, k int) error {
	rows := p.Batch / p.Parts
	images, labels := make([]float32, 0, rows*p.set.Side*p.set.Side), make([]int64, rows)
	for i := range labels {
		at := (number*p.Batch + k*rows + i) % p.set.Len()
		images, labels[i] = append(images, p.set.Image(at)...), p.set.Labels[at]
	}
	x, err := tensor.FromSlice(p.stages[0].exec, images, rows, p.set.Side*p.set.Side)
	if err != nil {
		return err
	}
	t.given = append(t.given, x)
	for i, s := range p.stages {
		var begins []autograd.Option
		if k == 0 { // the first part's graphs begin the step
			begins = append(begins, s.Planned())
		}
		g := autograd.NewGraph(s.Device, begins...)
		t.graphs = append(t.graphs, g)
		var leaf []autograd.LeafOption
		if i > 0 {
			leaf = append(leaf, autograd.RequiresGrad())
		}
		in := g.Input(x, leaf...)
		t.in, t.out = append(t.in, in), append(t.out, s.model.Forward(in))
		if i == len(p.stages)-1 {
			break
		}
		y, err := t.out[i].Tensor()
		if err != nil {
			return err
		}
		if x, err = y.ToDevice(p.stages[i+1].exec); err != nil {
			return err
		}
		t.given = append(t.given, x)
	}
	last := len(p.stages) - 1
	y, err := tensor.FromSlice(p.stages[last].exec, labels, rows)
	if err != nil {
		return err
	}
	t.given = append(t.given, y)
	t.out[last] = t.out[last].CrossEntropy(t.graphs[last].Input(y)).DivScalar(float64(p.Parts))
	return nil
}

// backward sends the gradients of a part back, and releases it but for the loss.
func (p *pipeline) backward(t *part) error {
	last := len(p.stages) - 1
	loss, err := t.out[last].Tensor()
	if err != nil {
		return err
	}
	t.loss = loss.Retain()
	if err := t.out[last].Backward(); err != nil {
		return err
	}
	for i := last - 1; i >= 0; i-- {
		gradient, err := t.in[i+1].Grad().ToDevice(p.stages[i].exec)
		if err != nil {
			return err
		}
		err = t.out[i].Backward(autograd.WithGradient(gradient))
		gradient.Release()
		if err != nil {
			return err
		}
	}
	t.release()
	return nil
}
