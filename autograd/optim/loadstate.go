package optim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// StateError says that a StateDict does not fit an optimizer.
type StateError struct {
	Optimizer string
	Detail    string
}

func (e *StateError) Error() string { return "optim: " + e.Optimizer + ": LoadStateDict: " + e.Detail }

// Unwrap returns ErrInvalid.
func (e *StateError) Unwrap() error { return ErrInvalid }

// LoadStateDict goes on from a state: settings are the dict's, and its tensors are copied, converted to the parameters' types and
// devices. Groups and parameters must be as many and in the order in which they were when the state was taken, and parameters that
// have a state must have a tensor. If it fails, the optimizer is as it was.
func (o *Grouped) LoadStateDict(d StateDict) (err error) {
	if o.err != nil {
		return o.err
	}
	settings, initials, err := o.settingsOf(d)
	if err != nil {
		return err
	}
	states := map[*autograd.Parameter]*state{}
	defer func() {
		if err != nil {
			for _, s := range states {
				s.release()
			}
		}
	}()
	n := 0
	for i, g := range o.groups {
		for _, p := range g.params {
			states[p], err = o.restored(d, n, p, o.method.buffers(&settings[i]))
			if err != nil {
				return err
			}
			n++
		}
	}
	for k := range d.State {
		if k < 0 || k >= n {
			return &StateError{o.name, fmt.Sprintf("there is a state of parameter %d; there are %d parameters", k, n)}
		}
	}
	o.Release()
	o.states = states
	for i, g := range o.groups {
		g.settings, g.initial = settings[i], initials[i]
	}
	return nil
}

// settingsOf reads and checks the settings and initial learning rates of all groups.
func (o *Grouped) settingsOf(d StateDict) ([]Settings, []*float64, error) {
	if len(d.Groups) != len(o.groups) {
		return nil, nil, &StateError{o.name, fmt.Sprintf("%d groups of parameters; the optimizer has %d", len(d.Groups), len(o.groups))}
	}
	settings, initials := make([]Settings, len(o.groups)), make([]*float64, len(o.groups))
	n := 0
	for i, g := range o.groups {
		var numbers []int
		text, err := json.Marshal(d.Groups[i]["params"])
		if err == nil {
			err = json.Unmarshal(text, &numbers)
		}
		want := make([]int, len(g.params))
		for k := range want {
			want[k] = n
			n++
		}
		if err != nil || !slices.Equal(numbers, want) {
			return nil, nil, &StateError{o.name, fmt.Sprintf("group %d has parameters %s; the optimizer's are %v", i, text, want)}
		}
		settings[i] = g.settings
		if initials[i], err = o.readGroup(d.Groups[i], &settings[i]); err != nil {
			return nil, nil, &StateError{o.name, fmt.Sprintf("group %d: %v", i, err)}
		}
	}
	return settings, initials, nil
}

func (o *Grouped) readGroup(g GroupState, s *Settings) (initial *float64, err error) {
	fields := o.method.fields(s)
	if _, ok := g["initial_lr"]; ok {
		initial = new(float64)
		fields = append(fields, number("initial_lr", initial))
	}
	for _, f := range fields {
		v, ok := g[f.key]
		if !ok {
			return nil, fmt.Errorf("no %q; the group has %s", f.key, strings.Join(slices.Sorted(maps.Keys(g)), ", "))
		}
		if err := f.set(v); err != nil {
			return nil, fmt.Errorf("%s: %v", f.key, err)
		}
	}
	if err := s.check(o.name); err != nil {
		return nil, err
	}
	return initial, o.method.check(s)
}

// restored makes the state of parameter number n from a dict, nil if that has none.
func (o *Grouped) restored(d StateDict, n int, p *autograd.Parameter, kept []buffer) (*state, error) {
	from, ok := d.State[n]
	if !ok {
		return nil, nil
	}
	wrong := func(format string, args ...any) error {
		return &StateError{o.name, fmt.Sprintf("parameter %d (%q): ", n, p.Name()) + fmt.Sprintf(format, args...)}
	}
	if p.Tensor() == nil {
		return nil, wrong("it has no tensor")
	}
	if len(from.Tensors) != len(kept) || o.method.counts() && from.Step < 1 {
		return nil, wrong("step %d and %d tensors; want a step from 1 on, and %d tensors", from.Step, len(from.Tensors), len(kept))
	}
	for _, b := range kept {
		t := from.Tensors[b.name]
		if t == nil {
			return nil, wrong("no tensor %q", b.name)
		}
		if !t.Shape().Equal(p.Shape()) {
			return nil, wrong("%s has shape %v, the parameter %v", b.name, t.Shape(), p.Shape())
		}
	}
	s := &state{steps: max(from.Step, 1)}
	for _, b := range kept {
		t, err := copyLike(from.Tensors[b.name], p.Tensor())
		if err != nil {
			s.release()
			return nil, fmt.Errorf("optim: %s: state of parameter %q: %w", o.name, p.Name(), err)
		}
		s.buffers = append(s.buffers, t)
	}
	return s, nil
}

// copyLike copies t to the type and Exec of like.
func copyLike(t, like *tensor.Tensor) (*tensor.Tensor, error) {
	c, err := tensor.Empty(like.Exec(), like.DType(), t.Shape()...)
	if err != nil {
		return nil, err
	}
	if err := c.CopyFrom(t); err != nil {
		c.Release()
		return nil, err
	}
	return c, nil
}
