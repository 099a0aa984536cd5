package tensor

import (
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/kernels/op"
)

// SGD takes one step of stochastic gradient descent, in place, as torch.optim.SGD: op.SGDStep has the formula. Each
// parameter has a gradient of its shape (nil skips the parameter) and, if Momentum is not 0, a buffer of its shape and type.
// Parameters that share type and Exec go in one launch.
func (steps) SGD(params, grads, bufs []*Tensor, cfg training.SGD, guard stepGuard) error {
	const name = "SGDStep"
	if cfg.Nesterov && (cfg.Momentum <= 0 || cfg.Dampening != 0) {
		return valueErr(name, "Nesterov needs a momentum (%v) and no dampening (%v)", cfg.Momentum, cfg.Dampening)
	}
	states := [][]*Tensor{params}
	if cfg.Momentum != 0 {
		states = append(states, bufs)
	}
	return stepAll(name, op.SGDStep, states, grads, &guard, func(c *op.Call) {
		c.F = cfg.Scalars()
		c.I[1], c.I[2], c.I[3] = flag(cfg.First), flag(cfg.Maximize), flag(cfg.Nesterov)
	})
}

// Adam takes one step of Adam or AdamW, in place, as torch.optim.Adam: op.AdamStep has the formula. m and v are the
// first and second moments and, for AMSGrad, largest the largest second moments so far; else it is nil. All are of the parameters'
// shapes and types, zero before the first step. A nil gradient skips its parameter. Parameters that share type and Exec go in one
// launch.
func (steps) Adam(params, grads, m, v, largest []*Tensor, cfg training.Adam, guard stepGuard) error {
	const name = "AdamStep"
	if cfg.Step < 1 && guard.Counts == nil {
		return valueErr(name, "step is %d; the first is 1", cfg.Step)
	}
	states := [][]*Tensor{params, m, v}
	if largest != nil {
		states = append(states, largest)
	}
	return stepAll(name, op.AdamStep, states, grads, &guard, func(c *op.Call) {
		c.F = cfg.Scalars()
		c.I[1], c.I[2], c.I[3] = flag(cfg.Decoupled), flag(cfg.Maximize), flag(largest != nil)
	})
}

// RMSProp takes one step of RMSprop, in place, as torch.optim.RMSprop: op.RMSPropStep has the formula. squares, and bufs if
// Momentum is not 0, and means if Centered, are what is kept for each parameter, of its shape and type, zero before the first
// step. A nil gradient skips its parameter. Parameters that share type and Exec go in one launch.
func (steps) RMSProp(params, grads, squares, bufs, means []*Tensor, cfg training.RMSProp, guard stepGuard) error {
	states := [][]*Tensor{params, squares}
	if cfg.Momentum != 0 {
		states = append(states, bufs)
	}
	if cfg.Centered {
		states = append(states, means)
	}
	return stepAll("RMSPropStep", op.RMSPropStep, states, grads, &guard, func(c *op.Call) {
		c.F = cfg.Scalars()
		c.I[1], c.I[2] = flag(cfg.Centered), flag(cfg.Maximize)
	})
}

// Adagrad takes one step of Adagrad, in place, as torch.optim.Adagrad: op.AdagradStep has the formula. sums are of the
// parameters' shapes and types. A nil gradient skips its parameter. Parameters that share type and Exec go in one launch.
func (steps) Adagrad(params, grads, sums []*Tensor, cfg training.Adagrad, guard stepGuard) error {
	const name = "AdagradStep"
	if cfg.Step < 1 && guard.Counts == nil {
		return valueErr(name, "step is %d; the first is 1", cfg.Step)
	}
	return stepAll(name, op.AdagradStep, [][]*Tensor{params, sums}, grads, &guard, func(c *op.Call) {
		c.F = cfg.Scalars()
		c.I[1] = flag(cfg.Maximize)
	})
}

// Lion takes one step of Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023), in place: op.LionStep
// has the formula. m are the momenta, of the parameters' shapes and types, zero before the first step. A nil gradient skips its
// parameter. Parameters that share type and Exec go in one launch.
func (steps) Lion(params, grads, m []*Tensor, cfg training.Lion, guard stepGuard) error {
	return stepAll("LionStep", op.LionStep, [][]*Tensor{params, m}, grads, &guard, func(c *op.Call) {
		c.F = cfg.Scalars()
		c.I[1] = flag(cfg.Maximize)
	})
}
