package optim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// StateError says that a state does not fit an optimizer or a schedule, or that none has such a state.
type StateError struct {
	Of     string // the optimizer or schedule, as in "Adam"
	Method string // "LoadStateDict" or "LoadState"
	Detail string // the values, and what is wanted
	From   string // the optimizer or schedule that the state is of, if that is another one
}

func (e *StateError) Error() string { return "optim: " + e.Of + ": " + e.Method + ": " + e.Detail }

// another is the error of a state of another optimizer or schedule.
func another(of, method, from string) error {
	return &StateError{Of: of, Method: method, From: from, Detail: fmt.Sprintf("it is the state of %s, not of %s", from, of)}
}

// unfit is the error of a StateDict.
func (o *Grouped) unfit(format string, args ...any) error {
	return &StateError{Of: o.name, Method: loadDict, Detail: fmt.Sprintf(format, args...)}
}

const (
	loadDict  = "LoadStateDict"
	loadState = "LoadState"
)

// Unwrap returns ErrInvalid.
func (e *StateError) Unwrap() error { return ErrInvalid }

// LoadStateDict goes on from a state: settings are the dict's, and its tensors are copied, converted to the parameters' types and
// devices. Groups and parameters must be as many and in the order in which they were when the state was taken, and parameters that
// have a state must have a tensor. A setting that an option would not take, a number of steps that nobody takes, and the state of another
// optimizer, is a *StateError.
// If it fails, the optimizer is as it was.
func (o *Grouped) LoadStateDict(d StateDict) error {
	p, err := o.PrepareStateDict(d)
	if err != nil {
		return err
	}
	p.Swap()
	p.Release()
	return nil
}

// PreparedState is a state that an optimizer can have: checked, and copied to the parameters' devices.
type PreparedState struct {
	o        *Grouped
	states   map[*autograd.Parameter]*state
	counters []*counters
	settings []Settings
	initials []*float64

	swap, release func() // of LBFGS, which has no groups
}

// PrepareStateDict does the part of LoadStateDict that can fail, and changes nothing. The caller swaps the result in, and releases it.
func (o *Grouped) PrepareStateDict(d StateDict) (_ *PreparedState, err error) {
	if err := o.Err(); err != nil {
		return nil, err
	}
	if d.Optimizer != "" && d.Optimizer != o.name {
		return nil, another(o.name, loadDict, d.Optimizer)
	}
	s := &PreparedState{o: o, states: map[*autograd.Parameter]*state{}}
	if s.settings, s.initials, err = o.settingsOf(d); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Release()
		}
	}()
	n := 0
	for i, g := range o.groups {
		for _, p := range g.params {
			s.states[p], err = o.restored(d, n, p, o.method.buffers(&s.settings[i]))
			if err != nil {
				return nil, err
			}
			n++
		}
	}
	for k := range d.State {
		if k < 0 || k >= n {
			return nil, o.unfit("there is a state of parameter %d; there are %d parameters", k, n)
		}
	}
	return s, nil
}

// Swap exchanges the prepared state and that of the optimizer, which can be swapped back. Between PrepareStateDict and the last
// Swap no group may be added. A PreparedState that PrepareStateDict did not make is of no optimizer, and does nothing.
func (s *PreparedState) Swap() {
	if s != nil && s.swap != nil {
		s.swap()
	}
	if s == nil || s.o == nil {
		return
	}
	o := s.o
	if oplabel.Wanted() { // no step may come that would tell
		defer o.MarkState(training.Key{})
	}
	s.states, o.states = o.states, s.states
	s.counters, o.counters = o.counters, s.counters
	o.version++
	for i := range s.settings {
		g := o.groups[i]
		s.settings[i], g.settings = g.settings, s.settings[i]
		s.initials[i], g.initial = g.initial, s.initials[i]
	}
}

// Release gives back the memory of the state that the optimizer does not have.
func (s *PreparedState) Release() {
	if s == nil {
		return
	}
	if s.release != nil {
		s.release()
	}
	for p, st := range s.states {
		st.release()
		s.states[p] = nil
	}
	for _, c := range s.counters {
		c.all.Release()
	}
	s.counters = nil
}

// settingsOf reads and checks the settings and initial learning rates of all groups.
func (o *Grouped) settingsOf(d StateDict) ([]Settings, []*float64, error) {
	if len(d.Groups) != len(o.groups) {
		return nil, nil, o.unfit("%d groups of parameters; the optimizer has %d", len(d.Groups), len(o.groups))
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
			return nil, nil, o.unfit("group %d has parameters %s; the optimizer's are %v", i, text, want)
		}
		settings[i] = g.settings
		if initials[i], err = o.readGroup(d.Groups[i], &settings[i]); err != nil {
			return nil, nil, o.unfit("group %d: %v", i, err)
		}
	}
	return settings, initials, nil
}

