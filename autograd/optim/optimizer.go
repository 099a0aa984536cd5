package optim

import (
	stderrors "errors"
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/internal/region"
	"github.com/cistern-ml/cistern/internal/replay"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// ErrInvalid is what every *ConfigError matches with errors.Is.
var ErrInvalid = stderrors.New("invalid optimizer settings")

// ConfigError says that a setting of an optimizer is not allowed. Constructors keep it; Err and Step return it.
type ConfigError struct {
	Optimizer string
	Detail    string // the setting, its value, and what is allowed
}

func (e *ConfigError) Error() string { return "optim: " + e.Optimizer + ": " + e.Detail }

// Unwrap returns ErrInvalid.
func (e *ConfigError) Unwrap() error { return ErrInvalid }

// Optimizer changes parameters by their gradients. An Optimizer is for one goroutine at a time.
type Optimizer interface {
	// Step updates every parameter that has a gradient.
	Step() error
	// ZeroGrad releases the gradients.
	ZeroGrad()
	// Parameters lists what is updated.
	Parameters() []*autograd.Parameter
	// SetLR changes the learning rate from the next step on: of the given groups, or of all if none is given.
	SetLR(lr float64, groups ...int)
	// StateBytes is the device memory of the optimizer's state.
	StateBytes() uint64
	// Release releases the state.
	Release()
}

var _ Optimizer = (*Grouped)(nil)

// Grouped is an Optimizer of parameters in groups, each with its settings. The constructors of this package make one.
type Grouped struct {
	name     string
	method   method
	base     Settings // what groups start from
	groups   []*group
	states   map[*autograd.Parameter]*state
	counters []*counters
	version  int // of the tensors that the state has: a captured step has their addresses
	err      error
}

// method is what optimizers differ in.
type method interface {
	// check refuses settings.
	check(s *Settings) error
	// fields lists the settings that the optimizer has, under PyTorch's names.
	fields(s *Settings) []field
	// buffers lists the state tensors that a parameter has under these settings, under PyTorch's names, in the order of the
	// kernel's groups.
	buffers(s *Settings) []buffer
	// counts reports whether the number of steps taken belongs to the state.
	counts() bool
	// numbered reports whether a step depends on how many were taken, or the state says it.
	numbered(s *Settings) bool
	// And it is launched or composed.
}

// choosy is a method that does not take every parameter.
type choosy interface {
	admit(p *autograd.Parameter) error
}

// buffer is a state tensor: its name, and the value that all its elements start with.
type buffer struct {
	name   string
	start  float64
	scalar bool // it is one number for the whole parameter, in float32 at least
}

// dtype is the type of the buffer of a parameter of type dt.
func (b buffer) dtype(dt tensor.DType) tensor.DType {
	if b.scalar && dt != tensor.Float64 {
		return tensor.Float32
	}
	return dt
}

// shape is the shape of the buffer of a parameter.
func (b buffer) shape(of tensor.Shape) tensor.Shape {
	if b.scalar {
		return nil
	}
	return of
}

// steps are those of the optimizers, for many parameters at once, and what is done to gradients before them.
var steps = tensor.Steps(training.Key{})

// guard is what a step takes from the device.
type guard = training.Guard[*tensor.Tensor]

type group struct {
	params   []*autograd.Parameter
	settings Settings
	initial  *float64 // the learning rate that schedules start from, once there is one
}

// batch is what one launch updates: lists of the same length.
type batch struct {
	batchKey
	params  []*tensor.Tensor
	grads   []*tensor.Tensor
	buffers [3][]*tensor.Tensor // in the order of method.buffers
	states  []*state
	guard   guard
}

// batchKey is what the parameters of a batch have in common.
type batchKey struct {
	steps   int         // the number of this step for all of them, 1 for the first and where it does not matter
	counted bool        // it is on the device; steps is 0
	exec    tensor.Exec // of steps that are decided on the device
}

func newOptimizer(name string, m method, base Settings, params []*autograd.Parameter, opts []Option) *Grouped {
	o := &Grouped{name: name, method: m, base: base, states: map[*autograd.Parameter]*state{}}
	o.set(&o.base, opts)
	return o.AddGroup(params)
}

// set applies options, and refuses those of other optimizers.
func (o *Grouped) set(s *Settings, opts []Option) {
	for _, opt := range opts {
		if opt == nil {
			continue
		}
		if name := foreign(o.method.fields, opt); name != "" {
			o.fail(&ConfigError{o.name, "it has no option " + name})
		}
		opt(s)
	}
}

// AddGroup adds parameters that are updated with settings of their own: those of the constructor, changed by opts. It returns
// the optimizer. A parameter can be in one group only. A nil one, and a mistake of a module that autograd.Parameter.Err tells, is an error
// of Err and Step.
func (o *Grouped) AddGroup(params []*autograd.Parameter, opts ...Option) *Grouped {
	if o.unmade() {
		return o
	}
	s := o.base
	o.set(&s, opts)
	if err := s.check(o.name); err != nil {
		o.fail(err)
	}
	if err := o.method.check(&s); err != nil {
		o.fail(&ConfigError{o.name, err.Error()})
	}
	if _, ok := o.method.(composed); ok && s.Capturable {
		o.fail(&ConfigError{o.name, "Capturable: its steps are counted on the host, so they cannot be captured"})
	}
	for i, p := range params {
		o.fail(o.refusal(i, p))
		o.states[p] = nil
	}
	o.groups = append(o.groups, &group{params: append([]*autograd.Parameter(nil), params...), settings: s})
	return o
}

// refusal is why parameter i of a new group cannot be one, nil if it can.
func (o *Grouped) refusal(i int, p *autograd.Parameter) error {
	if p == nil {
		return &ConfigError{o.name, fmt.Sprintf("parameter %d of group %d is nil", i, len(o.groups))}
	}
	if err := p.Err(); err != nil {
		return fmt.Errorf("optim: %s: %w", o.name, err)
	}
	if _, twice := o.states[p]; twice {
		return &ConfigError{o.name, fmt.Sprintf("parameter %q is given twice", excerpt.Of(p.Name()))}
	}
	if m, ok := o.method.(choosy); ok {
		if err := m.admit(p); err != nil {
			return &ConfigError{o.name, fmt.Sprintf("parameter %q has %v", excerpt.Of(p.Name()), err)}
		}
	}
	return nil
}

// ready is what a step begins with. That there are no parameters is an error only now, because groups can be added until here.
func (o *Grouped) ready() error {
	if err := o.Err(); err != nil || len(o.states) > 0 || autograd.MayHaveNoPart(training.Key{}) {
		return err
	}
	return &ConfigError{o.name, "the optimizer has an empty list of parameters"}
}

func (o *Grouped) fail(err error) {
	if o != nil && o.err == nil {
		o.err = err
	}
}

// Err returns what is wrong with the settings, if anything.
func (o *Grouped) Err() error {
	if o.unmade() {
		return unmade("Grouped")
	}
	return o.err
}

// unmade reports whether the optimizer is nil or a zero value.
func (o *Grouped) unmade() bool { return o == nil || o.method == nil }

// unmade is the error of what is nil or a zero value.
func unmade(what string) error {
	return &ConfigError{what, "it is nil, or was not made by a constructor of this package"}
}

// list is the groups, none of a nil optimizer.
func (o *Grouped) list() []*group {
	if o == nil {
		return nil
	}
	return o.groups
}

// Parameters lists the parameters of all groups.
func (o *Grouped) Parameters() []*autograd.Parameter {
	var all []*autograd.Parameter
	for _, g := range o.list() {
		all = append(all, g.params...)
	}
	return all
}

// Step updates every parameter that has a gradient. The work is enqueued on the parameters' streams. If it fails because memory for
// state is missing, of whatever group, nothing is updated, and it may be called again; a kernel's launch that fails ends it in the middle.
// An optimizer without parameters, in whatever group,
// is a *ConfigError, and a parameter without a tensor, such as one that a model has replaced and the program released, an
// *autograd.ParameterError: then nothing is updated. While a model is sharded (parallel.Data with ZeRO 1 to 3), of whose parameters a rank may have no part, the step of an optimizer without parameters does nothing. A parameter of a model whose gradients go to
// shards of it is a *ConfigError too.
func (o *Grouped) Step() error { return o.stepAll(nil) }

func (o *Grouped) stepAll(by *decision) error {
	if region.On() {
		defer region.Begin("pass", "optimizer")()
	}
	if !oplabel.Wanted() || o == nil {
		return o.stepNow(by)
	}
	defer oplabel.Enter(oplabel.Enter(oplabel.Of(oplabel.Label{Op: o.name, Step: true})))
	defer o.MarkState(training.Key{})
	return o.stepNow(by)
}

func (o *Grouped) stepNow(by *decision) error {
	if err := o.ready(); err != nil {
		return err
	}
	if err := o.complete(); err != nil {
		return err
	}
	if _, ok := o.method.(composed); ok {
		if skip, err := by.wait(); err != nil {
			return fmt.Errorf("optim: %s: %w", o.name, err)
		} else if skip {
			return nil
		}
	}
	planned := make([][]*batch, len(o.groups))
	for i, g := range o.groups { // the state of all groups is there before the first parameter changes
		var err error
		if planned[i], err = o.plan(g, g.params, by); err != nil {
			return err
		}
	}
	return o.take(o.groups, planned, by)
}

// complete refuses a parameter without a tensor, or whose gradients go elsewhere, or are not complete: a step of the others would train a part of the model and say nothing.
func (o *Grouped) complete() error {
	for _, g := range o.groups {
		for _, p := range g.params {
			if err := trains(o.name, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// trains refuses a parameter that the optimizer of a name cannot train.
func trains(name string, p *autograd.Parameter) error {
	if instead := autograd.Instead(training.Key{}, p); instead != "" {
		return &ConfigError{name, instead + ": make the optimizer of DataParallel.Parameters or ParametersOf"}
	}
	if why := autograd.Waiting(training.Key{}, p); why != "" {
		return &ConfigError{name, why}
	}
	if p.Tensor() == nil {
		return fmt.Errorf("optim: %s: %w", name, autograd.Missing(training.Key{}, p, "", gone))
	}
	return nil
}

// gone is why a parameter of an optimizer has no tensor, if nothing is known of it.
const gone = "it was released, maybe because a model has replaced it, or To was not called on the model; make optimizers after that"

// update takes a step for those of the given parameters of a group that have gradients.
func (o *Grouped) update(g *group, params []*autograd.Parameter, by *decision) error {
	if oplabel.Wanted() {
		defer oplabel.Enter(oplabel.Enter(oplabel.Of(oplabel.Label{Op: o.name, Step: true})))
	}
	batches, err := o.plan(g, params, by)
	if err != nil {
		return err
	}
	return o.take([]*group{g}, [][]*batch{batches}, by)
}

// plan takes the memory of what a step keeps: it changes no parameter.
func (o *Grouped) plan(g *group, params []*autograd.Parameter, by *decision) ([]*batch, error) {
	batches, err := o.batches(g, params, by)
	if err != nil {
		return nil, err
	}
	for _, b := range batches {
		err := o.prepare(b, by)
		if err == nil {
			err = o.record(g, b)
		}
		if err != nil {
			return nil, fmt.Errorf("optim: %s: %w", o.name, err)
		}
	}
	return batches, nil
}

// take takes the step of batches of groups.
func (o *Grouped) take(groups []*group, planned [][]*batch, by *decision) error {
	if m, ok := o.method.(composed); ok {
		return o.compose(m, groups, planned, by)
	}
	for i, g := range groups {
		if err := o.launch(o.method.(launched), g, planned[i]); err != nil {
			return err
		}
	}
	return nil
}

// launch takes the step of batches of a group by kernels.
func (o *Grouped) launch(m launched, g *group, batches []*batch) error {
	for _, b := range batches {
		if err := m.step(&g.settings, b); err != nil {
			return fmt.Errorf("optim: %s: %w", o.name, err)
		}
		for _, s := range b.states {
			s.steps++ // of those with a counter it is not looked at
		}
	}
	return nil
}

// batches sorts parameters with gradients by the steps that they have taken: usually they are all in one.
func (o *Grouped) batches(g *group, params []*autograd.Parameter, by *decision) ([]*batch, error) {
	var all []*batch
	kept := o.method.buffers(&g.settings)
	for _, p := range params {
		if p.Grad() == nil || p.Tensor() == nil {
			continue
		}
		if err := steppable(p); err != nil {
			return nil, fmt.Errorf("optim: %s: parameter %q: %w", o.name, excerpt.Of(p.Name()), err)
		}
		s, err := o.stateOf(p, kept)
		if err != nil {
			return nil, fmt.Errorf("optim: %s: state of parameter %q: %w", o.name, excerpt.Of(p.Name()), err)
		}
		if err := fits(s, kept, p.Tensor()); err != nil {
			return nil, fmt.Errorf("optim: %s: parameter %q: %w", o.name, excerpt.Of(p.Name()), err)
		}
		if err := o.arrange(s, p); err != nil {
			return nil, fmt.Errorf("optim: %s: state of parameter %q: %w", o.name, excerpt.Of(p.Name()), err)
		}
		b := find(&all, o.keyOf(p, s, &g.settings, by))
		b.params = append(b.params, p.Tensor())
		b.grads = append(b.grads, p.Grad())
		for i, t := range s.buffers {
			b.buffers[i] = append(b.buffers[i], t)
		}
		b.states = append(b.states, s)
	}
	return all, nil
}

// steppable refuses what kernels would, before there is a state, and for a parameter that errors can name.
func steppable(p *autograd.Parameter) error {
	t, grad := p.Tensor(), p.Grad()
	switch {
	case grad.Released():
		return fmt.Errorf("its gradient: %w", tensor.ErrReleased)
	case !t.InMemoryFormat():
		return &tensor.ShapeError{Op: "Step", Shapes: []tensor.Shape{t.Shape().Clone()},
			Detail: fmt.Sprintf("the value has strides %v, and optimizers need it in a memory format without gaps: make the parameter of what Contiguous gives", t.Strides())}
	case !grad.Shape().Equal(t.Shape()):
		return &tensor.ShapeError{Op: "Step", Shapes: []tensor.Shape{t.Shape().Clone(), grad.Shape().Clone()}, Detail: "the gradient has another shape"}
	}
	return nil
}

// fits refuses a state that was made for another place or type of the parameter: kernels would say so of tensors without names.
func fits(s *state, kept []buffer, p *tensor.Tensor) error {
	const remedy = "make the optimizer after To, or load its StateDict into a new one"
	for i, t := range s.buffers {
		if t.Device().ID() != p.Device().ID() {
			return &tensor.DeviceError{Op: "Step", Devices: []device.ID{p.Device().ID(), t.Device().ID()}, Detail: remedy}
		}
		if t.DType() != kept[i].dtype(p.DType()) {
			return &tensor.DTypeError{Op: "Step", DTypes: []tensor.DType{p.DType(), t.DType()}, Detail: remedy}
		}
	}
	return nil
}

// keyOf is the batch that a parameter belongs to.
func (o *Grouped) keyOf(p *autograd.Parameter, s *state, with *Settings, by *decision) batchKey {
	k := batchKey{steps: 1}
	if o.method.numbered(with) {
		k.steps = s.steps + 1
	}
	if _, ok := o.method.(composed); ok {
		return k // it has waited for what the device decides
	}
	captures := replay.Prepared(p.Tensor().Exec().Stream()) != nil
	k.counted = o.method.numbered(with) && (s.count != nil || by != nil || with.Capturable || captures)
	if k.counted {
		k.steps = 0
	}
	if k.counted || by != nil || captures {
		k.exec = p.Tensor().Exec()
	}
	return k
}

// find returns the batch with a key, and adds it if there is none.
func find(all *[]*batch, key batchKey) *batch {
	for _, b := range *all {
		if b.batchKey == key {
			return b
		}
	}
	b := &batch{batchKey: key}
	*all = append(*all, b)
	return b
}

// ZeroGrad releases the gradients of all parameters.
func (o *Grouped) ZeroGrad() {
	for _, g := range o.list() {
		for _, p := range g.params {
			p.ZeroGrad()
		}
	}
}
