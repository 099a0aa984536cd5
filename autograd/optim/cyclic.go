package optim

import (
	"cmp"
	"fmt"
	"math"
)

// CyclicOption changes a setting of CyclicLR.
type CyclicOption func(*cyclic)

// StepsDown is how many steps the rate falls. By default it falls as long as it rises.
func StepsDown(n int) CyclicOption { return func(c *cyclic) { c.down = n } }

// Triangular2 halves the height of each cycle.
func Triangular2() CyclicOption {
	return ScaleCycles(func(cycle int) float64 { return math.Pow(2, float64(1-cycle)) }, false)
}

// ExpRange multiplies the height by gamma at each step. gamma must be finite and not negative.
func ExpRange(gamma float64) CyclicOption {
	return func(c *cyclic) {
		c.gamma = gamma
		ScaleCycles(func(step int) float64 { return math.Pow(gamma, float64(step)) }, true)(c)
	}
}

// ScaleCycles multiplies the height by f of the number of the cycle, from 1 on, or of that of the step, from 0 on.
func ScaleCycles(f func(n int) float64, ofSteps bool) CyclicOption {
	return func(c *cyclic) { c.scale, c.ofSteps = f, ofSteps }
}

// CyclicMomentum is the least and the largest momentum (the first of the betas, for the Adam family). The defaults are 0.8 and 0.9.
func CyclicMomentum(base, most float64) CyclicOption {
	return func(c *cyclic) { c.baseMomentum, c.maxMomentum = base, most }
}

// KeepMomentum leaves the momentum as it is. By default it falls while the rate rises, and rises while it falls.
func KeepMomentum() CyclicOption { return func(c *cyclic) { c.fixed = true } }

// CyclicLR raises the learning rates from base to most in up steps and lets them fall again, over and over
// (torch.optim.lr_scheduler.CyclicLR; Smith, "Cyclical Learning Rates for Training Neural Networks", 2017; PyTorch's default up is 2000). base and
// most have one rate for all groups, or one for each. Triangular2, ExpRange and ScaleCycles make later cycles lower; there are no other modes
// than PyTorch's three and a function. Unless KeepMomentum is given, the groups must have a momentum.
func CyclicLR(opt Rated, base, most []float64, up int, opts ...CyclicOption) *Schedule {
	c := &cyclic{base: base, most: most, up: up, down: up, baseMomentum: 0.8, maxMomentum: 0.9}
	for _, o := range opts {
		if o != nil {
			o(c)
		}
	}
	return newSchedule("CyclicLR", opt, c, c.wrong(driven(opt)))
}

// cyclic is the rule.
type cyclic struct {
	base, most                []float64
	up, down                  int
	gamma                     float64
	scale                     func(n int) float64 // nil is 1
	ofSteps, fixed            bool
	baseMomentum, maxMomentum float64
}

func (c *cyclic) wrong(opt Rated) error {
	if err := cmp.Or(positive("steps up", c.up), positive("steps down", c.down), amount("gamma", c.gamma)); err != nil {
		return err
	}
	for _, rates := range [][]float64{c.base, c.most} {
		if len(rates) != 1 && len(rates) != opt.Groups() {
			return fmt.Errorf("%d rates for %d groups", len(rates), opt.Groups())
		}
		for _, lr := range rates {
			if err := amount("learning rate", lr); err != nil {
				return err
			}
		}
	}
	if c.fixed {
		return nil
	}
	if !(c.baseMomentum > 0 && c.baseMomentum < 1 && c.maxMomentum > 0 && c.maxMomentum < 1) {
		return fmt.Errorf("momenta %v and %v; they must be in (0, 1)", c.baseMomentum, c.maxMomentum)
	}
	for i := range opt.Groups() {
		if opt.Momentum(i) == 0 {
			return fmt.Errorf("group %d has no momentum that could be cycled; give it one, or use KeepMomentum", i)
		}
	}
	return nil
}

// height is what part of the way from the least to the largest rate a step is at.
func (c *cyclic) height(step int) float64 {
	total := float64(c.up) + float64(c.down)
	cycle := math.Floor(1 + float64(step)/total)
	x, rise := 1+float64(step)/total-cycle, float64(c.up)/total
	part := x / rise
	if x > rise {
		part = (x - 1) / (rise - 1)
	}
	switch {
	case c.scale == nil:
		return part
	case c.ofSteps:
		return part * c.scale(step)
	}
	return part * c.scale(int(cycle))
}

func (c *cyclic) rate(_ float64, group, step int) float64 {
	base, most := each(c.base, group), each(c.most, group)
	return base + (most-base)*c.height(step)
}

func (c *cyclic) momentum(_, step int) float64 {
	if c.fixed {
		return -1
	}
	return c.maxMomentum - (c.maxMomentum-c.baseMomentum)*c.height(step)
}

// each is the value of a group, of one for all or one for each.
func each(values []float64, group int) float64 {
	if len(values) == 1 {
		return values[0]
	}
	return values[group]
}
