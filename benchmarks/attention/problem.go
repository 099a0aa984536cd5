package main

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/benchmarks/internal/peer"
	"github.com/cistern-ml/cistern/tensor"
)

// shape is that of the operands: queries [Batch, Heads, Queries, Width], keys and values [Batch, Groups, Keys, Width].
type shape struct {
	Batch   int `json:"batch"`
	Heads   int `json:"heads"`
	Queries int `json:"queries"`
	Keys    int `json:"keys"`
	Width   int `json:"width"`
	Groups  int `json:"groups"`
}

func (s shape) String() string {
	text := fmt.Sprintf("%dx%dx%dx%dx%d", s.Batch, s.Heads, s.Queries, s.Keys, s.Width)
	if s.grouped() {
		text += fmt.Sprintf(":%d", s.Groups)
	}
	return text
}

// grouped reports whether several heads of queries share one of keys.
func (s shape) grouped() bool { return s.Groups != s.Heads }

// Passes, as the script calls them too.
const (
	forward  = "forward"
	backward = "backward"
	both     = "both"
)

// problem is what is computed.
type problem struct {
	shape
	Type   string `json:"type"`
	Causal bool   `json:"causal"`
	Pass   string `json:"pass"`
}

// problems of a shape and type.
func problems(s shape, d tensor.DType) (list []problem) {
	for _, causal := range []bool{false, true} {
		if causal && s.Queries != s.Keys {
			continue
		}
		for _, pass := range []string{forward, backward, both} {
			if pass == forward || s.Queries > 1 {
				list = append(list, problem{shape: s, Type: d.String(), Causal: causal, Pass: pass})
			}
		}
	}
	return list
}

// flops are the floating-point operations of a problem, by the convention of main.go.
func (p *problem) flops() float64 {
	n := 4 * float64(p.Batch) * float64(p.Heads) * float64(p.Queries) * float64(p.Keys) * float64(p.Width)
	if p.Causal {
		n /= 2
	}
	switch p.Pass {
	case backward:
		return 2.5 * n
	case both:
		return 3.5 * n
	}
	return n
}

// operands are of one shape and type.
type operands struct {
	exec          tensor.Exec
	q, k, v, grad *tensor.Tensor
}

func newOperands(e tensor.Exec, d tensor.DType, s shape) (o *operands, err error) {
	o = &operands{exec: e}
	defer func() {
		if err != nil {
			o.release()
		}
	}()
	for i, t := range []**tensor.Tensor{&o.q, &o.k, &o.v} {
		heads, length := s.Groups, s.Keys
		if i == 0 {
			heads, length = s.Heads, s.Queries
		}
		if *t, err = peer.Fill(e, d, i, s.Batch, heads, length, s.Width); err != nil {
			return o, err
		}
	}
	grad, err := peer.Fill(e, d, 3, s.Batch, s.Queries, s.Heads, s.Width)
	if err != nil {
		return o, err
	}
	defer grad.Release()
	o.grad, err = grad.Transpose(1, 2)
	return o, err
}

func (o *operands) release() {
	for _, t := range []*tensor.Tensor{o.q, o.k, o.v, o.grad} {
		t.Release()
	}
}

// call is a problem's. What it makes, use sees before it is released. end releases what the calls needed.
func (o *operands) call(p *problem) (call func(use func(...*tensor.Tensor) error) error, end func()) {
	switch p.Pass {
	case forward:
		return func(use func(...*tensor.Tensor) error) error {
			y, err := tensor.ScaledDotProductAttention(o.q, o.k, o.v, tensor.Attention{IsCausal: p.Causal, EnableGQA: p.grouped()})
			if err != nil {
				return err
			}
			defer y.Release()
			return use(y)
		}, func() {}
	case both:
		return func(use func(...*tensor.Tensor) error) error {
			g := o.graph(p)
			defer g.graph.Release()
			return g.grads(o, use)
		}, func() {}
	}
	g := o.graph(p)
	return func(use func(...*tensor.Tensor) error) error { return g.grads(o, use, autograd.RetainGraph()) }, g.graph.Release
}

// attended is a graph with the result of attention. Its first error is that of the gradients.
type attended struct {
	graph  *autograd.Graph
	out    *autograd.Variable
	leaves []*autograd.Variable
}

func (o *operands) graph(p *problem) *attended {
	g := autograd.NewGraph(o.exec.Device(), autograd.WithStream(o.exec.Stream()))
	a := &attended{graph: g}
	for _, t := range []*tensor.Tensor{o.q, o.k, o.v} {
		a.leaves = append(a.leaves, g.Input(t, autograd.RequiresGrad()))
	}
	var opts []autograd.AttentionOption
	if p.Causal {
		opts = append(opts, autograd.IsCausal())
	}
	if p.grouped() {
		opts = append(opts, autograd.EnableGQA())
	}
	a.out = autograd.ScaledDotProductAttention(a.leaves[0], a.leaves[1], a.leaves[2], opts...)
	return a
}

func (a *attended) grads(o *operands, use func(...*tensor.Tensor) error, opts ...autograd.BackwardOption) error {
	list, err := autograd.Grad([]*autograd.Variable{a.out}, a.leaves, append(opts, autograd.WithGradient(o.grad))...)
	if err != nil {
		return err
	}
	grads := make([]*tensor.Tensor, len(list))
	for i, d := range list {
		if grads[i], err = d.Tensor(); err != nil {
			return err
		}
	}
	return use(grads...)
}
