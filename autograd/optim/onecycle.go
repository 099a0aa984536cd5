package optim

import (
	"fmt"
	"math"
)

// OneCycleOption changes a setting of OneCycleLR.
type OneCycleOption func(*oneCycle)

// PctStart is the part of the cycle in which the rate rises. The default is 0.3.
func PctStart(part float64) OneCycleOption { return func(c *oneCycle) { c.start = part } }

// LinearAnneal changes the rate along lines, not along cosines.
func LinearAnneal() OneCycleOption { return func(c *oneCycle) { c.linear = true } }

// FixedMomentum leaves the momentum as it is. By default it falls while the rate rises, and rises while it falls.
func FixedMomentum() OneCycleOption { return func(c *oneCycle) { c.fixed = true } }

// CycleMomentum is the least and the largest momentum (the first of the betas, for the Adam family). The defaults are 0.85 and
// 0.95.
func CycleMomentum(base, most float64) OneCycleOption {
	return func(c *oneCycle) { c.baseMomentum, c.maxMomentum = base, most }
}

// DivFactor is by how much the first rate is less than the largest, and final by how much the last is less than the first. The
// defaults are 25 and 1e4.
func DivFactor(initial, final float64) OneCycleOption {
	return func(c *oneCycle) { c.initial, c.final = initial, final }
}

// ThreePhase lets the rate fall to the first one as it rose, and then to the last. By default it falls to the last at once.
func ThreePhase() OneCycleOption { return func(c *oneCycle) { c.three = true } }

// OneCycleLR raises the learning rates from maxLR/25 to maxLR and lets them fall again, in total steps
// (torch.optim.lr_scheduler.OneCycleLR; Smith and Topin, "Super-Convergence", 2018). maxLR has one rate for all groups, or one for
// each. Step more than total times is an error; the last of these, after the last batch, sets rates that are for nothing, as in PyTorch. Unless FixedMomentum is given, the groups must have a momentum.
func OneCycleLR(opt Rated, maxLR []float64, total int, opts ...OneCycleOption) *Schedule {
	c := &oneCycle{start: 0.3, baseMomentum: 0.85, maxMomentum: 0.95, initial: 25, final: 1e4, total: total, most: maxLR}
	for _, o := range opts {
		if o != nil {
			o(c)
		}
	}
	return newSchedule("OneCycleLR", opt, c, c.wrong(driven(opt)))
}

// oneCycle is the rule. Phases end at steps that need not be whole numbers.
type oneCycle struct {
	start                     float64
	linear, fixed, three      bool
	baseMomentum, maxMomentum float64
	initial, final            float64
	total                     int
	most                      []float64
}

func (c *oneCycle) wrong(opt Rated) error {
	switch {
	case c.total < 1:
		return positive("total", c.total)
	case len(c.most) != 1 && len(c.most) != opt.Groups():
		return fmt.Errorf("%d rates for %d groups", len(c.most), opt.Groups())
	case !(c.start >= 0 && c.start <= 1):
		return unit("part of the rise", c.start)
	case !(c.initial > 0 && c.final > 0 && countable(c.initial) && countable(c.final)):
		return fmt.Errorf("factors %v and %v; they must be finite and greater than 0", c.initial, c.final)
	case !c.fixed && !(c.baseMomentum >= 0 && c.baseMomentum < 1 && c.maxMomentum >= 0 && c.maxMomentum < 1):
		return fmt.Errorf("momenta %v and %v; they must be in [0, 1)", c.baseMomentum, c.maxMomentum)
	}
	for _, lr := range c.most {
		if err := amount("learning rate", lr); err != nil {
			return err
		}
	}
	for i := range opt.Groups() {
		if !c.fixed && opt.Momentum(i) == 0 {
			return fmt.Errorf("group %d has no momentum that could be cycled; give it one, or use FixedMomentum", i)
		}
	}
	return nil
}

func (c *oneCycle) check(step int) error {
	if step > c.total { // PyTorch allows a step after the last batch, whose rate nothing uses
		return fmt.Errorf("step %d of %d: the cycle is over", step, c.total)
	}
	return nil
}

// phase finds the phase of a step: its number, and how much of it has passed.
func (c *oneCycle) phase(step int) (int, float64) {
	total := float64(c.total)
	ends := []float64{c.start*total - 1, total - 1}
	if c.three {
		ends = []float64{c.start*total - 1, 2*c.start*total - 2, total - 1}
	}
	from, at := 0.0, float64(step)
	for i, end := range ends {
		if at <= end || i == len(ends)-1 {
			return i, (at - from) / (end - from)
		}
		from = end
	}
	return 0, 0
}

// anneal goes from a to b.
func (c *oneCycle) anneal(a, b, part float64) float64 {
	if c.linear {
		return (b-a)*part + a
	}
	return b + (a-b)/2*(math.Cos(math.Pi*part)+1)
}

func (c *oneCycle) rate(_ float64, group, step int) float64 {
	if len(c.most) == 1 {
		group = 0
	}
	most := c.most[group]
	first := most / c.initial
	last := first / c.final
	n, part := c.phase(step)
	levels := []float64{first, most, last}
	if c.three {
		levels = []float64{first, most, first, last}
	}
	return max(0, c.anneal(levels[n], levels[n+1], part)) // a line goes on below 0 behind the last batch
}

func (c *oneCycle) momentum(_, step int) float64 {
	if c.fixed {
		return -1
	}
	n, part := c.phase(step)
	levels := []float64{c.maxMomentum, c.baseMomentum, c.maxMomentum, c.maxMomentum}
	if m := c.anneal(levels[n], levels[n+1], part); m < 1 {
		return m
	}
	return levels[n+1]
}
