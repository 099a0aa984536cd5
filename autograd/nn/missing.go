package nn

import (
	"reflect"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
)

// unusable stands for a module that cannot be used: To, Forward and all that need its parameters say why.
type unusable struct {
	err       error
	parameter *autograd.Parameter // which cannot be made
	cyclic    bool                // the module is a part of itself
}

func refused(err error) unusable {
	return unusable{err: err, parameter: autograd.RefusedParameter("missing", err)}
}

func (u unusable) Forward(x *autograd.Variable) *autograd.Variable {
	return x.Graph().Refuse("forward", u.err, x)
}

func (u unusable) Parameters() []*autograd.Parameter       { return []*autograd.Parameter{u.parameter} }
func (u unusable) To(dev device.Device, _ ...Option) error { return u.err }
func (u unusable) Release()                                {}
func (u unusable) String() string                          { return "nil" }

// absent reports whether there is no module: nil, or a nil pointer to one.
func absent(m Module) bool { return m == nil || isPointer(m) && reflect.ValueOf(m).IsNil() }

func isPointer(m Module) bool { return reflect.ValueOf(m).Kind() == reflect.Pointer }

// orRefused is m, or what says that there is none.
func orRefused(m Module, where string) Module {
	if absent(m) {
		return refused(argumentErr(where, "the module is nil"))
	}
	return m
}

// layerOrRefused is orRefused for layers.
func layerOrRefused(l Layer, where string) Layer {
	if absent(l) {
		return refused(argumentErr(where, "the module is nil"))
	}
	return l
}

// base finds the Base that a module embeds.
func (b *Base) base() *Base { return b }

// contains reports whether b is m's own, or that of one of its parts: then m cannot be a part of b.
func contains(m Module, b *Base) (found bool) {
	walk(m, "", func(_ string, m Module) { found = found || identity(m) == any(b) })
	return found
}
