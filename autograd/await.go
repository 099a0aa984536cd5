package autograd

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// awaited is where a parameter's value will be.
type awaited struct {
	exec  tensor.Exec
	dtype tensor.DType
	path  string // in the model whose To has left the value to be loaded, empty outside of models
}

// Await notes where the value of a parameter that has none will be, and takes no memory: for a value that is loaded next, in whose place
// Materialize would make one in vain. SetTensor gives it, and Materialize still can. Until then every use is a *ParameterError that says
// what is missing. It does nothing if there is a value.
func (p *Parameter) Await(e tensor.Exec, dt tensor.DType) error {
	switch {
	case p.Tensor() != nil:
		return nil
	case p == nil || p.wrong != nil:
		return p.missingFor("Await")
	case e.Stream() == nil:
		return &tensor.DeviceError{Op: "Await", Detail: "zero Exec: make one with tensor.On"}
	case !dt.Valid() || p.requiresGrad && !dt.IsFloat():
		return &tensor.DTypeError{Op: "Await", DTypes: []tensor.DType{dt}, Detail: "no type of a parameter"}
	}
	p.awaits = &awaited{exec: e, dtype: dt}
	return nil
}

// Awaited is where Await has noted that the value will be, and with which type. ok is false for a parameter that has a value, and for one
// of which nothing was noted.
func (p *Parameter) Awaited() (e tensor.Exec, dt tensor.DType, ok bool) {
	if p == nil || p.awaits == nil || p.Tensor() != nil {
		return e, 0, false
	}
	return p.awaits.exec, p.awaits.dtype, true
}

// MarkUnset notes that the To of a model, in which p has this path, has left p's value to be loaded, for errors. It is for packages of this module, which alone
// can write the key.
func MarkUnset(_ training.Key, p *Parameter, path string) {
	if p != nil && p.awaits != nil {
		p.awaits.path = path
	}
}

// UnsetPath is what MarkUnset has noted of p, "" for nothing. It is for packages of this module.
func UnsetPath(_ training.Key, p *Parameter) string {
	if p == nil || p.awaits == nil {
		return ""
	}
	return p.awaits.path
}

// Missing is the error of a use of p, which has no tensor, under the given name, or else the one that is known, and with the given reason if
// none is known. It is for packages of this module.
func Missing(_ training.Key, p *Parameter, name, otherwise string) error {
	err := p.missing()
	e, ok := err.(*ParameterError) //nolint:errorlint // missing wraps none
	if !ok || p == nil {
		return err
	}
	if name != "" {
		e.Name = name
	}
	if e.Detail == "" {
		e.Detail = otherwise
	}
	return e
}

// SetTensor makes t, which it takes over, the value of a parameter that has none. t has the parameter's shape, and a floating-point type
// if it requires a gradient; one that Await was told about is where, and what, that has noted. With an error t stays the caller's. A t that is not the
// caller's to give stays with its owner, as in SetGrad.
func (p *Parameter) SetTensor(t *tensor.Tensor) error {
	const name = "SetTensor"
	switch {
	case p == nil || p.wrong != nil || p.away != "":
		return p.missingFor(name)
	case t.Released():
		return &tensor.ReleasedError{Op: name, Nil: t == nil}
	case p.Tensor() != nil:
		return &tensor.ValueError{Op: name, Detail: "parameter " + excerpt.Quote(p.name) + " has a value already"}
	case !t.Shape().Equal(p.shape):
		return &tensor.ShapeError{Op: name, Shapes: []tensor.Shape{t.Shape().Clone(), p.shape.Clone()}, Detail: "it must be the parameter's shape"}
	case p.requiresGrad && !t.DType().IsFloat():
		return notFloat(t.DType())
	}
	if a := p.awaits; a != nil {
		if t.DType() != a.dtype {
			return &tensor.DTypeError{Op: name, DTypes: []tensor.DType{t.DType(), a.dtype}, Detail: "it must be the type that was noted"}
		}
		if have, want := t.Device().ID(), a.exec.Device().ID(); have != want {
			return &tensor.DeviceError{Op: name, Devices: []device.ID{have, want}, Detail: "it must be the device that was noted"}
		}
	}
	p.value, p.awaits = take(t), nil
	return nil
}
