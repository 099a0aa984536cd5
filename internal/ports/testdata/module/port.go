package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// port is what a program runs with. Weights and data are sines of their place and name, which ports.py computes alike, and all is float64.
type port struct {
	dev   device.Device
	alloc memory.Allocator
	log   []float64

	models     []nn.Module
	optimizers []optim.Optimizer
	carried    []**tensor.Tensor
}

func newPort(dev device.Device) (*port, error) {
	alloc, err := memory.For(dev)
	return &port{dev: dev, alloc: alloc}, err
}

// graph is for one step.
func (p *port) graph(opts ...autograd.Option) *autograd.Graph {
	return autograd.NewGraph(p.dev, opts...)
}

// place gives m memory and its weights.
func (p *port) place(m nn.Module) error {
	p.models = append(p.models, m)
	if err := m.To(p.dev, nn.DType(tensor.Float64)); err != nil {
		return err
	}
	for _, n := range nn.NamedParameters(m) {
		if err := p.set(n.Parameter.Tensor(), weights(n.Name, n.Parameter.Shape())); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
	}
	return nil
}

func (p *port) set(t *tensor.Tensor, values []float64) error {
	from, err := tensor.FromSlice(t.Exec(), values, t.Shape()...)
	if err != nil {
		return err
	}
	defer from.Release()
	return t.CopyFrom(from)
}

// weights are the first values of a parameter: small, and around 1 for those of normalisations.
func weights(name string, shape []int) []float64 {
	n, in := 1, 1
	for i, d := range shape {
		n *= d
		if i > 0 {
			in *= d
		}
	}
	phase, scale, center := 0.0, 0.1, 0.0
	for _, c := range []byte(name) {
		phase += 0.1 * float64(c)
	}
	if len(shape) > 1 {
		scale = 0.8 / math.Sqrt(float64(in))
	} else if strings.HasSuffix(name, "weight") {
		center = 1
	}
	w := wave(n, phase, scale)
	for i := range w {
		w[i] += center
	}
	return w
}

// wave is n numbers scale*sin(phase+0.7*i).
func wave(n int, phase, scale float64) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = scale * math.Sin(phase+0.7*float64(i))
	}
	return w
}

// data is a variable of such numbers.
func (p *port) data(g *autograd.Graph, phase, scale float64, shape ...int) *autograd.Variable {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return autograd.FromSlice(g, wave(n, phase, scale), shape...)
}

// train says that an optimizer's state is held, too.
func (p *port) train(opts ...optim.Optimizer) { p.optimizers = append(p.optimizers, opts...) }

// carry says that tensors of the program are held, too: those that are in these variables when a step ends.
func (p *port) carry(ts ...**tensor.Tensor) { p.carried = append(p.carried, ts...) }

// hold is carry for tensors that stay the same.
func (p *port) hold(ts ...*tensor.Tensor) {
	for i := range ts {
		p.carry(&ts[i])
	}
}

// leaves are the bytes of what may be in memory between steps: parameters and buffers, gradients, the state of optimizers, what is carried.
func (p *port) leaves() int64 {
	var bytes int64
	for _, m := range p.models {
		for _, n := range append(nn.NamedParameters(m), nn.NamedBuffers(m)...) {
			bytes += size(n.Parameter.Tensor()) + size(n.Parameter.Grad())
		}
	}
	for _, o := range p.optimizers {
		bytes += int64(o.StateBytes())
	}
	for _, t := range p.carried {
		bytes += size(*t)
	}
	return bytes
}

func size(t *tensor.Tensor) int64 {
	if t == nil {
		return 0
	}
	return int64(t.StorageBytes())
}

// losses logs the values of a step and releases its graph, after which nothing but leaves may be in memory.
func (p *port) losses(g *autograd.Graph, losses ...*autograd.Variable) error {
	values := make([]float64, len(losses))
	for i, v := range losses {
		var err error
		if values[i], err = v.Item(); err != nil {
			return err
		}
	}
	g.Release()
	return p.step(values...)
}

// step is losses for numbers, when the graph has been released.
func (p *port) step(values ...float64) error {
	p.log = append(p.log, values...)
	if got, want := p.allocated(), p.leaves(); got != want {
		return fmt.Errorf("after %d numbers of the log %d bytes are in use, leaves have %d", len(p.log), got, want)
	}
	return nil
}

func (p *port) allocated() int64 { return p.alloc.Stats().AllocatedBytes.All.Current }
