package optim

import (
	"github.com/cistern-ml/cistern/tensor"
)

// Steps that are decided and counted on the device.

// StepScaled is Step for gradients that are multiplied by gradScale, or are not if it is nil, and leaves everything as it is if
// foundInf is not 0: a skipped step does not count. Both have one float32, on any device, and stay the caller's, who puts earlier work
// on them before that on the parameters' streams. Nothing waits for the device, unless they are on another one than a parameter. With
// StepScaled the optimizer is an amp.FusedStepper, so that GradScaler.Step does not wait.
//
// Parameters and state change as they would by gradients that had been divided before; the gradients themselves do not change.
func (o *Grouped) StepScaled(gradScale, foundInf *tensor.Tensor) error {
	by := &decision{scale: gradScale, found: foundInf, lent: map[tensor.Exec]tensor.StepGuard{}}
	defer by.release()
	return o.stepAll(by)
}

// decision is what the device decides a step by.
type decision struct {
	scale, found *tensor.Tensor
	lent         map[tensor.Exec]tensor.StepGuard // handles or copies where the parameters are
}

// at is the decision under e.
func (d *decision) at(e tensor.Exec) (g tensor.StepGuard, err error) {
	if g, ok := d.lent[e]; ok {
		return g, nil
	}
	if d.scale != nil {
		if g.Scale, err = d.scale.ToDevice(e); err != nil {
			return g, err
		}
	}
	if d.found != nil {
		if g.Found, err = d.found.ToDevice(e); err != nil {
			g.Scale.Release()
			return tensor.StepGuard{}, err
		}
	}
	d.lent[e] = g
	return g, nil
}

func (d *decision) release() {
	for _, g := range d.lent {
		g.Scale.Release()
		g.Found.Release()
	}
}

// prepare gives a batch what its step takes from the device.
func (o *Grouped) prepare(b *batch, by *decision) (err error) {
	if by != nil {
		if b.guard, err = by.at(b.exec); err != nil {
			return err
		}
	}
	if !b.counted {
		return nil
	}
	if err := o.count(b.states, b.exec); err != nil {
		return err
	}
	for _, s := range b.states {
		b.guard.Counts = append(b.guard.Counts, s.count)
	}
	return nil
}

// counters are the steps of some parameters, in one tensor.
type counters struct {
	all    *tensor.Tensor
	states []*state // in the order of the elements
}

// count makes counters for those of the states that have none. They go on from the steps taken so far.
func (o *Grouped) count(states []*state, e tensor.Exec) error {
	c := &counters{}
	for _, s := range states {
		if s.count == nil {
			c.states = append(c.states, s)
		}
	}
	if len(c.states) == 0 {
		return nil
	}
	taken := c.states[0].steps
	var err error
	if c.all, err = tensor.Full(e, float64(taken), tensor.Int64, len(c.states)); err != nil {
		return err
	}
	views, err := c.all.Unbind(0)
	for i := 0; i < len(views) && err == nil; i++ {
		if s := c.states[i]; s.steps != taken {
			err = views[i].FillInPlace(float64(s.steps))
		}
	}
	if err != nil {
		for _, v := range append(views, c.all) {
			v.Release()
		}
		return err
	}
	for i, s := range c.states {
		s.count = views[i]
	}
	o.counters = append(o.counters, c)
	return nil
}

// stepsTaken is what the counters say.
type stepsTaken map[*state]int

// of is the number of steps that a parameter has taken.
func (t stepsTaken) of(s *state) int {
	if s.count == nil {
		return s.steps
	}
	return t[s]
}

// readCounters waits for the counters, if there are any.
func (o *Grouped) readCounters() (stepsTaken, error) {
	taken := stepsTaken{}
	for _, c := range o.counters {
		values, err := tensor.ToSlice[int64](c.all)
		if err != nil {
			return nil, err
		}
		for i, s := range c.states {
			taken[s] = int(values[i])
		}
	}
	return taken, nil
}
