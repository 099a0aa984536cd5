package autograd

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// VariableHook is a Hook that computes with variables of the graph: what it returns takes the place of grad, and is of the same shape and
// type; nil leaves it. Others may have grad's memory: a hook that changes it in place ends the pass with ErrInPlace. With CreateGraph it is recorded, so that gradients flow through it, and to other variables that it reads. In an
// ordinary pass it records nothing, and reads such variables of the graph as have been kept (Variable.Keep): leaves are. It is no
// part of a region of autocast. A nil VariableHook is none.
type VariableHook func(grad *Variable) *Variable

// RegisterVariableHook is RegisterHook for a hook that computes with variables. Both kinds are called in the order of registration.
func (v *Variable) RegisterVariableHook(f VariableHook) *HookHandle {
	if v == nil || v.g == nil || f == nil {
		return nil
	}
	v = v.now()
	if v.g.err == nil && !v.requires {
		v.g.Fail(gradError("RegisterVariableHook of a variable that does not require a gradient"))
	}
	return v.hooks.add(registered{variables: f})
}

// RegisterVariableHook is RegisterHook for a hook that computes with variables. In a checkpointed region they are of a graph of its own.
func (p *Parameter) RegisterVariableHook(f VariableHook) *HookHandle {
	if p == nil || f == nil {
		return nil
	}
	return p.hooks.add(registered{variables: f})
}

// hookedBy passes the gradient in v.buf through a hook that computes with variables, in a pass that is not recorded.
func (b *backward) hookedBy(r *registered, v *Variable) error {
	g := b.g
	defer func(c Caster, noGrad bool) { g.caster, g.noGrad = c, noGrad }(g.caster, g.noGrad)
	g.caster, g.noGrad = nil, true
	var t *tensor.Tensor
	var err error
	g.Scope(func() *Variable {
		grad, version := g.newVariable(v.buf.t.Retain()), v.buf.t.Version()
		next := r.variables(grad)
		if err = g.open("Backward"); err != nil {
			return nil
		}
		if err = v.untouched(v.buf.t, version); err != nil {
			return nil
		}
		if next, err = v.replacedBy(next, grad); err == nil && next != grad {
			t = next.tensor().Retain()
		}
		return nil
	})
	if err != nil || t == nil {
		return err
	}
	g.ledger.drop(v.buf)
	v.buf = g.ledger.add(t)
	return nil
}

// replacedBy checks what a hook has returned for the gradient of v.
func (v *Variable) replacedBy(next, grad *Variable) (*Variable, error) {
	const name = "hook"
	if err := v.g.err; err != nil {
		return nil, err
	}
	if next == nil {
		return grad, nil
	}
	if err := next.unusable("the result of a hook"); err != nil {
		return nil, err
	}
	switch next = next.now(); {
	case next.g != v.g:
		return nil, called(name, fmt.Errorf("its result: %w", ErrOtherGraph))
	case !next.Shape().Equal(v.Shape()):
		return nil, &tensor.ShapeError{Op: name, Shapes: []tensor.Shape{next.Shape().Clone(), v.Shape().Clone()},
			Detail: "a hook must return a gradient of the variable's shape"}
	case next.dtype != v.dtype:
		return nil, &tensor.DTypeError{Op: name, DTypes: []tensor.DType{next.dtype, v.dtype},
			Detail: "a hook must return a gradient of the variable's type"}
	}
	return next, nil
}
