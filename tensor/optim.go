package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// SGDConfig are the settings of SGDStep, under torch.optim.SGD's names.
type SGDConfig struct {
	LR          float64
	Momentum    float64
	Dampening   float64
	WeightDecay float64
	Nesterov    bool
	Maximize    bool
	First       bool // the momentum buffers are undefined yet and start as the gradients
	Guard       StepGuard
}

// AdamConfig are the settings of AdamStep, under torch.optim.Adam's names.
type AdamConfig struct {
	LR          float64
	Beta1       float64
	Beta2       float64
	Eps         float64
	WeightDecay float64
	Step        int  // number of this step, 1 for the first
	Decoupled   bool // AdamW: weight decay acts on the parameters, not on the gradients
	Maximize    bool
	Largest     []*Tensor // AMSGrad: the largest second moments so far, zero before the first step, of the parameters' shapes and types
	Guard       StepGuard
}

// RMSPropConfig are the settings of RMSPropStep, under torch.optim.RMSprop's names.
type RMSPropConfig struct {
	LR          float64
	Alpha       float64
	Eps         float64
	WeightDecay float64
	Momentum    float64
	Centered    bool
	Maximize    bool
	Guard       StepGuard
}

// AdagradConfig are the settings of AdagradStep, under torch.optim.Adagrad's names.
type AdagradConfig struct {
	LR          float64
	LRDecay     float64
	Eps         float64
	WeightDecay float64
	Step        int // number of this step, 1 for the first
	Maximize    bool
	Guard       StepGuard
}

// LionConfig are the settings of LionStep.
type LionConfig struct {
	LR           float64
	Beta1, Beta2 float64
	WeightDecay  float64
	Maximize     bool
	Guard        StepGuard
}

// SGDStep takes one step of stochastic gradient descent, in place, as torch.optim.SGD: op.SGDStep has the formula. Each
// parameter has a gradient of its shape (nil skips the parameter) and, if Momentum is not 0, a buffer of its shape and type.
// Parameters that share type and Exec go in one launch.
func SGDStep(params, grads, bufs []*Tensor, cfg SGDConfig) error {
	const name = "SGDStep"
	if cfg.Nesterov && (cfg.Momentum <= 0 || cfg.Dampening != 0) {
		return valueErr(name, "Nesterov needs a momentum (%v) and no dampening (%v)", cfg.Momentum, cfg.Dampening)
	}
	states := [][]*Tensor{params}
	if cfg.Momentum != 0 {
		states = append(states, bufs)
	}
	return step(name, op.SGDStep, states, grads, &cfg.Guard, func(c *op.Call) {
		c.F = [8]float64{cfg.LR, cfg.Momentum, cfg.WeightDecay, cfg.Dampening}
		c.I[1], c.I[2], c.I[3] = flag(cfg.First), flag(cfg.Maximize), flag(cfg.Nesterov)
	})
}

// AdamStep takes one step of Adam or AdamW, in place, as torch.optim.Adam: op.AdamStep has the formula. m and v are the
// first and second moments, of the parameters' shapes and types, zero before the first step. A nil gradient skips its
// parameter. Parameters that share type and Exec go in one launch.
func AdamStep(params, grads, m, v []*Tensor, cfg AdamConfig) error {
	const name = "AdamStep"
	if cfg.Step < 1 && cfg.Guard.Counts == nil {
		return valueErr(name, "step is %d; the first is 1", cfg.Step)
	}
	states := [][]*Tensor{params, m, v}
	if cfg.Largest != nil {
		states = append(states, cfg.Largest)
	}
	return step(name, op.AdamStep, states, grads, &cfg.Guard, func(c *op.Call) {
		c.F = [8]float64{cfg.LR, cfg.Beta1, cfg.Beta2, cfg.Eps, cfg.WeightDecay, float64(cfg.Step)}
		c.I[1], c.I[2], c.I[3] = flag(cfg.Decoupled), flag(cfg.Maximize), flag(cfg.Largest != nil)
	})
}

// RMSPropStep takes one step of RMSprop, in place, as torch.optim.RMSprop: op.RMSPropStep has the formula. squares, and bufs if
// Momentum is not 0, and means if Centered, are what is kept for each parameter, of its shape and type, zero before the first
// step. A nil gradient skips its parameter. Parameters that share type and Exec go in one launch.
func RMSPropStep(params, grads, squares, bufs, means []*Tensor, cfg RMSPropConfig) error {
	states := [][]*Tensor{params, squares}
	if cfg.Momentum != 0 {
		states = append(states, bufs)
	}
	if cfg.Centered {
		states = append(states, means)
	}
	return step("RMSPropStep", op.RMSPropStep, states, grads, &cfg.Guard, func(c *op.Call) {
		c.F = [8]float64{cfg.LR, cfg.Alpha, cfg.Eps, cfg.WeightDecay, cfg.Momentum}
		c.I[1], c.I[2] = flag(cfg.Centered), flag(cfg.Maximize)
	})
}

// AdagradStep takes one step of Adagrad, in place, as torch.optim.Adagrad: op.AdagradStep has the formula. sums are of the
// parameters' shapes and types. A nil gradient skips its parameter. Parameters that share type and Exec go in one launch.
func AdagradStep(params, grads, sums []*Tensor, cfg AdagradConfig) error {
	const name = "AdagradStep"
	if cfg.Step < 1 && cfg.Guard.Counts == nil {
		return valueErr(name, "step is %d; the first is 1", cfg.Step)
	}
	return step(name, op.AdagradStep, [][]*Tensor{params, sums}, grads, &cfg.Guard, func(c *op.Call) {
		c.F = [8]float64{cfg.LR, cfg.LRDecay, cfg.Eps, cfg.WeightDecay, float64(cfg.Step)}
		c.I[1] = flag(cfg.Maximize)
	})
}

// LionStep takes one step of Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023), in place: op.LionStep
// has the formula. m are the momenta, of the parameters' shapes and types, zero before the first step. A nil gradient skips its
// parameter. Parameters that share type and Exec go in one launch.
func LionStep(params, grads, m []*Tensor, cfg LionConfig) error {
	return step("LionStep", op.LionStep, [][]*Tensor{params, m}, grads, &cfg.Guard, func(c *op.Call) {
		c.F = [8]float64{cfg.LR, cfg.Beta1, cfg.Beta2, cfg.WeightDecay}
		c.I[1] = flag(cfg.Maximize)
	})
}
