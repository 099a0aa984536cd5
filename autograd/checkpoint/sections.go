package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/internal/statedict"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// Section is a part of a training state.
type Section interface {
	// Save returns what the section holds. Its tensors are read before anything else happens, and stay the section's.
	Save() (Content, error)
	// Prepare reads and checks all that was read, takes the memory that the change needs, and changes nothing. The tensors are on the
	// host, and are there until Change.Close has returned; the change may release them before.
	Prepare(c Content) (Change, error)
}

// Change is what a section has prepared. Any of its functions may be nil.
type Change struct {
	// Apply makes the change, after all sections have prepared theirs, in the order of the sections. Whatever a file can have wrong was
	// found by Prepare: it fails only if a device does.
	Apply func() error
	// Undo takes the change back. It is called, the last section first, if Apply fails, after it or after that of a later section.
	Undo func() error
	// Close gives back what Prepare took. It is called once, whatever happened.
	Close func()
}

// Content is what a section has in a file: tensors by name, and anything else as JSON.
type Content struct {
	Tensors map[string]*tensor.Tensor
	JSON    json.RawMessage
	// Kind is of what it is the state, as in "optimizer Adam", in the words of the section that saved it; empty if that said nothing. The
	// sections of this package refuse a Kind that does not begin with the same word as theirs.
	Kind string

	order []string // of the tensors in the file
}

// inOrder is the names of the tensors as they are in the file, sorted for a Content that is of none.
func (c Content) inOrder() []string {
	if len(c.order) == len(c.Tensors) {
		return c.order
	}
	return slices.Sorted(maps.Keys(c.Tensors))
}

// Module is the section of a model's parameters and buffers, under the names of nn.NamedState. Values are converted to the
// types that the model has. What the model shares may be in a file under any of its names, or several, as for nn.Load. Values are set in place: the device needs no second copy.
// With nn.Partial file and model may have what the other has not, and nn.Rename is for a file with other names, which it gets without that of
// the section.
func Module(m nn.Module, opts ...nn.LoadOption) Section {
	s := module{m: m}
	for _, o := range opts {
		if o != nil {
			o(&s.load)
		}
	}
	return s
}

type module struct {
	m    nn.Module
	load nn.LoadSettings
}

func (s module) Save() (Content, error) {
	c := Content{Kind: moduleKind, Tensors: map[string]*tensor.Tensor{}}
	if isnil.Value(s.m) {
		return c, absent("module")
	}
	if err := nn.Check(s.m); err != nil {
		return Content{}, err
	}
	for _, n := range nn.NamedState(s.m) {
		t := n.Parameter.Tensor()
		if why := autograd.Behind(training.Key{}, n.Parameter); why != "" {
			return Content{}, &ArgumentError{Call: "Write", Detail: excerpt.Of(n.Name) + ": " + why}
		}
		if t == nil {
			return Content{}, autograd.Missing(training.Key{}, n.Parameter, n.Name, "")
		}
		if c.Tensors[n.Name] != nil {
			return Content{}, &MismatchError{Detail: "two parameters are called " + excerpt.Of(n.Name)}
		}
		c.Tensors[n.Name] = t
	}
	return c, nil
}

