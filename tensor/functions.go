package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// gradient runs the gradient of a function of one input: saved is what the forward pass saved, of the same shape and floating-point type.
func gradient(name string, id op.ID, grad, saved *Tensor, v ...float64) (*Tensor, error) {
	if err := sameFloat(name, grad, saved); err != nil {
		return nil, err
	}
	if !grad.Shape().Equal(saved.Shape()) {
		return nil, shapeErr(name, []Shape{grad.Shape(), saved.Shape()}, "shapes differ")
	}
	return pointwise(name, id, grad.exec, grad.dtype, &grad.layout, numbers(grad.dtype, v...), grad, saved)
}

// sameFloat refuses operands that are not usable, not on one device, or not of one floating-point type.
func sameFloat(name string, ts ...*Tensor) error {
	if err := together(name, ts...); err != nil {
		return err
	}
	dt := ts[0].dtype
	for _, t := range ts {
		if t.dtype != dt {
			return dtypeErr(name, "operands must have one type; To converts", dtypesOf(ts)...)
		}
	}
	if !dt.IsFloat() {
		return dtypeErr(name, needsFloat, dtypesOf(ts)...)
	}
	return nil
}

func dtypesOf(ts []*Tensor) []DType {
	dts := make([]DType, len(ts))
	for i, t := range ts {
		dts[i] = t.dtype
	}
	return dts
}
