package optim

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Rprop is torch.optim.Rprop: steps by the sign of the gradient alone, whose sizes grow while the sign stays and shrink when it changes
// (Riedmiller and Braun, "RPROP", 1993). It is for gradients of all the data, not of batches. Options: LR (the size of the first step), Etas,
// StepSizes, Maximize. It keeps two tensors for each parameter.
func Rprop(params []*autograd.Parameter, opts ...Option) *Grouped {
	return newOptimizer("Rprop", rprop{}, Settings{LR: 1e-2, EtaMinus: 0.5, EtaPlus: 1.2, StepMin: 1e-6, StepMax: 50}, params, opts)
}

type rprop struct{}

func (rprop) check(s *Settings) error {
	switch {
	case !(0 < s.EtaMinus && s.EtaMinus < 1 && s.EtaPlus > 1 && countable(s.EtaPlus)):
		return fmt.Errorf("etas are %v and %v; they must be in (0, 1) and greater than 1", s.EtaMinus, s.EtaPlus)
	case !(countable(s.StepMin) && countable(s.StepMax) && s.StepMin <= s.StepMax):
		return fmt.Errorf("step sizes from %v to %v; they must be finite, not negative, and rise", s.StepMin, s.StepMax)
	}
	return nil
}

func (rprop) fields(s *Settings) []field {
	return []field{
		number("lr", &s.LR), {key: "etas", numbers: []*float64{&s.EtaMinus, &s.EtaPlus}},
		{key: "step_sizes", numbers: []*float64{&s.StepMin, &s.StepMax}}, truth("maximize", &s.Maximize),
	}
}

func (rprop) counts() bool { return true }

func (rprop) numbered(*Settings) bool { return true }

func (rprop) buffers(s *Settings) []buffer {
	return []buffer{{name: "prev"}, {name: "step_size", start: s.LR}}
}

func (rprop) next(c *calc, s *Settings, at moment) (*tensor.Tensor, []*tensor.Tensor) {
	product := c.of(at.grad.Mul(at.buffers[0]))
	turned := c.of(product.LtScalar(0))
	factors := c.of(product.OnesLike())
	c.do(factors.MaskedFillInPlace(c.of(product.GtScalar(0)), s.EtaPlus))
	c.do(factors.MaskedFillInPlace(turned, s.EtaMinus))
	size := c.of(at.buffers[1].Mul(factors))
	c.do(size.ClampInPlace(s.StepMin, s.StepMax))
	grad := c.of(at.grad.MaskedFill(turned, 0)) // where the sign has changed there is no step
	return c.of(at.param.AddCMul(c.of(grad.Sign()), size, -1)), []*tensor.Tensor{grad, size}
}
