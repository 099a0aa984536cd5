package autograd

import (
	"errors"

	"github.com/cistern-ml/cistern/tensor"
)

// Tensor returns the value, which stays the graph's: the handle is borrowed (tensor.Tensor.Lend), valid until the scope that made
// the value ends, until backward passes it, or until the graph is released. What is made of it, also with Retain, is the caller's
// to release, and outlives the graph.
func (v *Variable) Tensor() (*tensor.Tensor, error) {
	if err := v.check("Tensor"); err != nil {
		return nil, err
	}
	return v.g.lend(v.tensor()), nil
}

// Take takes the value out of the graph: the caller owns it and releases it, with the garbage collector as the safety net.
// Operations on the variable are errors afterwards. What nodes have saved of it is not disturbed, and shares its memory.
func (v *Variable) Take() (*tensor.Tensor, error) {
	if err := v.check("Take"); err != nil {
		return nil, err
	}
	t := v.tensor().On(v.g.outer)
	v.now().release(Taken)
	return t, nil
}

// Item waits for the value and returns its only element. An integer beyond 2^53 is rounded: Values[int64] has it exactly.
func (v *Variable) Item() (float64, error) {
	if err := v.check("Item"); err != nil {
		return 0, err
	}
	x, err := v.tensor().Item()
	return x, sited("Item", err)
}

// Float64s waits for the value and returns its elements in row-major order, converted.
func (v *Variable) Float64s() ([]float64, error) {
	if err := v.check("Float64s"); err != nil {
		return nil, err
	}
	xs, err := v.tensor().Float64s()
	return xs, sited("Float64s", err)
}

// Values waits for the value and returns its elements in row-major order. T must be the Go type of v's elements; int64 and int are exact, where Item and Float64s round
// beyond 2^53.
func Values[T tensor.Element](v *Variable) ([]T, error) {
	if err := v.check("Values"); err != nil {
		return nil, err
	}
	xs, err := tensor.ToSlice[T](v.tensor())
	var other *tensor.DTypeError
	if errors.As(err, &other) {
		err = &tensor.DTypeError{Op: "Values", DTypes: other.DTypes, Detail: "the slice is not of the variable's type; convert with To"}
	}
	return xs, sited("Values", err)
}

// Grad returns the gradient that Backward left: of leaves made with RequiresGrad, of parameters, and of variables with
// RetainGrad. It is nil before. It stays the graph's (borrowed, as
// Tensor) or the parameter's: Retain it to keep it longer.
func (v *Variable) Grad() *tensor.Tensor {
	if v = v.now(); v == nil {
		return nil
	}
	if v.param != nil {
		return v.param.Grad()
	}
	if v.grad == nil || v.g.released {
		return nil
	}
	return v.g.lend(v.grad.t)
}

// Detach returns a variable with the same value, in the same memory, through which no gradients flow.
func (v *Variable) Detach() *Variable {
	if v == nil || v.g == nil {
		return nil
	}
	if err := v.check("detach"); err != nil {
		return v.g.fail(err)
	}
	return v.g.newVariable(v.tensor().Retain())
}
