package autograd

import (
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// Initializer makes the first value of a parameter: a new tensor on e's device, of the given shape, and of type dt if it requires a
// gradient.
type Initializer func(e tensor.Exec, gen *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error)

// Parameter is a leaf that outlives graphs: a weight that is trained. It belongs to the user, like its gradient. It is for
// one goroutine at a time; while nobody changes it several may use its value, in graphs of their own.
type Parameter struct {
	name         string
	shape        tensor.Shape
	init         Initializer // nil for parameters made of a tensor
	value        *tensor.Tensor
	grad         *tensor.Tensor
	requiresGrad bool
	awaits       *awaited // where the value will be, of one that has none
	wrong        error    // why it cannot be made, of one that stands for a mistake
	hooks        hooks    // of gradients, before they are added up
	after        hooks    // called when they are
	computed     []string // the parameters of which a module computes it
	diverted     Sink     // who gets the gradients instead; see Divert
	sharding     *Sharding
	away         string // where the value is, while the parameter has none; see Put
}

// NewParameter makes a parameter of t, which it takes over: Parameter.Release releases it. It requires a gradient if it is of
// a floating-point type. With a nil or released t it is a parameter without a tensor, whose use is a *ParameterError. A t that
// is not the caller's to give stays with its owner, as in SetGrad.
func NewParameter(name string, t *tensor.Tensor) *Parameter {
	return &Parameter{name: name, shape: t.Shape().Clone(), value: take(t), requiresGrad: t.DType().IsFloat()}
}

// DeclareParameter makes a parameter without a tensor. Materialize gives it one.
func DeclareParameter(name string, init Initializer, shape ...int) *Parameter {
	return &Parameter{name: name, shape: tensor.Shape(shape).Clone(), init: init, requiresGrad: true}
}

// RefusedParameter stands for a parameter that cannot be made because of a mistake, which is the error of Materialize, of Err, and of
// all uses: so lists of parameters need no error of their own.
func RefusedParameter(name string, mistake error) *Parameter {
	return &Parameter{name: name, wrong: mistake, requiresGrad: true}
}

// Err is the mistake of a RefusedParameter, nil for all others.
func (p *Parameter) Err() error {
	if p == nil {
		return nil
	}
	return p.wrong
}

// missing is the error of a use of a parameter that has no tensor.
func (p *Parameter) missing() error {
	switch {
	case p == nil:
		return &ParameterError{}
	case p.wrong != nil:
		return p.wrong
	}
	return &ParameterError{Name: p.path(), Shape: p.shape, Detail: p.unset()}
}

// missingFor is missing for the method op. A mistake in making the parameter is known where that was made, and is not op's.
func (p *Parameter) missingFor(op string) error {
	if p.Err() != nil {
		return p.wrong
	}
	return called(op, p.missing())
}

// unset says why there is no value, if that is known.
func (p *Parameter) unset() string {
	switch {
	case p == nil:
		return ""
	case len(p.computed) > 0:
		return "it is parametrized: its module computes it from " + excerpt.List(p.computed) + " in each forward pass"
	case p.away != "":
		return p.whereAway()
	case p.awaits == nil:
		return ""
	case p.awaits.path != "":
		return "To was called with Unset, and nothing was loaded into it since"
	}
	return "its value was to be loaded, and was not"
}

// path is p's in the model that has left its value to be loaded, or its name.
func (p *Parameter) path() string {
	if p.awaits != nil && p.awaits.path != "" {
		return p.awaits.path
	}
	return p.name
}

// ComputedFrom are the names of the parameters, within the module, of which the module computes p in each forward pass, as after nn.WeightNorm: p has no tensor
// then. It is nil of all other parameters.
func (p *Parameter) ComputedFrom() []string {
	if p == nil {
		return nil
	}
	return slices.Clone(p.computed)
}

// MarkComputed notes of which parameters p is computed, or by nil that it is not. It is for packages of this module, which alone can write the key.
func MarkComputed(_ training.Key, p *Parameter, from []string) {
	if p != nil {
		p.computed = slices.Clone(from)
	}
}

// Name is the parameter's name within its module, as in "weight".
func (p *Parameter) Name() string {
	if p == nil {
		return ""
	}
	return p.name
}

// Shape is the number of elements along each dimension, also before the parameter has a tensor.
func (p *Parameter) Shape() tensor.Shape {
	if p == nil {
		return nil
	}
	return p.shape
}

// Len is the number of elements.
func (p *Parameter) Len() int {
	if p == nil {
		return 0
	}
	return p.shape.Len()
}

// Tensor is the value, nil before Materialize and after Release. It stays the parameter's. Changing it in place between a
// forward pass that saved it and its backward pass is a *ModifiedError there.
func (p *Parameter) Tensor() *tensor.Tensor {
	if p == nil || p.value.Released() {
		return nil
	}
	return shown(p.value)
}

// Grad is the sum of the gradients of the backward passes since the last ZeroGrad, nil if there was none. It stays the
// parameter's.
func (p *Parameter) Grad() *tensor.Tensor {
	if p == nil {
		return nil
	}
	return shown(p.grad)
}

// SetGrad replaces the gradient by t, which it takes over: ZeroGrad and Release release it (p.grad = t in PyTorch); nil is ZeroGrad. A t that is not the
// caller's to give stays with its owner, and the parameter has another handle on its memory: the value or gradient of a parameter, this one too, and what a
// graph has lent (Variable.Tensor, Variable.Grad, the argument of a hook). So no release reaches what somebody else has.
//
// As in PyTorch the memory is t's, and not copied. What shares it changes with the gradient: a value that is its own gradient, and two gradients of one Grad,
// which ClipGradNorm would scale twice. And a part of a larger tensor keeps all of it. Give a Clone where that is not meant. Only a t of which
// several elements share an address, as after Expand, is copied, because nothing could be added to it.
//
// A t of another shape, type or device than the value's is a *tensor.ShapeError, *tensor.DTypeError or *tensor.DeviceError, a released one a *tensor.ReleasedError,
// and a parameter without a tensor a *ParameterError. Where several ranks share the gradient out (autograd/parallel), that of the model's own parameter, which no step would take, is a *GradError, as is that of a
// part while gradients wait to be summed, of what a backward pass under way has yet to give its sum, and of any in DataParallel.Whole. Then the gradient is as it was, and t stays the caller's.
func (p *Parameter) SetGrad(t *tensor.Tensor) error {
	if p != nil && t == nil {
		p.ZeroGrad()
		return nil
	}
	if err := p.shares(); err != nil {
		return err
	}
	if err := p.takes(t); err != nil {
		return err
	}
	if t == p.grad {
		return nil
	}
	own, err := ownGradient(t)
	if err != nil {
		return called("SetGrad of parameter "+excerpt.Quote(p.name), err)
	}
	p.dropGrad()
	p.grad = own
	return nil
}

// ownGradient is t, or what stands for it, as a gradient that its parameter releases.
func ownGradient(t *tensor.Tensor) (*tensor.Tensor, error) {
	if !repeats(t) {
		return take(t), nil
	}
	c, err := copyIn(t, tensor.ContiguousFormat)
	if err == nil {
		given(t)
	}
	return c, err
}

// shares refuses a gradient of a parameter whose gradients are elsewhere.
func (p *Parameter) shares() error {
	if p == nil || p.sharding == nil {
		return nil
	}
	if s := p.sharding; s.Instead != "" {
		return gradError("SetGrad: %s: give it to what DataParallel.ParametersOf has for it", s.Instead)
	}
	if p.sharding.Refuses == nil {
		return nil
	}
	if why := p.sharding.Refuses(); why != "" {
		return gradError("SetGrad: %s", why)
	}
	return nil
}

// takes refuses what cannot be the gradient.
func (p *Parameter) takes(t *tensor.Tensor) error {
	value := p.Tensor()
	if value == nil {
		return p.missingFor("SetGrad")
	}
	name := "SetGrad of parameter " + excerpt.Quote(p.name)
	switch {
	case t.Released():
		return &tensor.ReleasedError{Op: name, Nil: t == nil}
	case !t.Shape().Equal(value.Shape()):
		return &tensor.ShapeError{Op: name, Shapes: []tensor.Shape{t.Shape().Clone(), value.Shape().Clone()}, Detail: "a gradient has the parameter's shape"}
	case t.DType() != value.DType():
		return &tensor.DTypeError{Op: name, DTypes: []tensor.DType{t.DType(), value.DType()}, Detail: "a gradient has the parameter's type"}
	case t.Device().ID() != value.Device().ID():
		return &tensor.DeviceError{Op: name, Devices: []device.ID{t.Device().ID(), value.Device().ID()}, Detail: "a gradient is on the parameter's device"}
	}
	return nil
}

// ZeroGrad releases the gradient. As in PyTorch, "no gradient" is not the same as a gradient of zeros: optimizers skip
// parameters without one. Where several ranks share the gradient out (autograd/parallel), the part of it that this rank has is released too, and what waits to be summed.
func (p *Parameter) ZeroGrad() {
	if p == nil {
		return
	}
	p.dropGrad()
	if p.sharding != nil && p.sharding.Cleared != nil {
		p.sharding.Cleared()
	}
}

func (p *Parameter) dropGrad() {
	p.grad.Release()
	p.grad = nil
}

// RequiresGrad reports whether graphs compute gradients for the parameter.
func (p *Parameter) RequiresGrad() bool { return p != nil && p.requiresGrad }

// SetRequiresGrad freezes the parameter (false) or unfreezes it, for operations that use it from now on, in graphs that used it before too.
func (p *Parameter) SetRequiresGrad(on bool) {
	if p != nil {
		p.requiresGrad = on
	}
}

// Release releases value and gradient, and whatever else ZeroGrad releases. A declared parameter can be materialized again.
func (p *Parameter) Release() {
	if p == nil {
		return
	}
	p.ZeroGrad()
	p.value.Release()
	p.value, p.awaits, p.away = nil, nil, ""
}

// Materialize gives the parameter its first value, by its initializer. It does nothing if it has one.
func (p *Parameter) Materialize(e tensor.Exec, gen *tensor.Generator, dt tensor.DType) error {
	if p.Tensor() != nil {
		return nil
	}
	switch {
	case p == nil || p.wrong != nil || p.away != "":
		return p.missingFor("Materialize")
	case p.init == nil:
		return &ParameterError{Name: p.name, Shape: p.shape, Detail: "it has no initializer that could make one"}
	}
	t, err := p.init(e, gen, dt, p.shape.Clone()...)
	if err == nil {
		err = p.fits(t, e, dt)
	}
	if err != nil {
		given(t)
		return err
	}
	t = take(t)
	p.value, p.awaits = t, nil
	if t.Exec() != e { // an initializer of the program's may have an Exec of its own on the same device
		p.value = t.On(e)
		err = order(e.Device(), t.Exec().Stream(), e.Stream())
		t.Release()
	}
	return err
}

// fits refuses what an initializer must not return.
func (p *Parameter) fits(t *tensor.Tensor, e tensor.Exec, dt tensor.DType) error {
	name := "initializer of parameter " + p.name
	switch {
	case t.Released():
		return &tensor.ReleasedError{Op: name, Nil: t == nil}
	case !t.Shape().Equal(p.shape):
		return &tensor.ShapeError{Op: name, Shapes: []tensor.Shape{t.Shape().Clone(), p.shape.Clone()}, Detail: "it must be the parameter's shape"}
	case p.requiresGrad && t.DType() != dt: // a counter has its own
		return &tensor.DTypeError{Op: name, DTypes: []tensor.DType{t.DType(), dt}, Detail: "it must be the type that was asked for"}
	case t.Device().ID() != e.Device().ID():
		return &tensor.DeviceError{Op: name, Devices: []device.ID{t.Device().ID(), e.Device().ID()}, Detail: "it must be the device that was asked for"}
	}
	return nil
}

// To moves value and gradient to e's device, stream and allocator, and converts them to dt, or leaves their type if dt is
// zero. It does nothing where nothing changes. If it fails, the parameter is as it was.
func (p *Parameter) To(e tensor.Exec, dt tensor.DType) error {
	m, err := p.Move(e, dt)
	if err != nil {
		return err
	}
	m.Commit()
	return nil
}
