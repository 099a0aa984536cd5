package optim

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/training"
)

// Lion steps by the sign of a mix of momentum and gradient (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023,
// algorithm 2), which PyTorch does not have. Options: LR, Betas, WeightDecay (acts on the parameters directly), Maximize. It keeps
// one tensor for each parameter. Its learning rates are smaller than AdamW's by about 3 to 10, its weight decay larger by as
// much.
func Lion(params []*autograd.Parameter, opts ...Option) *Grouped {
	return newOptimizer("Lion", lion{}, Settings{LR: 1e-4, Beta1: 0.9, Beta2: 0.99}, params, opts)
}

type lion struct{}

func (lion) check(s *Settings) error { return checkBetas(s) }

func (lion) fields(s *Settings) []field {
	return []field{
		number("lr", &s.LR), betas(s), number("weight_decay", &s.WeightDecay), truth("maximize", &s.Maximize),
	}
}

func (lion) counts() bool { return false }

func (lion) numbered(*Settings) bool { return false }

func (lion) buffers(*Settings) []buffer { return []buffer{{name: "exp_avg"}} }

func (lion) step(s *Settings, b *batch) error {
	return steps.Lion(b.params, b.grads, b.buffers[0], lion{}.with(s), b.guard)
}

func (lion) with(s *Settings) training.Lion {
	return training.Lion{LR: s.LR, Beta1: s.Beta1, Beta2: s.Beta2, WeightDecay: s.WeightDecay, Maximize: s.Maximize}
}

func (lion) scalars(s *Settings) [8]float64 { return lion{}.with(s).Scalars() }
