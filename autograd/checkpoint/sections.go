package checkpoint

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

// Section is a part of a training state.
type Section interface {
	// Save returns what the section holds. Its tensors are read before anything else happens, and stay the section's.
	Save() (Content, error)
	// Prepare checks what was read, without changing anything, and returns what sets it. The tensors are on the host, and are
	// released when that has returned.
	Prepare(c Content) (set func() error, err error)
}

// Content is what a section has in a file: tensors by name, and anything else as JSON.
type Content struct {
	Tensors map[string]*tensor.Tensor
	JSON    json.RawMessage
}

// MismatchError says that a file and the objects that it is loaded into do not belong together.
type MismatchError struct {
	Section string
	Detail  string
}

// absent is the error of a section of nothing.
func absent(what string) error { return &MismatchError{Detail: "the " + what + " is nil"} }

func (e *MismatchError) Error() string { return fmt.Sprintf("checkpoint: %s: %s", e.Section, e.Detail) }

// Module is the section of a model's parameters, under the names of nn.NamedState. Values are converted to the parameters'
// types.
func Module(m nn.Module) Section { return module{m} }

type module struct{ m nn.Module }

func (s module) Save() (Content, error) {
	c := Content{Tensors: map[string]*tensor.Tensor{}}
	for _, n := range nn.NamedState(s.m) {
		t := n.Parameter.Tensor()
		if t == nil {
			return Content{}, &autograd.ParameterError{Name: n.Name, Shape: n.Parameter.Shape()}
		}
		if c.Tensors[n.Name] != nil {
			return Content{}, &MismatchError{Detail: "two parameters are called " + n.Name}
		}
		c.Tensors[n.Name] = t
	}
	return c, nil
}

func (s module) Prepare(c Content) (func() error, error) {
	have, err := s.Save()
	if err != nil {
		return nil, err
	}
	var wrong []string
	for name, t := range have.Tensors {
		switch from := c.Tensors[name]; {
		case from == nil:
			wrong = append(wrong, name+" is not in the file")
		case !from.Shape().Equal(t.Shape()):
			wrong = append(wrong, fmt.Sprintf("%s has shape %v in the file, %v in the model", name, from.Shape(), t.Shape()))
		}
	}
	for name := range c.Tensors {
		if have.Tensors[name] == nil {
			wrong = append(wrong, name+" is not in the model")
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return nil, &MismatchError{Detail: strings.Join(wrong, "; ")}
	}
	return func() error {
		for name, t := range have.Tensors {
			if err := t.CopyFrom(c.Tensors[name]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}, nil
}

// StateOptimizer is an optimizer with a state. *optim.Grouped is one.
type StateOptimizer interface {
	StateDict() (optim.StateDict, error)
	LoadStateDict(d optim.StateDict) error
}

// Optimizer is the section of an optimizer: its state as "state.NUMBER.NAME", settings and steps as JSON.
func Optimizer(o StateOptimizer) Section { return optimizer{o} }

type optimizer struct{ o StateOptimizer }

// optimizerJSON is what of an optimizer is no tensor.
type optimizerJSON struct {
	Groups []optim.GroupState `json:"param_groups"`
	Steps  map[int]int        `json:"steps"` // of each parameter that has a state
}

func (s optimizer) Save() (Content, error) {
	if s.o == nil {
		return Content{}, absent("optimizer")
	}
	d, err := s.o.StateDict()
	if err != nil {
		return Content{}, err
	}
	c := Content{Tensors: map[string]*tensor.Tensor{}}
	rest := optimizerJSON{Groups: d.Groups, Steps: map[int]int{}}
	for n, p := range d.State {
		rest.Steps[n] = p.Step
		for name, t := range p.Tensors {
			c.Tensors[fmt.Sprintf("state.%d.%s", n, name)] = t
		}
	}
	c.JSON, err = json.Marshal(rest)
	return c, err
}

func (s optimizer) Prepare(c Content) (func() error, error) {
	if s.o == nil {
		return nil, absent("optimizer")
	}
	var rest optimizerJSON
	if err := json.Unmarshal(c.JSON, &rest); err != nil {
		return nil, malformed("the optimizer: %v", err)
	}
	d := optim.StateDict{Groups: rest.Groups, State: map[int]optim.ParamState{}}
	for n, step := range rest.Steps {
		d.State[n] = optim.ParamState{Step: step, Tensors: map[string]*tensor.Tensor{}}
	}
	for _, full := range slices.Sorted(maps.Keys(c.Tensors)) {
		parts := strings.SplitN(full, ".", 3)
		if len(parts) != 3 || parts[0] != "state" {
			return nil, malformed("an optimizer has no tensor %q", full)
		}
		n, err := strconv.Atoi(parts[1])
		if _, ok := d.State[n]; err != nil || !ok {
			return nil, malformed("%s is of a parameter without a state", full)
		}
		d.State[n].Tensors[parts[2]] = c.Tensors[full]
	}
	return func() error { return s.o.LoadStateDict(d) }, nil
}

// State is the section of anything whose state goes through JSON: amp.GradScaler, optim.Schedule, optim.PlateauSchedule, ...
func State[T any](save func() (T, error), load func(T) error) Section { return state[T]{save, load} }

type state[T any] struct {
	save func() (T, error)
	load func(T) error
}

func (s state[T]) Save() (Content, error) {
	if s.save == nil || s.load == nil {
		return Content{}, absent("state")
	}
	v, err := s.save()
	if err != nil {
		return Content{}, err
	}
	text, err := json.Marshal(v)
	return Content{JSON: text}, err
}

func (s state[T]) Prepare(c Content) (func() error, error) {
	if s.save == nil || s.load == nil {
		return nil, absent("state")
	}
	var v T
	if err := json.Unmarshal(c.JSON, &v); err != nil {
		return nil, malformed("a %T: %v", v, err)
	}
	return func() error { return s.load(v) }, nil
}

// Generator is the section of a generator of random numbers.
func Generator(g *tensor.Generator) Section {
	if g == nil {
		return State[tensor.GeneratorState](nil, nil)
	}
	return State(
		func() (tensor.GeneratorState, error) { return g.State(), nil },
		func(s tensor.GeneratorState) error { g.SetState(s); return nil })
}

// Value is the section of a variable: the step, the epoch, what is known of the best model.
func Value[T any](v *T) Section {
	if v == nil {
		return State[T](nil, nil)
	}
	return State(func() (T, error) { return *v, nil }, func(x T) error { *v = x; return nil })
}