func (s module) Prepare(c Content) (Change, error) {
	if isnil.Value(s.m) {
		return Change{}, absent("module")
	}
	if err := nn.Check(s.m); err != nil {
		return Change{}, err
	}
	if err := sameKind(c, moduleKind); err != nil {
		return Change{}, err
	}
	if len(c.JSON) > 0 && string(c.JSON) != "null" {
		return Change{}, &MismatchError{Detail: "what the file has is no module: a module has no JSON"}
	}
	var model []statedict.Named
	for _, n := range nn.AllNamedState(s.m) {
		model = append(model, statedict.Named(n))
	}
	names := c.inOrder()
	file := make([]statedict.Entry, len(names))
	for i, name := range names {
		file[i] = statedict.Entry{Name: name, Shape: c.Tensors[name].Shape()}
	}
	model, file, at, err := statedict.Changes{Rename: s.load.Rename, Transposed: s.load.Transposed, Only: s.load.Only}.Apply(model, file)
	if err != nil {
		return Change{}, &MismatchError{Detail: err.Error()}
	}
	found := statedict.New(model, file)
	if !found.Fits() && !(s.load.Partial && found.FitsInPart(len(names))) {
		return Change{}, mismatch(found)
	}
	x := new(safetensors.Exchange)
	for i, p := range found.To {
		if p == nil {
			continue
		}
		place, ok := statedict.PlaceOf(p)
		if !ok {
			return Change{}, autograd.Missing(training.Key{}, p, file[i].Name, "")
		}
		place.Transposed = file[i].Transposed
		x.Add(file[i].Name, place, c.Tensors[names[at[i]]])
	}
	return s.noting(found, Change{Apply: x.Apply, Undo: x.Undo}), nil
}

// noting lists what file and model do not have of each other, where that was asked for, when the values are there.
func (s module) noting(found *statedict.Match, values Change) Change {
	if s.load.Unmatched == nil {
		return values
	}
	before := *s.load.Unmatched
	return Change{
		Apply: func() error {
			if err := values.Apply(); err != nil {
				return err
			}
			s.load.Unmatched.Missing, s.load.Unmatched.Unexpected = found.Names()
			return nil
		},
		Undo: func() error {
			*s.load.Unmatched = before
			return values.Undo()
		},
	}
}

// mismatch lists what a program wants and a file has not, or otherwise.
func mismatch(found *statedict.Match) error {
	if found.Twice != "" {
		return &MismatchError{Detail: "two parameters are called " + excerpt.Of(found.Twice)}
	}
	const nothing = "nothing"
	var all []Difference
	for _, n := range found.Missing {
		all = append(all, Difference{n.Name, "shape " + n.Parameter.Shape().String(), nothing})
	}
	for _, o := range found.Shapes {
		all = append(all, Difference{o.Name, "shape " + o.Parameter.Shape().String(), "shape " + o.Found.String()})
	}
	for _, e := range found.Unexpected {
		all = append(all, Difference{e.Name, nothing, "shape " + e.Shape.String()})
	}
	slices.SortFunc(all, func(a, b Difference) int { return strings.Compare(a.Tensor, b.Tensor) })
	return &MismatchError{Differences: all}
}

// StateOptimizer is an optimizer with a state. *optim.Grouped and *optim.LBFGSOptimizer are.
type StateOptimizer interface {
	StateDict() (optim.StateDict, error)
	PrepareStateDict(d optim.StateDict) (*optim.PreparedState, error)
}

// Optimizer is the section of an optimizer: its state as "state.NUMBER.NAME", settings and steps as JSON. While it is loaded there are
// the old state and the new one.
func Optimizer(o StateOptimizer) Section { return optimizer{o} }

type optimizer struct{ o StateOptimizer }

// optimizerJSON is what of an optimizer is no tensor.
type optimizerJSON struct {
	Optimizer string             `json:"optimizer,omitempty"`
	Groups    []optim.GroupState `json:"param_groups"`
	Steps     map[int]int        `json:"steps"` // of each parameter that has a state
}

func (s optimizer) Save() (Content, error) {
	if isnil.Value(s.o) {
		return Content{}, absent("optimizer")
	}
	d, err := s.o.StateDict()
	if err != nil {
		return Content{}, err
	}
	c := Content{Kind: strings.TrimSpace(optimizerKind + " " + d.Optimizer), Tensors: map[string]*tensor.Tensor{}}
	rest := optimizerJSON{Optimizer: d.Optimizer, Groups: d.Groups, Steps: map[int]int{}}
	for n, p := range d.State {
		rest.Steps[n] = p.Step
		for name, t := range p.Tensors {
			c.Tensors[fmt.Sprintf("state.%d.%s", n, name)] = t
		}
	}
	c.JSON, err = json.Marshal(rest)
	return c, err
}

