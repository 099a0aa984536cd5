package main

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

const (
	epsilon         = 1e-5 // of norms
	pictureChannels = 16
	pictureGroups   = 4
)

// What programs call autograd and its optimizers for.
var (
	gradients = tensor.Gradients(training.Key{})
	steps     = tensor.Steps(training.Key{})
)

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
			return func() error { return discard(gradients.LayerNorm(g, x, []int{width}, m, w)) }, err
		}},
		{name: "layer norm gradient of weights", matrices: 2, start: func(s *scene) (func() error, error) {
			x, _, g, m, err := s.normalised()
			return func() error {
				w, b, err := gradients.LayerNormSums(g, x, []int{width}, m)
				b.Release()
				return discard(w, err)
			}, err
		}},
	}
}

// images are norms of pictures: each row is a channel of one, and every sixteen are a picture.
func images() []operation {
	return []operation{
		{name: "group norm", matrices: 2, start: func(s *scene) (func() error, error) {
			x, w, b, err := s.picture()
			return func() error {
				y, m, err := tensor.GroupNorm(x, pictureGroups, w, b, epsilon)
				m.Release()
				return discard(y, err)
			}, err
		}},
		{name: "batch norm", matrices: 3, start: func(s *scene) (func() error, error) { // statistics, then the result
			x, w, b, err := s.picture()
			return func() error {
				m, err := tensor.BatchMoments(x, nil, nil, 0, epsilon)
				if err != nil {
					return err
				}
				defer m.Release()
				return discard(tensor.BatchNorm(x, m, w, b))
			}, err
		}},
	}
}

// picture is a matrix as pictures, with a weight and bias of each channel.
func (s *scene) picture() (x, w, b *tensor.Tensor, err error) {
	if x, err = s.matrix(width); err != nil {
		return nil, nil, nil, err
	}
	if x, err = s.keep(x.Reshape(-1, pictureChannels, width)); err != nil {
		return nil, nil, nil, err
	}
	if w, err = s.row(pictureChannels); err != nil {
		return nil, nil, nil, err
	}
	b, err = s.row(pictureChannels)
	return x, w, b, err
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
	c := tensor.ClassLoss{IgnoreIndex: ignored}
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
			return func() error { return discard(gradients.CrossEntropy(loss, x, classes, lse, c)) }, nil
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

// optimizers step over one parameter with its gradient and state. "gradient norm" is what clipping reads, "unscale" what GradScaler
// does to gradients: it divides by the scale and looks for what is not finite.
func optimizers() []operation {
	return []operation{
		stepped("adamw", 7, func(p []*autograd.Parameter) *optim.Grouped { return optim.AdamW(p, optim.LR(1e-4)) }),
		stepped("sgd with momentum", 5, func(p []*autograd.Parameter) *optim.Grouped {
			return optim.SGD(p, optim.LR(1e-4), optim.Momentum(0.9))
		}),
		{name: "gradient norm", matrices: 1, start: func(s *scene) (func() error, error) {
			x, err := s.matrix(width)
			return func() error { return discard(steps.GradNorm(s.Exec, []*tensor.Tensor{x}, 2)) }, err
		}},
		{name: "unscale", matrices: 2, start: func(s *scene) (func() error, error) {
			x, err := s.matrix(width)
			if err != nil {
				return nil, err
			}
			found, err := s.keep(tensor.Zeros(s.Exec, tensor.Float32, 1))
			if err != nil {
				return nil, err
			}
			inv, err := s.keep(tensor.Ones(s.Exec, tensor.Float32, 1))
			return func() error { return steps.Unscale([]*tensor.Tensor{x}, found, inv) }, err
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
		if err := p.SetGrad(g.Retain()); err != nil {
			return nil, err
		}
		o := make([]*autograd.Parameter{p})
		s.later(o.Release)
		return o.Step, nil
	}}
}
