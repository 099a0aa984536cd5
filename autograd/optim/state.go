package optim

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/internal/replay"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// state is what the optimizer keeps for a parameter.
type state struct {
	buffers []*tensor.Tensor
	steps   int            // steps taken, if they are not counted on the device
	count   *tensor.Tensor // steps taken, else nil
}

// stateOf returns the state of a parameter, and makes the buffers that are missing.
func (o *Grouped) stateOf(p *autograd.Parameter, kept []buffer) (*state, error) {
	s := o.states[p]
	if s == nil {
		s = new(state)
		o.states[p] = s
	}
	for len(s.buffers) < len(kept) {
		t := p.Tensor()
		if err := unrecorded(o, p); err != nil {
			return nil, err
		}
		b := kept[len(s.buffers)]
		z, err := emptyBeside(t, b.dtype(t.DType()), b.shape(t.Shape()))
		if err != nil {
			return nil, err
		}
		if err := z.FillInPlace(b.start); err != nil {
			z.Release()
			return nil, err
		}
		if oplabel.Wanted() {
			tensor.MarkState(training.Key{}, z, t, o.name)
		}
		o.version++
		replay.Prepared(t.Exec().Stream()).AtEnd(o, o.goHome)
		s.buffers = append(s.buffers, z)
	}
	return s, nil
}

// emptyBeside makes a tensor that belongs to a parameter of value t: in its memory format, if it has its shape, since steps walk both in one run.
func emptyBeside(t *tensor.Tensor, dt tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	f := tensor.ContiguousFormat
	if shape.Equal(t.Shape()) {
		f = formatOf(t)
	}
	return tensor.EmptyIn(t.Exec(), f, dt, shape...)
}

// formatOf is the memory format of the state of a parameter of value t.
func formatOf(t *tensor.Tensor) tensor.MemoryFormat {
	if t.IsContiguous() {
		return tensor.ContiguousFormat
	}
	return t.MemoryFormat()
}

// arrange brings the state to the memory format of the parameter's value, which To may have changed since. Of a step that is being recorded it is
// refused: each replay would do it. What was brought there before an error stays so, and fits all the same.
func (o *Grouped) arrange(s *state, p *autograd.Parameter) error {
	value := p.Tensor()
	for i, t := range s.buffers {
		if !t.Shape().Equal(value.Shape()) || value.IsContiguousIn(t.MemoryFormat()) {
			continue
		}
		if r := recordingOf(value); r != nil {
			return refused(r, fmt.Sprintf("%s has state for parameter %s in another memory format than the value has now: take a step before it is captured", o.name, excerpt.Quote(p.Name())))
		}
		here := t.On(value.Exec()) // where the step runs
		c, err := here.ToMemoryFormat(formatOf(value))
		here.Release()
		if err != nil {
			return err
		}
		if oplabel.Wanted() {
			tensor.MarkState(training.Key{}, c, value, o.name)
		}
		o.version++
		replay.Prepared(value.Exec().Stream()).AtEnd(o, o.goHome)
		s.buffers[i] = c
		t.Release()
	}
	return nil
}

// StateBytes is the device memory of the state: what the allocators' statistics count for it, in bytes.
func (o *Grouped) StateBytes() uint64 {
	if o == nil {
		return 0
	}
	total := uint64(0)
	for _, s := range o.states {
		if s == nil {
			continue
		}
		for _, t := range s.buffers {
			total += t.StorageBytes()
		}
	}
	for _, c := range o.counters {
		total += c.all.StorageBytes()
	}
	return total
}

// Release releases the state, and forgets the steps taken: the next Step is a first one. Parameters and gradients are not the
// optimizer's.
func (o *Grouped) Release() {
	if o == nil {
		return
	}
	for p, s := range o.states {
		s.release()
		o.states[p] = nil
	}
	for _, c := range o.counters {
		c.all.Release()
	}
	o.counters = nil
	o.version++
}

func (s *state) release() {
	if s == nil {
		return
	}
	for _, t := range s.buffers {
		t.Release()
	}
	s.count.Release()
}

// MarkState tells meters, to which the state may be new, what it is: in the module of its parameter. It is for packages of this module, which alone can
// write the key: memreport.WithOptimizer calls it.
func (o *Grouped) MarkState(training.Key) {
	if o == nil {
		return
	}
	for p, s := range o.states {
		if s == nil {
			continue
		}
		for _, t := range s.buffers {
			tensor.MarkState(training.Key{}, t, p.Tensor(), o.name)
		}
	}
	for _, c := range o.counters {
		tensor.Mark(training.Key{}, c.all, memmeter.State, oplabel.Label{Op: o.name, Step: true})
	}
}
