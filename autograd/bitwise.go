package autograd

import "github.com/cistern-ml/cistern/tensor"

// Operations of the bits of integers and bools, through which no gradients flow. They save nothing.

const integral = "the result is of an integer type or bool"

// BitwiseNot is the bits that v has not; see tensor.Tensor.BitwiseNot.
func (v *Variable) BitwiseNot() *Variable { return bitwiseNot.apply(nil, v) }

var bitwiseNot = define("bitwise_not", func(n *node) (*tensor.Tensor, error) { return n.tensor(0).BitwiseNot() }, notDifferentiable(integral))

// BitwiseAnd is the bits that both v and u have, with broadcasting; see tensor.Tensor.BitwiseAnd.
func (v *Variable) BitwiseAnd(u *Variable) *Variable { return bitwiseAnd.apply(nil, v, u) }

// BitwiseAndScalar is BitwiseAnd with a number.
func (v *Variable) BitwiseAndScalar(s int64) *Variable { return bitwiseAndScalar.apply(s, v) }

// BitwiseOr is the bits that v or u has, with broadcasting; see tensor.Tensor.BitwiseOr.
func (v *Variable) BitwiseOr(u *Variable) *Variable { return bitwiseOr.apply(nil, v, u) }

// BitwiseOrScalar is BitwiseOr with a number.
func (v *Variable) BitwiseOrScalar(s int64) *Variable { return bitwiseOrScalar.apply(s, v) }

// BitwiseXor is the bits that exactly one of v and u has, with broadcasting; see tensor.Tensor.BitwiseXor.
func (v *Variable) BitwiseXor(u *Variable) *Variable { return bitwiseXor.apply(nil, v, u) }

// BitwiseXorScalar is BitwiseXor with a number.
func (v *Variable) BitwiseXorScalar(s int64) *Variable { return bitwiseXorScalar.apply(s, v) }

// BitwiseLeftShift is the bits of v, u places to the left, with broadcasting; see tensor.Tensor.BitwiseLeftShift.
func (v *Variable) BitwiseLeftShift(u *Variable) *Variable { return bitwiseLeftShift.apply(nil, v, u) }

// BitwiseLeftShiftScalar is BitwiseLeftShift with a number.
func (v *Variable) BitwiseLeftShiftScalar(s int64) *Variable {
	return bitwiseLeftShiftScalar.apply(s, v)
}

// BitwiseRightShift is the bits of v, u places to the right, with broadcasting; see tensor.Tensor.BitwiseRightShift.
func (v *Variable) BitwiseRightShift(u *Variable) *Variable {
	return bitwiseRightShift.apply(nil, v, u)
}

// BitwiseRightShiftScalar is BitwiseRightShift with a number.
func (v *Variable) BitwiseRightShiftScalar(s int64) *Variable {
	return bitwiseRightShiftScalar.apply(s, v)
}

var (
	bitwiseAnd        = ofBits("bitwise_and", (*tensor.Tensor).BitwiseAnd)
	bitwiseOr         = ofBits("bitwise_or", (*tensor.Tensor).BitwiseOr)
	bitwiseXor        = ofBits("bitwise_xor", (*tensor.Tensor).BitwiseXor)
	bitwiseLeftShift  = ofBits("bitwise_left_shift", (*tensor.Tensor).BitwiseLeftShift)
	bitwiseRightShift = ofBits("bitwise_right_shift", (*tensor.Tensor).BitwiseRightShift)

	bitwiseAndScalar        = ofBitsAndNumber("bitwise_and_scalar", (*tensor.Tensor).BitwiseAndScalar)
	bitwiseOrScalar         = ofBitsAndNumber("bitwise_or_scalar", (*tensor.Tensor).BitwiseOrScalar)
	bitwiseXorScalar        = ofBitsAndNumber("bitwise_xor_scalar", (*tensor.Tensor).BitwiseXorScalar)
	bitwiseLeftShiftScalar  = ofBitsAndNumber("bitwise_left_shift_scalar", (*tensor.Tensor).BitwiseLeftShiftScalar)
	bitwiseRightShiftScalar = ofBitsAndNumber("bitwise_right_shift_scalar", (*tensor.Tensor).BitwiseRightShiftScalar)
)

func ofBits(name string, f func(t, u *tensor.Tensor) (*tensor.Tensor, error)) *op {
	forward := func(n *node) (*tensor.Tensor, error) { return f(n.tensor(0), n.tensor(1)) }
	return define(name, forward, notDifferentiable(integral), notDifferentiable(integral))
}

func ofBitsAndNumber(name string, f func(t *tensor.Tensor, s int64) (*tensor.Tensor, error)) *op {
	forward := func(n *node) (*tensor.Tensor, error) { return f(n.tensor(0), n.arg.(int64)) }
	return define(name, forward, notDifferentiable(integral))
}
