package optim

import (
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/internal/replay"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// Steps that are decided and counted on the device.

// StepScaled is Step for gradients that are multiplied by gradScale, or are not if it is nil, and leaves everything as it is if
// foundInf is there and not 0: a skipped step does not count. Both have one float32, on any device, and stay the caller's, who puts
// earlier work on them before that on the parameters' streams. Nothing waits for the device, unless they are on another one than a parameter. With
// StepScaled the optimizer is an amp.FusedStepper, so that GradScaler.Step does not wait. Optimizers without a kernel of their own (see
// Launches in the package's documentation) wait for both, and multiply the gradients first.
//
// Parameters and state change as they would by gradients that had been divided before; the gradients themselves do not change. One that was released is a
// *tensor.ReleasedError, and one that has not one float32 a *ConfigError.
func (o *Grouped) StepScaled(gradScale, foundInf *tensor.Tensor) error {
	if err := errors.Join(o.one("gradScale", gradScale), o.one("foundInf", foundInf)); err != nil {
		return err
	}
	by := &decision{scale: gradScale, found: foundInf, lent: map[tensor.Exec]guard{}}
	defer by.release()
	return o.stepAll(by)
}

// one is what is wrong with an argument of StepScaled that should have one float32, if it is there.
func (o *Grouped) one(name string, t *tensor.Tensor) error {
	switch {
	case o == nil || t == nil: // a nil optimizer has an error of its own
		return nil
	case t.Released():
		return fmt.Errorf("optim: %s: %s: %w", o.name, name, &tensor.ReleasedError{Op: "StepScaled"})
	case t.DType() != tensor.Float32 || t.Len() != 1:
		return &ConfigError{Optimizer: o.name, Detail: fmt.Sprintf("StepScaled: %s is %v%v; it must be one float32", name, t.DType(), t.Shape())}
	}
	return nil
}

// decision is what the device decides a step by.
type decision struct {
	scale, found *tensor.Tensor
	lent         map[tensor.Exec]guard // handles or copies where the parameters are
	divisor      float64               // the scale, for those that wait for it; 0 if there is none
}

// at is the decision under e.
func (d *decision) at(e tensor.Exec) (g guard, err error) {
	if g, ok := d.lent[e]; ok {
		return g, nil
	}
	if d.scale != nil {
		if g.Scale, err = lend(d.scale, e); err != nil {
			return g, err
		}
	}
	if d.found != nil {
		if g.Found, err = lend(d.found, e); err != nil {
			g.Scale.Release()
			return guard{}, err
		}
	}
	d.lent[e] = g
	return g, nil
}

// lend brings a tensor to e. On its own device nothing waits: who decides orders the streams, once for all that it has.
func lend(t *tensor.Tensor, e tensor.Exec) (*tensor.Tensor, error) {
	if t.Device().ID() == e.Device().ID() {
		return t.On(e), nil
	}
	return t.ToDevice(e)
}

func (d *decision) release() {
	for _, g := range d.lent {
		g.Scale.Release()
		g.Found.Release()
	}
}

// prepare gives a batch what its step takes from the device.
func (o *Grouped) prepare(b *batch, by *decision) (err error) {
	if _, ok := o.method.(composed); ok {
		return nil
	}
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

// counters are the steps of parameters under one Exec, in one tensor with room for all of the optimizer.
type counters struct {
	all    *tensor.Tensor
	exec   tensor.Exec
	states []*state // in the order of the elements, as many as there are yet
}

// count makes counters for those of the states that have none. They go on from the steps taken so far.
func (o *Grouped) count(states []*state, e tensor.Exec) error {
	var fresh []*state
	for _, s := range states {
		if s.count == nil {
			fresh = append(fresh, s)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if r := replay.On(e.Stream()); r != nil {
		return refused(r, o.name+" has not counted steps on the device yet, and a replay would begin anew: take a step before it is captured")
	}
	c, err := o.countersFor(len(fresh), e)
	if err != nil {
		return err
	}
	views, err := c.begin(fresh)
	if err != nil {
		for _, v := range views {
			v.Release()
		}
		return err
	}
	for i, s := range fresh {
		s.count = views[i]
	}
	c.states = append(c.states, fresh...)
	return nil
}

// countersFor returns counters with room for n more parameters, and makes them if there are none.
func (o *Grouped) countersFor(n int, e tensor.Exec) (*counters, error) {
	for _, c := range o.counters {
		if c.exec == e && c.all.Len()-len(c.states) >= n {
			return c, nil
		}
	}
	all, err := tensor.Empty(e, tensor.Int64, len(o.states))
	if err != nil {
		return nil, err
	}
	if oplabel.Wanted() {
		tensor.Mark(training.Key{}, all, memmeter.State, oplabel.Label{Op: o.name, Step: true})
	}
	o.version++
	replay.Prepared(e.Stream()).AtEnd(o, o.goHome)
	c := &counters{all: all, exec: e}
	o.counters = append(o.counters, c)
	return c, nil
}

// begin sets the next elements to the steps that parameters have taken, in one launch if those are as many, and returns them.
func (c *counters) begin(fresh []*state) (views []*tensor.Tensor, err error) {
	next, err := c.all.Narrow(0, len(c.states), len(fresh))
	if err != nil {
		return nil, err
	}
	defer next.Release()
	taken := fresh[0].steps
	if err := next.FillInPlace(float64(taken)); err != nil {
		return nil, err
	}
	if views, err = next.Unbind(0); err != nil {
		return nil, err
	}
	for i, s := range fresh {
		if s.steps == taken {
			continue
		}
		if err := views[i].FillInPlace(float64(s.steps)); err != nil {
			return views, err
		}
	}
	return views, nil
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