func (s optimizer) Prepare(c Content) (Change, error) {
	if isnil.Value(s.o) {
		return Change{}, absent("optimizer")
	}
	if err := sameKind(c, optimizerKind); err != nil {
		return Change{}, s.named(err)
	}
	d, err := dictOf(c)
	if err != nil {
		return Change{}, err
	}
	p, err := s.o.PrepareStateDict(d)
	if err != nil {
		return Change{}, err
	}
	swapped := false
	return Change{
		Apply: func() error { p.Swap(); swapped = true; return nil },
		Undo: func() error {
			if swapped {
				p.Swap()
				swapped = false
			}
			return nil
		},
		Close: p.Release,
	}, nil
}

// named says in an error which optimizer it is, if that can be found out.
func (s optimizer) named(err error) error {
	var kind *KindError
	if own, failed := s.o.StateDict(); failed == nil && own.Optimizer != "" && errors.As(err, &kind) {
		return &KindError{kind.Found, own.Optimizer}
	}
	return err
}

// dictOf puts the state of an optimizer together.
func dictOf(c Content) (optim.StateDict, error) {
	var rest optimizerJSON
	err := unmarshal(c.JSON, &rest)
	if err != nil {
		return optim.StateDict{}, err
	}
	if err := exact(c.JSON, reflect.TypeOf(rest), ""); err != nil {
		return optim.StateDict{}, fmt.Errorf("the optimizer: %w", err)
	}
	d := optim.StateDict{Optimizer: rest.Optimizer, Groups: rest.Groups, State: map[int]optim.ParamState{}}
	for n, step := range rest.Steps {
		d.State[n] = optim.ParamState{Step: step, Tensors: map[string]*tensor.Tensor{}}
	}
	for _, full := range slices.Sorted(maps.Keys(c.Tensors)) {
		parts := strings.SplitN(full, ".", 3)
		if len(parts) != 3 || parts[0] != "state" {
			return d, &FormatError{Tensor: full, Detail: "an optimizer has no such tensor"}
		}
		n, err := strconv.Atoi(parts[1])
		if _, ok := d.State[n]; err != nil || !ok || strconv.Itoa(n) != parts[1] {
			return d, &FormatError{Tensor: full, Detail: "it is of a parameter without a state"}
		}
		d.State[n].Tensors[parts[2]] = c.Tensors[full]
	}
	return d, nil
}

// Stateful is an object whose state is a value that goes through JSON: *amp.GradScaler, *optim.Schedule, *optim.PlateauSchedule, and what a
// program has.
type Stateful[T any] interface {
	State() (T, error)
	// CheckState refuses what LoadState would, and changes nothing.
	CheckState(s T) error
	LoadState(s T) error
}

// State is the section of an object. Numbers that JSON does not have, NaN and infinities, are kept too. A state of another object
// (*KindError), and one whose fields are not those of T, as for Value, is refused. If the object has a method Name() string, errors call
// it so.
func State[T any](o Stateful[T]) Section { return state[T]{o} }

type state[T any] struct{ o Stateful[T] }

func (s state[T]) Save() (Content, error) {
	if isnil.Value(s.o) {
		return Content{}, absent("state")
	}
	v, err := s.o.State()
	if err != nil {
		return Content{}, err
	}
	text, err := encode(v)
	return Content{JSON: text, Kind: stateOf(s.o)}, err
}

