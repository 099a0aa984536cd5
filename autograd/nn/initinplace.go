package nn

import (
	"cmp"
	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// Init starts a parameter, or a buffer, that has a value once more (nn.init.xavier_uniform_(layer.weight) of PyTorch, whose names the initializers of this package
// have): init's numbers are written into the value's own memory, so that type, device, gradient and the parameters that share it stay. They are drawn from gen, or if it is
// nil from a generator whose seed is new in each process, and are those that To draws by init from a generator in the same state. The new value is made beside the
// old one before anything is written: if that fails, p is as it was.
//
// A p without a value is a *autograd.ParameterError: before To, WeightInit and BiasInit say how it starts, and what is parametrized, as by WeightNorm, starts by way of its
// originals. An init that is nil is an *ArgumentError, and a result of another
// shape, type or device a *tensor.ShapeError, *tensor.DTypeError or *tensor.DeviceError. Init between a forward pass that saved p's value and its backward pass is a *autograd.ModifiedError there; where
// nothing has saved it, as a bias that is added, the pass goes on as if p had not changed.
// The padding row of an embedding is a row like the others, as in PyTorch.
//
//	for _, p := range model.Parameters() {
//		if len(p.Shape()) > 1 {
//			if err := nn.Init(p, nn.XavierUniform(1), gen); err != nil {
//				return err
//			}
//		}
//	}
func Init(p *autograd.Parameter, init autograd.Initializer, gen *tensor.Generator) error {
	const call = "Init"
	t := p.Tensor()
	switch {
	case p == nil:
		return errors.WithMessage(&autograd.ParameterError{}, "nn: Init")
	case p.Err() != nil:
		return p.Err()
	case t == nil:
		return errors.WithMessage(&autograd.ParameterError{Name: p.Name(), Shape: p.Shape(), Detail: whyUnset(p)}, "nn: Init")
	case init == nil:
		return argumentErr(call, "the initializer of %s is nil", excerpt.Quote(p.Name()))
	case gen == nil:
		gen = processGenerator()
	}
	value, err := init(t.Exec(), gen, t.DType(), p.Shape().Clone()...)
	if value == t {
		return err // written over by the initializer itself
	}
	if !tensor.Kept(training.Key{}, value) { // it may be another parameter's
		defer value.Release()
	}
	if err == nil {
		err = alike(call, value, t)
	}
	if err == nil {
		err = pair{average: t, from: value}.inOrder(func() error { return t.CopyFrom(value) })
	}
	if err != nil {
		return errors.WithMessagef(err, "nn: Init: parameter %s", excerpt.Quote(p.Name()))
	}
	return nil
}

// whyUnset says what to do about a parameter that has no value to be written over.
func whyUnset(p *autograd.Parameter) string {
	if from := p.ComputedFrom(); len(from) > 0 {
		return "it is parametrized, and computed from " + excerpt.List(from) + ": initialise these, or RemoveParametrization first"
	}
	return cmp.Or(unset(p), "call To first, or say by WeightInit and BiasInit how it starts")
}

// alike refuses values that an initializer must not return for t.
func alike(call string, value, t *tensor.Tensor) error {
	switch {
	case value.Released():
		return &tensor.ReleasedError{Op: call, Nil: value == nil}
	case !value.Shape().Equal(t.Shape()):
		return &tensor.ShapeError{Op: call, Shapes: []tensor.Shape{value.Shape().Clone(), t.Shape().Clone()}, Detail: "the initializer's result must have the parameter's shape"}
	case value.DType() != t.DType():
		return &tensor.DTypeError{Op: call, DTypes: []tensor.DType{value.DType(), t.DType()}, Detail: "the initializer's result must have the parameter's type"}
	case value.Device().ID() != t.Device().ID():
		return &tensor.DeviceError{Op: call, Devices: []device.ID{value.Device().ID(), t.Device().ID()}, Detail: "the initializer's result must be on the parameter's device"}
	}
	return nil
}
