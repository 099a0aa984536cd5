package optim

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/training"
)

// RMSprop is torch.optim.RMSprop. Options: LR, Alpha, Eps, WeightDecay (added to the gradient), Momentum, Centered, Maximize. It
// keeps a tensor for each parameter, another with a momentum, and another if it is centered.
func RMSprop(params []*autograd.Parameter, opts ...Option) *Grouped {
	return newOptimizer("RMSprop", rmsprop{}, Settings{LR: 1e-2, Alpha: 0.99, Eps: 1e-8}, params, opts)
}

type rmsprop struct{}

func (rmsprop) check(*Settings) error { return nil }

func (rmsprop) fields(s *Settings) []field {
	return []field{
		number("lr", &s.LR), number("momentum", &s.Momentum), number("alpha", &s.Alpha), number("eps", &s.Eps),
		truth("centered", &s.Centered), number("weight_decay", &s.WeightDecay), truth("maximize", &s.Maximize),
	}
}

func (rmsprop) counts() bool { return true }

func (rmsprop) numbered(*Settings) bool { return true }

func (rmsprop) buffers(s *Settings) []buffer {
	kept := []buffer{{name: "square_avg"}}
	if s.Momentum != 0 {
		kept = append(kept, buffer{name: "momentum_buffer"})
	}
	if s.Centered {
		kept = append(kept, buffer{name: "grad_avg"})
	}
	return kept
}

func (rmsprop) step(s *Settings, b *batch) error {
	bufs, means := b.buffers[1], b.buffers[2]
	if s.Momentum == 0 {
		bufs, means = nil, b.buffers[1]
	}
	return steps.RMSProp(b.params, b.grads, b.buffers[0], bufs, means, rmsprop{}.with(s), b.guard)
}

func (rmsprop) with(s *Settings) training.RMSProp {
	return training.RMSProp{
		LR: s.LR, Alpha: s.Alpha, Eps: s.Eps, WeightDecay: s.WeightDecay, Momentum: s.Momentum, Centered: s.Centered, Maximize: s.Maximize,
	}
}

func (rmsprop) scalars(s *Settings) [8]float64 { return rmsprop{}.with(s).Scalars() }
