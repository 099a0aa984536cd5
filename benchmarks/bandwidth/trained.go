package main

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// trained are operations forward and backward, by autograd: what a step of training does of them. Bytes are those of both passes.
func trained() []operation {
	return []operation{
		{name: "layer norm, forward and backward", matrices: 5, start: func(s *scene) (func() error, error) {
			x, w, b, err := s.affine()
			if err != nil {
				return nil, err
			}
			grad, err := s.matrix(width)
			return s.steps([]*tensor.Tensor{x, w, b}, grad, func(_ *autograd.Graph, v []*autograd.Variable) *autograd.Variable {
				return v[0].LayerNorm([]int{width}, v[1], v[2], epsilon)
			}), err
		}},
		{name: "softmax, forward and backward", matrices: 5, start: func(s *scene) (func() error, error) {
			x, err := s.matrix(width)
			if err != nil {
				return nil, err
			}
			grad, err := s.matrix(width)
			return s.steps([]*tensor.Tensor{x}, grad, func(_ *autograd.Graph, v []*autograd.Variable) *autograd.Variable {
				return v[0].Softmax(1)
			}), err
		}},
		{name: "cross entropy, forward and backward", matrices: 3, start: func(s *scene) (func() error, error) {
			x, classes, err := s.logits()
			return s.steps([]*tensor.Tensor{x}, nil, func(g *autograd.Graph, v []*autograd.Variable) *autograd.Variable {
				return v[0].CrossEntropy(g.Input(classes))
			}), err
		}},
	}
}

// steps is a call that computes f of leaves and their gradients, for the gradient of its result or, if that is nil, of its one element.
func (s *scene) steps(leaves []*tensor.Tensor, grad *tensor.Tensor, f func(g *autograd.Graph, v []*autograd.Variable) *autograd.Variable) func() error {
	var opts []autograd.BackwardOption
	if grad != nil {
		opts = append(opts, autograd.WithGradient(grad))
	}
	return func() error {
		g := autograd.NewGraph(s.Device(), autograd.WithStream(s.Stream()))
		defer g.Release()
		v := make([]*autograd.Variable, len(leaves))
		for i, t := range leaves {
			v[i] = g.Input(t, autograd.RequiresGrad())
		}
		_, err := autograd.Grad([]*autograd.Variable{f(g, v)}, v, opts...)
		return err
	}
}