func (o *Grouped) readGroup(g GroupState, s *Settings) (initial *float64, err error) {
	if err := o.recognise(g); err != nil {
		return nil, err
	}
	fields := o.method.fields(s)
	if _, ok := g["initial_lr"]; ok {
		initial = new(float64)
		fields = append(fields, number("initial_lr", initial))
	}
	for _, f := range fields {
		v, ok := g[f.key]
		if !ok {
			return nil, fmt.Errorf("no %q; the group has %s", f.key, excerpt.Long(strings.Join(slices.Sorted(maps.Keys(g)), ", ")))
		}
		if err := f.set(v); err != nil {
			return nil, fmt.Errorf("%s: %v", f.key, err)
		}
	}
	if initial != nil && !countable(*initial) {
		return nil, fmt.Errorf("initial_lr %v; it must be finite and not negative", *initial)
	}
	if err := s.check(o.name); err != nil {
		return nil, err
	}
	return initial, o.method.check(s)
}

// recognise refuses a group with settings that the optimizer does not have and others of this package do: it is one of those. What
// PyTorch has beside them ("foreach", "fused") is nobody's.
func (o *Grouped) recognise(g GroupState) error {
	if marked, ok := o.method.(adam); ok {
		if v, ok := g[decoupledKey]; ok && v != marked.decoupled {
			return fmt.Errorf("%s is %v; that of %s is %v", decoupledKey, v, o.name, marked.decoupled)
		}
		return nil
	}
	own := map[string]bool{}
	for _, f := range o.method.fields(new(Settings)) {
		own[f.key] = true
	}
	for _, m := range []method{sgd{}, adam{}, rmsprop{}, adagrad{}, adadelta{}, nadam{}, rprop{}, asgd{}, muon{}} { // those of the others are among these
		for _, f := range m.fields(new(Settings)) {
			if _, ok := g[f.key]; ok && !own[f.key] {
				return fmt.Errorf("it has %q, which %s has not: it is a group of another optimizer", f.key, o.name)
			}
		}
	}
	return nil
}

// maxSteps is how many steps a state can have taken: what a float64, with which steps count, and PyTorch's, holds.
const maxSteps = 1 << 53

// checkSteps refuses numbers of steps that nobody takes.
func (o *Grouped) checkSteps(steps int) string {
	switch {
	case !o.method.counts() && steps != 0:
		return fmt.Sprintf("step %d; want 0, for this optimizer does not count them", steps)
	case o.method.counts() && (steps < 1 || steps > maxSteps):
		return fmt.Sprintf("step %d; want one from 1 to 2^53", steps)
	}
	return ""
}

// restored makes the state of parameter number n from a dict, nil if that has none.
func (o *Grouped) restored(d StateDict, n int, p *autograd.Parameter, kept []buffer) (*state, error) {
	from, ok := d.State[n]
	if !ok {
		return nil, nil
	}
	wrong := func(format string, args ...any) error {
		return o.unfit("parameter %d (%q): %s", n, excerpt.Of(p.Name()), fmt.Sprintf(format, args...))
	}
	if p.Tensor() == nil {
		return nil, wrong("it has no tensor")
	}
	if bad := o.checkSteps(from.Step); bad != "" {
		return nil, wrong("%s", bad)
	}
	if len(from.Tensors) != len(kept) {
		return nil, wrong("%d tensors; want %d", len(from.Tensors), len(kept))
	}
	for _, b := range kept {
		t := from.Tensors[b.name]
		if t == nil {
			return nil, wrong("no tensor %q", b.name)
		}
		if want := b.shape(p.Shape()); !t.Shape().Equal(want) {
			return nil, wrong("%s has shape %v; want %v", b.name, t.Shape(), want)
		}
	}
	s := &state{steps: max(from.Step, 1)}
	for _, b := range kept {
		t, err := copyBeside(p.Tensor(), from.Tensors[b.name], b.dtype(p.Tensor().DType()))
		if err != nil {
			s.release()
			return nil, fmt.Errorf("optim: %s: state of parameter %q: %w", o.name, excerpt.Of(p.Name()), err)
		}
		s.buffers = append(s.buffers, t)
	}
	return s, nil
}

// copyBeside copies t to a type, to be beside a parameter of value p.
func copyBeside(p, t *tensor.Tensor, dt tensor.DType) (*tensor.Tensor, error) {
	c, err := emptyBeside(p, dt, t.Shape())
	if err != nil {
		return nil, err
	}
	if err := c.CopyFrom(t); err != nil {
		c.Release()
		return nil, err
	}
	return c, nil
}
