package autograd

import "github.com/cistern-ml/cistern/tensor"

// The operations in this file have results of type bool, through which no gradients flow. They save nothing.

// EqScalar, NeScalar, LtScalar, LeScalar, GtScalar and GeScalar compare the elements of v with a number.
func (v *Variable) EqScalar(s float64) *Variable { return eqScalar.apply(s, v) }

// NeScalar is v != s; see EqScalar.
func (v *Variable) NeScalar(s float64) *Variable { return neScalar.apply(s, v) }

// LtScalar is v < s; see EqScalar.
func (v *Variable) LtScalar(s float64) *Variable { return ltScalar.apply(s, v) }

// LeScalar is v <= s; see EqScalar.
func (v *Variable) LeScalar(s float64) *Variable { return leScalar.apply(s, v) }

// GtScalar is v > s; see EqScalar.
func (v *Variable) GtScalar(s float64) *Variable { return gtScalar.apply(s, v) }

// GeScalar is v >= s; see EqScalar.
func (v *Variable) GeScalar(s float64) *Variable { return geScalar.apply(s, v) }

var (
	eqScalar = scalarComparison("eq_scalar", (*tensor.Tensor).EqScalar)
	neScalar = scalarComparison("ne_scalar", (*tensor.Tensor).NeScalar)
	ltScalar = scalarComparison("lt_scalar", (*tensor.Tensor).LtScalar)
	leScalar = scalarComparison("le_scalar", (*tensor.Tensor).LeScalar)
	gtScalar = scalarComparison("gt_scalar", (*tensor.Tensor).GtScalar)
	geScalar = scalarComparison("ge_scalar", (*tensor.Tensor).GeScalar)
)

func scalarComparison(name string, f func(*tensor.Tensor, float64) (*tensor.Tensor, error)) *op {
	forward := func(n *node) (*tensor.Tensor, error) { return f(n.tensor(0), n.arg.(float64)) }
	return define(name, forward, notDifferentiable(steps))
}

// Any is true where an element along dims, or any if there are none, is not 0.
func (v *Variable) Any(dims []int, keep bool) *Variable {
	return anyOf.apply(reduction{dims, keep}, v)
}

// All is true where no element along dims, or none if there are no dims, is 0.
func (v *Variable) All(dims []int, keep bool) *Variable {
	return allOf.apply(reduction{dims, keep}, v)
}

var (
	anyOf = logicalReduction("any", (*tensor.Tensor).Any)
	allOf = logicalReduction("all", (*tensor.Tensor).All)
)

func logicalReduction(name string, f func(*tensor.Tensor, []int, bool) (*tensor.Tensor, error)) *op {
	return define(name, func(n *node) (*tensor.Tensor, error) {
		r := n.arg.(reduction)
		return f(n.tensor(0), r.dims, r.keep)
	}, notDifferentiable(steps))
}
