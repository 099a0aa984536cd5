package optim

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/training"
)

// Adagrad is torch.optim.Adagrad. Options: LR, LRDecay, WeightDecay (added to the gradient), InitialAccumulator, Eps, Maximize. It
// keeps one tensor for each parameter.
func Adagrad(params []*autograd.Parameter, opts ...Option) *Grouped {
	return newOptimizer("Adagrad", adagrad{}, Settings{LR: 1e-2, Eps: 1e-10}, params, opts)
}

type adagrad struct{}

func (adagrad) check(*Settings) error { return nil }

func (adagrad) fields(s *Settings) []field {
	return []field{
		number("lr", &s.LR), number("lr_decay", &s.LRDecay), number("eps", &s.Eps), number("weight_decay", &s.WeightDecay),
		number("initial_accumulator_value", &s.InitialAccumulator), truth("maximize", &s.Maximize),
	}
}

func (adagrad) counts() bool { return true }

func (adagrad) numbered(*Settings) bool { return true }

func (adagrad) buffers(s *Settings) []buffer {
	return []buffer{{name: "sum", start: s.InitialAccumulator}}
}

func (adagrad) step(s *Settings, b *batch) error {
	with := adagrad{}.with(s)
	with.Step = b.steps
	return steps.Adagrad(b.params, b.grads, b.buffers[0], with, b.guard)
}

func (adagrad) with(s *Settings) training.Adagrad {
	return training.Adagrad{LR: s.LR, LRDecay: s.LRDecay, Eps: s.Eps, WeightDecay: s.WeightDecay, Maximize: s.Maximize}
}

func (adagrad) scalars(s *Settings) [8]float64 { return adagrad{}.with(s).Scalars() }
