package optim

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/training"
)

// Adam is torch.optim.Adam. Options: LR, Betas, Eps, WeightDecay (added to the gradient), AMSGrad, Maximize. It keeps two
// tensors for each parameter, and three with AMSGrad.
func Adam(params []*autograd.Parameter, opts ...Option) *Grouped {
	return newOptimizer("Adam", adam{}, adamDefaults(0), params, opts)
}

// AdamW is torch.optim.AdamW: Adam with weight decay that acts on the parameters directly, 0.01 by default. Options and state
// are Adam's.
func AdamW(params []*autograd.Parameter, opts ...Option) *Grouped {
	return newOptimizer("AdamW", adam{decoupled: true}, adamDefaults(0.01), params, opts)
}

func adamDefaults(weightDecay float64) Settings {
	return Settings{LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: weightDecay}
}

type adam struct{ decoupled bool }

func (adam) check(s *Settings) error { return checkBetas(s) }

func checkBetas(s *Settings) error {
	for i, beta := range []float64{s.Beta1, s.Beta2} {
		if !(beta >= 0 && beta < 1) {
			return fmt.Errorf("beta %d is %v; it must be in [0, 1)", i+1, beta)
		}
	}
	return nil
}

func (adam) fields(s *Settings) []field {
	return []field{
		number("lr", &s.LR), betas(s), number("eps", &s.Eps), number("weight_decay", &s.WeightDecay),
		truth("amsgrad", &s.AMSGrad), truth("maximize", &s.Maximize),
	}
}

func (adam) counts() bool { return true }

func (adam) numbered(*Settings) bool { return true }

func (adam) buffers(s *Settings) []buffer {
	kept := []buffer{{name: "exp_avg"}, {name: "exp_avg_sq"}}
	if s.AMSGrad {
		kept = append(kept, buffer{name: "max_exp_avg_sq"})
	}
	return kept
}

func (a adam) step(s *Settings, b *batch) error {
	with := a.with(s)
	with.Step = b.steps
	return steps.Adam(b.params, b.grads, b.buffers[0], b.buffers[1], b.buffers[2], with, b.guard)
}

func (a adam) with(s *Settings) training.Adam {
	return training.Adam{
		LR: s.LR, Beta1: s.Beta1, Beta2: s.Beta2, Eps: s.Eps, WeightDecay: s.WeightDecay, Decoupled: a.decoupled, Maximize: s.Maximize,
	}
}

func (a adam) scalars(s *Settings) [8]float64 { return a.with(s).Scalars() }