func (s state[T]) Prepare(c Content) (Change, error) {
	if isnil.Value(s.o) {
		return Change{}, absent("state")
	}
	v, err := decodeOnly[T](c, stateOf(s.o))
	if err != nil {
		return Change{}, err
	}
	if err := s.o.CheckState(v); err != nil {
		return Change{}, err
	}
	old, err := s.o.State()
	if err != nil {
		return Change{}, err
	}
	return Change{
		Apply: func() error { return s.o.LoadState(v) },
		Undo:  func() error { return s.o.LoadState(old) },
	}, nil
}

// Generator is the section of a generator of random numbers.
func Generator(g *tensor.Generator) Section { return generator{g} }

type generator struct{ g *tensor.Generator }

func (s generator) Save() (Content, error) {
	if s.g == nil {
		return Content{}, absent("generator")
	}
	text, err := json.Marshal(s.g.State())
	return Content{JSON: text, Kind: generatorKind}, err
}

func (s generator) Prepare(c Content) (Change, error) {
	if s.g == nil {
		return Change{}, absent("generator")
	}
	v, err := decodeOnly[tensor.GeneratorState](c, generatorKind)
	if err != nil {
		return Change{}, err
	}
	old := s.g.State()
	return Change{
		Apply: func() error { s.g.SetState(v); return nil },
		Undo:  func() error { s.g.SetState(old); return nil },
	}, nil
}

// Value is the section of a variable: the step, the epoch, what is known of the best model. The value goes through JSON, but NaN and
// infinities, which JSON does not have, are kept too. So what comes back as it was are numbers, strings, bools, and structs, pointers,
// slices, arrays and maps of them, and types with methods MarshalJSON and UnmarshalJSON, or those for text. What an any holds comes
// back as JSON's types: float64, string, bool, []any, map[string]any.
//
// Write refuses (*ValueError) what JSON would lose: tensors, generators, parameters, modules and optimizers, which have sections of
// their own, channels and functions, structs with fields that are not exported or of which two have one name in JSON, strings and keys
// that are not UTF-8 (a []byte keeps all bytes), and numbers in an any that no float64 is. Fields with the tag `json:"-"`, and locks (sync.Mutex,
// sync.RWMutex), are not written, and Read leaves those of the variable as they are.
//
// Read refuses (*SectionError) what json.Unmarshal would make zeros of or leave out: structs of which the file does not have a field, or has
// one that the type has not, at any depth; null for what cannot be nil; arrays of another length. Names are compared with their case. A
// field with omitempty or omitzero may be missing in the file, and is zero then: so tag those that a program gets later, if it shall read
// older files. A type that must read more than that has its own UnmarshalJSON.
func Value[T any](v *T) Section { return value[T]{v} }

type value[T any] struct{ v *T }

func (s value[T]) Save() (Content, error) {
	if s.v == nil {
		return Content{}, absent("variable")
	}
	text, err := encode(*s.v)
	return Content{JSON: text, Kind: valueKind}, err
}

func (s value[T]) Prepare(c Content) (Change, error) {
	if s.v == nil {
		return Change{}, absent("variable")
	}
	v, err := decodeOnly[T](c, valueKind)
	if err != nil {
		return Change{}, err
	}
	old, merged := *s.v, *s.v
	merge(reflect.ValueOf(&merged).Elem(), reflect.ValueOf(&v).Elem())
	return Change{
		Apply: func() error { *s.v = merged; return nil },
		Undo:  func() error { *s.v = old; return nil },
	}, nil
}

// decodeOnly reads the JSON of a section of a kind that has no tensors.
func decodeOnly[T any](c Content, kind string) (v T, err error) {
	if err := sameKind(c, kind); err != nil {
		return v, err
	}
	for name := range c.Tensors {
		return v, &FormatError{Tensor: name, Detail: fmt.Sprintf("a %T has no tensors", v)}
	}
	v, err = decode[T](c.JSON)
	if err != nil && strings.HasPrefix(kind, stateKind+" ") && c.Kind != "" && c.Kind != kind { // of another object, which explains it better
		return v, &KindError{describe(c.Kind), describe(kind)}
	}
	return v, err
}
