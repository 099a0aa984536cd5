package optim

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Adadelta is torch.optim.Adadelta (Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012). Options: LR, Rho, Eps, WeightDecay (added
// to the gradient), Maximize. It keeps two tensors for each parameter.
func Adadelta(params []*autograd.Parameter, opts ...Option) *Grouped {
	return newOptimizer("Adadelta", adadelta{}, Settings{LR: 1, Rho: 0.9, Eps: 1e-6}, params, opts)
}

type adadelta struct{}

func (adadelta) check(s *Settings) error {
	if !(s.Rho >= 0 && s.Rho <= 1) {
		return fmt.Errorf("rho is %v; it must be in [0, 1]", s.Rho)
	}
	return nil
}

func (adadelta) fields(s *Settings) []field {
	return []field{
		number("lr", &s.LR), number("rho", &s.Rho), number("eps", &s.Eps), number("weight_decay", &s.WeightDecay),
		truth("maximize", &s.Maximize),
	}
}

func (adadelta) counts() bool { return true }

func (adadelta) numbered(*Settings) bool { return true }

func (adadelta) buffers(*Settings) []buffer {
	return []buffer{{name: "square_avg"}, {name: "acc_delta"}}
}

func (adadelta) next(c *calc, s *Settings, at moment) (*tensor.Tensor, []*tensor.Tensor) {
	grad := c.decayed(s, at)
	squares := c.emaSquare(at.buffers[0], grad, s.Rho)
	delta := c.root(at.buffers[1], s.Eps)
	c.do(delta.DivInPlace(c.root(squares, s.Eps)))
	c.do(delta.MulInPlace(grad))
	return c.of(at.param.AddScaled(delta, -s.LR)), []*tensor.Tensor{squares, c.emaSquare(at.buffers[1], delta, s.Rho)}
}

// Adamax is torch.optim.Adamax: Adam that divides by the largest recent gradient instead of a root of squares (Kingma and Ba, "Adam", 2015,
// section 7). Options: LR, Betas, Eps, WeightDecay (added to the gradient), Maximize. It keeps two tensors for each parameter.
func Adamax(params []*autograd.Parameter, opts ...Option) *Grouped {
	return newOptimizer("Adamax", adamax{}, Settings{LR: 2e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}, params, opts)
}

type adamax struct{}

func (adamax) check(s *Settings) error { return checkBetas(s) }

func (adamax) fields(s *Settings) []field {
	return []field{
		number("lr", &s.LR), betas(s), number("eps", &s.Eps), number("weight_decay", &s.WeightDecay), truth("maximize", &s.Maximize),
	}
}

func (adamax) counts() bool { return true }

func (adamax) numbered(*Settings) bool { return true }

func (adamax) buffers(*Settings) []buffer { return []buffer{{name: "exp_avg"}, {name: "exp_inf"}} }

func (adamax) next(c *calc, s *Settings, at moment) (*tensor.Tensor, []*tensor.Tensor) {
	grad := c.decayed(s, at)
	mean := c.ema(at.buffers[0], grad, s.Beta1)
	size := c.of(grad.Abs())
	c.do(size.AddScalarInPlace(s.Eps))
	size = c.of(c.of(at.buffers[1].MulScalar(s.Beta2)).Maximum(size))
	rate := s.LR / (1 - math.Pow(s.Beta1, float64(at.step)))
	return c.of(at.param.AddCDiv(mean, size, -rate)), []*tensor.Tensor{mean, size}
}
