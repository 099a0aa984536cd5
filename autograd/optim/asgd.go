package optim

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// ASGD is torch.optim.ASGD: gradient descent with a rate that falls, which also keeps the average of the parameters' values from step T0 on
// (Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992). Options: LR, Lambd, Alpha (0.75 by default), T0,
// WeightDecay (added to the gradient), Maximize. It keeps one tensor for each parameter, "ax", which is the average: StateDict has it.
func ASGD(params []*autograd.Parameter, opts ...Option) *Grouped {
	return newOptimizer("ASGD", asgd{}, Settings{LR: 1e-2, Lambd: 1e-4, Alpha: 0.75, T0: 1e6}, params, opts)
}

type asgd struct{}

func (asgd) check(s *Settings) error {
	if !countable(s.Lambd) || !countable(s.T0) {
		return fmt.Errorf("lambd %v and t0 %v; they must be finite and not negative", s.Lambd, s.T0)
	}
	return nil
}

func (asgd) fields(s *Settings) []field {
	return []field{
		number("lr", &s.LR), number("lambd", &s.Lambd), number("alpha", &s.Alpha), number("t0", &s.T0),
		number("weight_decay", &s.WeightDecay), truth("maximize", &s.Maximize),
	}
}

func (asgd) counts() bool { return true }

func (asgd) numbered(*Settings) bool { return true }

func (asgd) buffers(*Settings) []buffer { return []buffer{{name: "ax"}} }

func (asgd) next(c *calc, s *Settings, at moment) (*tensor.Tensor, []*tensor.Tensor) {
	before := float64(at.step - 1)
	rate := s.LR / math.Pow(1+s.Lambd*s.LR*before, s.Alpha)
	param := c.of(at.param.MulScalar(1 - s.Lambd*rate))
	c.do(param.AddInPlace(c.decayed(s, at), -rate))
	weight := 1 / max(1, before-s.T0)
	if weight == 1 {
		return param, []*tensor.Tensor{param}
	}
	return param, []*tensor.Tensor{c.of(at.buffers[0].LerpScalar(param, weight))}
}
