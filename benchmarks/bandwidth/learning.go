package main

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/dtype"
)

const epsilon = 1e-5 // of norms

// norms of rows, with their gradients.
func norms() []operation {
	return []operation{
		{name: "layer norm", matrices: 2, start: func(s *scene) (func() error, error) {
			x, w, b, err := s.affine()
			return func() error {
				y, m, err := tensor.LayerNorm(x, []int{width}, w, b, epsilon)
				m.Release()
				return discard(y, err)
			}, err
		}},
		{name: "rms norm", matrices: 2, start: func(s *scene) (func() error, error) {
			x, w, _, err := s.affine()
			return func() error {
				y, m, err := tensor.RMSNorm(x, []int{width}, w, epsilon)
				m.Release()
				return discard(y, err)
			}, err
		}},
		{name: "layer norm gradient", matrices: 3, start: func(s *scene) (func() error, error) {
			x, w, g, m, err := s.normalised()
			return func() error { return discard(tensor.LayerNormGrad(g, x, []int{width}, m, w)) }, err
		}},
		{name: "layer norm gradient of weights", matrices: 2, start: func(s *scene) (func() error, error) {
			x, _, g, m, err := s.normalised()
			return func() error {
				w, b, err := tensor.LayerNormSums(g, x, []int{width}, m)
				b.Release()
				return discard(w, err)
			}, err
		}},
	}
}

// affine is a matrix with the weight and bias of a norm.
func (s *scene) affine() (x, w, b *tensor.Tensor, err error) {
	if x, err = s.matrix(width); err != nil {
		return nil, nil, nil, err
	}
	if w, err = s.row(width); err != nil {
		return nil, nil, nil, err
	}
	b, err = s.row(width)
	return x, w, b, err
}

// normalised is a matrix that went through a layer norm, with the gradient of the result.
func (s *scene) normalised() (x, w, g *tensor.Tensor, m tensor.Moments, err error) {
	x, w, b, err := s.affine()
	if err != nil {
		return nil, nil, nil, m, err
	}
	y, m, err := tensor.LayerNorm(x, []int{width}, w, b, epsilon)
	if err := discard(y, err); err != nil {
		return nil, nil, nil, m, err
	}
	s.later(m.Release)
	g, err = s.matrix(width)
	return x, w, g, m, err
}

// losses of rows of logits.
func losses() []operation {
	c := tensor.ClassLoss{IgnoreIndex: classLoss}
	return []operation{
		{name: "cross entropy", matrices: 1, start: func(s *scene) (func() error, error) {
			x, classes, err := s.logits()
			return func() error {
				loss, lse, weight, err := tensor.CrossEntropy(x, classes, c)
				lse.Release()
				weight.Release()
				return discard(loss, err)
			}, err
		}},
		{name: "cross entropy gradient", matrices: 2, start: func(s *scene) (func() error, error) {
			x, classes, err := s.logits()
			if err != nil {
				return nil, err
			}
			loss, lse, weight, err := tensor.CrossEntropy(x, classes, c)
			if err != nil {
				return nil, err
			}
			weight.Release()
			s.later(lse.Release)
			s.later(loss.Release)
			return func() error { return discard(tensor.CrossEntropyGrad(loss, x, classes, lse, c)) }, nil
		}},
	}
}

// logits are a matrix with long rows, and a class for each.
func (s *scene) logits() (x, classes *tensor.Tensor, err error) {
	if x, err = s.matrix(vocabulary); err != nil {
		return nil, nil, err
	}
	numbers := make([]int64, s.rows(vocabulary))
	for i := range numbers {
		numbers[i] = int64(i) * 7919 % vocabulary
	}
	classes, err = s.keep(tensor.FromSlice(s.Exec, numbers, len(numbers)))
	return x, classes, err
}

// optimizers step over one parameter with its gradient and state. "gradient norm" is what clipping reads.
func optimizers() []operation {
	return []operation{
		stepped("adamw", 7, func(p []*autograd.Parameter) *optim.Grouped { return optim.AdamW(p, optim.LR(1e-4)) }),
		stepped("sgd with momentum", 5, func(p []*autograd.Parameter) *optim.Grouped {
			return optim.SGD(p, optim.LR(1e-4), optim.Momentum(0.9))
		}),
		{name: "gradient norm", matrices: 1, start: func(s *scene) (func() error, error) {
			x, err := s.matrix(width)
			return func() error { return discard(tensor.GradNorm(s.Exec, []*tensor.Tensor{x}, 2)) }, err
		}},
	}
}

func stepped(name string, matrices float64, make func(p []*autograd.Parameter) *optim.Grouped) operation {
	return operation{name: name, matrices: matrices, only: dtype.Float32, start: func(s *scene) (func() error, error) {
		x, err := s.matrix(width)
		if err != nil {
			return nil, err
		}
		g, err := s.matrix(width)
		if err != nil {
			return nil, err
		}
		p := autograd.NewParameter("x", x.Retain()) // takes it over, as SetGrad does
		s.later(p.Release)
		p.SetGrad(g.Retain())
		o := make([]*autograd.Parameter{p})
		s.later(o.Release)
		return o.Step, nil
	}}
}
