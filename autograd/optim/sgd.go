package optim

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/training"
)

// SGD is stochastic gradient descent, with momentum if asked for (torch.optim.SGD). Options: LR, Momentum, Dampening,
// WeightDecay, Nesterov, Maximize. With momentum it keeps one tensor for each parameter, else none.
func SGD(params []*autograd.Parameter, opts ...Option) *Grouped {
	return newOptimizer("SGD", sgd{}, Settings{LR: 1e-3}, params, opts)
}

type sgd struct{}

func (sgd) check(s *Settings) error {
	if s.Nesterov && (s.Momentum <= 0 || s.Dampening != 0) {
		return fmt.Errorf("Nesterov with momentum %v and dampening %v; it needs a momentum and no dampening", s.Momentum, s.Dampening)
	}
	return nil
}

func (sgd) fields(s *Settings) []field {
	return []field{
		number("lr", &s.LR), number("momentum", &s.Momentum), number("dampening", &s.Dampening),
		number("weight_decay", &s.WeightDecay), truth("nesterov", &s.Nesterov), truth("maximize", &s.Maximize),
	}
}

func (sgd) counts() bool { return false }

func (sgd) numbered(s *Settings) bool { return s.Momentum != 0 }

func (sgd) buffers(s *Settings) []buffer {
	if s.Momentum != 0 {
		return []buffer{{name: "momentum_buffer"}}
	}
	return nil
}

func (sgd) step(s *Settings, b *batch) error {
	with := sgd{}.with(s)
	with.First = b.steps == 1
	return steps.SGD(b.params, b.grads, b.buffers[0], with, b.guard)
}

func (sgd) with(s *Settings) training.SGD {
	return training.SGD{
		LR: s.LR, Momentum: s.Momentum, Dampening: s.Dampening, WeightDecay: s.WeightDecay, Nesterov: s.Nesterov, Maximize: s.Maximize,
	}
}

func (sgd) scalars(s *Settings) [8]float64 { return sgd{}.with(s).Scalars() }
