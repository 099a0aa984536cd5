package autograd

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// What is chosen by order. Operations with a dimension save the indices of what they chose, which alone gets the gradient.

var (
	kthValue     = composite{name: "kthvalue"}
	medianDim    = composite{name: "median"}
	nanMedianDim = composite{name: "nanmedian"}
	modeDim      = composite{name: "mode"}
	cumMax       = composite{name: "cummax"}
	cumMin       = composite{name: "cummin"}
	median       = composite{name: "median"}
)

// KthValue is the k-th smallest element along dim, counted from 1, and its index; see tensor.Tensor.KthValue.
func (v *Variable) KthValue(k, dim int, keep bool) (values, indices *Variable) {
	return kthValue.chosen(v, dim, keep, func(t *tensor.Tensor) (values, indices *tensor.Tensor, err error) { return t.KthValue(k, dim, true) })
}

// MedianDim is the median along dim, the lower one of two, and its index; see tensor.Tensor.MedianDim.
func (v *Variable) MedianDim(dim int, keep bool) (values, indices *Variable) {
	return medianDim.chosen(v, dim, keep, func(t *tensor.Tensor) (values, indices *tensor.Tensor, err error) { return t.MedianDim(dim, true) })
}

// NanMedianDim is MedianDim of the elements that are not NaN.
func (v *Variable) NanMedianDim(dim int, keep bool) (values, indices *Variable) {
	return nanMedianDim.chosen(v, dim, keep, func(t *tensor.Tensor) (values, indices *tensor.Tensor, err error) { return t.NanMedianDim(dim, true) })
}

// ModeDim is the most frequent element along dim, and an index of it; see tensor.Tensor.ModeDim.
func (v *Variable) ModeDim(dim int, keep bool) (values, indices *Variable) {
	return modeDim.chosen(v, dim, keep, func(t *tensor.Tensor) (values, indices *tensor.Tensor, err error) { return t.ModeDim(dim, true) })
}

// CumMax is the greatest element so far along dim, and its index; see tensor.Tensor.CumMax.
func (v *Variable) CumMax(dim int) (values, indices *Variable) {
	return cumMax.chosen(v, dim, true, func(t *tensor.Tensor) (values, indices *tensor.Tensor, err error) { return t.CumMax(dim) })
}

// CumMin is the least element so far along dim, and its index; see tensor.Tensor.CumMin.
func (v *Variable) CumMin(dim int) (values, indices *Variable) {
	return cumMin.chosen(v, dim, true, func(t *tensor.Tensor) (values, indices *tensor.Tensor, err error) { return t.CumMin(dim) })
}

// chosen gathers what f chooses. Types without gradients are gathered too.
func (c composite) chosen(v *Variable, dim int, keep bool, f func(t *tensor.Tensor) (values, indices *tensor.Tensor, err error)) (values, indices *Variable) {
	out := c.runs(2, []*Variable{v}, func() error {
		_, err := c.dim(v, dim)
		return err
	}, func(in []*Variable) []*Variable {
		indices := constant(c.name, func(ts []*tensor.Tensor) (*tensor.Tensor, error) {
			values, indices, err := f(ts[0])
			values.Release()
			return indices, err
		}, in...)
		values := in[0].Gather(dim, indices)
		if !keep && v.NDim() > 0 {
			values, indices = values.Squeeze(dim), indices.Squeeze(dim)
		}
		return []*Variable{values, indices}
	})
	return out[0], out[1]
}

// Median is the median of all elements, the lower one of two, and NaN if there is one, or if there are no elements, of a floating-point type; integers have no median of
// nothing, of which PyTorch makes the least number of the type. Equal medians share the gradient evenly, as in PyTorch.
func (v *Variable) Median() *Variable {
	return median.run([]*Variable{v}, func() error {
		if v.Len() == 0 && !v.dtype.IsFloat() {
			return median.shapes(fmt.Sprintf("there is no median of nothing, which %s cannot say", v.dtype), v)
		}
		return nil
	}, func(in []*Variable) *Variable {
		if v.Len() == 0 {
			return in[0].Sum(nil, false).AddScalar(math.NaN())
		}
		x := in[0].Reshape(v.Len())
		middle, _ := x.Detach().MedianDim(0, false)
		if !middle.Alive() || !v.dtype.IsFloat() {
			return middle
		}
		equal := x.Eq(middle).Or(x.IsNaN().And(middle.IsNaN()))
		count := equal.To(v.dtype).Sum(nil, false)
		mean := func(x *Variable) *Variable { return x.MaskedFill(equal.Not(), 0).Sum(nil, false).Div(count) }
		// The mean of equal elements is rounded where they are finite, and is what they are where they are not.
		return Where(middle.IsFinite(), middle.Add(mean(x.nothing())), mean(x))
	})
}

// IsClose tells of each pair of elements whether they are close to each other; see tensor.Tensor.IsClose. Without a gradient.
func (v *Variable) IsClose(u *Variable, rtol, atol float64, equalNaN bool) *Variable {
	return constant("isclose", func(ts []*tensor.Tensor) (*tensor.Tensor, error) {
		return ts[0].IsClose(ts[1], rtol, atol, equalNaN)
	}, v, u)
}
