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
	return step(name, op.SGDStep, states, grads, func(c *op.Call) {
		c.F = [8]float64{cfg.LR, cfg.Momentum, cfg.WeightDecay, cfg.Dampening}
		c.I[1], c.I[2], c.I[3] = flag(cfg.First), flag(cfg.Maximize), flag(cfg.Nesterov)
	})
}

// AdamStep takes one step of Adam or AdamW, in place, as torch.optim.Adam: op.AdamStep has the formula. m and v are the
// first and second moments, of the parameters' shapes and types, zero before the first step. A nil gradient skips its
// parameter. Parameters that share type and Exec go in one launch.
func AdamStep(params, grads, m, v []*Tensor, cfg AdamConfig) error {
	const name = "AdamStep"
	if cfg.Step < 1 {
		return valueErr(name, "step is %d; the first is 1", cfg.Step)
	}
	return step(name, op.AdamStep, [][]*Tensor{params, m, v}, grads, func(c *op.Call) {
		c.F = [8]float64{cfg.LR, cfg.Beta1, cfg.Beta2, cfg.Eps, cfg.WeightDecay, float64(cfg.Step)}
		c.I[1], c.I[2] = flag(cfg.Decoupled), flag(cfg.Maximize)
	})
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// group is what one launch of an optimizer takes: parameters of one type under one Exec.
type group struct {
	dtype DType
	exec  Exec
}

// step checks all parameters before the first is changed, and launches the update of each group, in the order in which
// groups first appear. states are the parameters and what the optimizer keeps for each.
func step(name string, id op.ID, states [][]*Tensor, grads []*Tensor, config func(*op.Call)) error {
	params := states[0]
	for _, list := range append(states, grads) {
		if len(list) != len(params) {
			return valueErr(name, "lists of %d parameters and of %d other tensors", len(params), len(list))
		}
	}
	var order []group
	members := map[group][]int{}
	for i, p := range params {
		if grads[i] == nil {
			continue
		}
		if err := stepOperands(name, i, states, grads[i]); err != nil {
			return err
		}
		g := group{p.dtype, p.exec}
		if members[g] == nil {
			order = append(order, g)
		}
		members[g] = append(members[g], i)
	}
	for _, g := range order {
		if err := stepGroup(name, id, g, members[g], states, grads, config); err != nil {
			return err
		}
	}
	return nil
}

// stepOperands checks parameter i, its state and its gradient.
func stepOperands(name string, i int, states [][]*Tensor, grad *Tensor) error {
	p := states[0][i]
	if err := together(name, p, grad); err != nil {
		return err
	}
	if !p.dtype.IsFloat() || !grad.dtype.IsFloat() {
		return dtypeErr(name, needsFloat, p.dtype, grad.dtype)
	}
	if !p.Shape().Equal(grad.Shape()) {
		return shapeErr(name, []Shape{p.Shape(), grad.Shape()}, "parameter %d and its gradient differ", i)
	}
	for _, list := range states {
		s := list[i]
		if err := together(name, p, s); err != nil {
			return err
		}
		if s.dtype != p.dtype {
			return dtypeErr(name, "parameter and state must have one type", p.dtype, s.dtype)
		}
		if !s.Shape().Equal(p.Shape()) || !s.layout.contiguous() {
			return shapeErr(name, []Shape{p.Shape(), s.Shape()}, "parameter %d and its state must be contiguous and of one shape", i)
		}
	}
	return nil
}

// stepGroup launches the update of the parameters with the given numbers. Gradients that are not contiguous or of another
// type are brought into shape in temporaries, which live until the launch.
func stepGroup(name string, id op.ID, g group, members []int, states [][]*Tensor, grads []*Tensor, config func(*op.Call)) error {
	temporaries := make([]*Tensor, 0, len(members))
	defer func() {
		for i, t := range temporaries {
			drop(t, grads[members[i]])
		}
	}()
	for _, i := range members {
		t, err := grads[i].packedAs(name, g.dtype, g.exec)
		if err != nil {
			return err
		}
		temporaries = append(temporaries, t)
	}
	c := begin(id, g.exec)
	config(&c.call)
	c.call.I[0] = int64(len(members))
	for _, list := range states {
		for _, i := range members {
			c.out(list[i], &list[i].layout)
			list[i].storage.changed()
		}
	}
	for _, t := range temporaries {
		c.in(t, &t.layout)
	}
	return c.run(name)
}

// packedAs returns t itself if it is contiguous and of type dt, else a temporary that is, which the caller gives back with
// drop(x, t).
func (t *Tensor) packedAs(name string, dt DType, e Exec) (*Tensor, error) {
	if t.dtype == dt && t.layout.contiguous() {
		return t, nil
	}
	return t.convert(name, dt, e.Owned())
}
