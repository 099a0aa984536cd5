package tensor

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Norm is the p-norm of the elements along dims, or of all if there are none: the pth root of the sum of |t| to the power of p;
// the greatest (least) |t| for p of plus (minus) infinity, and the number of elements that are not 0 for p = 0
// (torch.linalg.vector_norm). Floating-point types; float16 and bfloat16 are computed in float32. Powers other than 1, 2, 0
// and the infinities take a temporary of t's size.
func (t *Tensor) Norm(p float64, dims []int, keep bool) (*Tensor, error) {
	const name = "Norm"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if !t.dtype.IsFloat() {
		return nil, dtypeErr(name, needsFloat, t.dtype)
	}
	if math.IsNaN(p) {
		return nil, valueErr(name, "p is NaN")
	}
	set, err := axesOf(name, &t.layout, dims)
	if err != nil {
		return nil, err
	}
	if p < 0 || infinite(p) {
		if err := t.something(name, set); err != nil {
			return nil, err
		}
	}
	switch {
	case p == 1:
		return t.reduceAxes(name, op.Norm1, t.dtype, t.exec, set, keep, 0)
	case p == 2:
		return t.reduceAxes(name, op.Norm2, t.dtype, t.exec, set, keep, 0)
	case math.IsInf(p, 1):
		return t.reduceAxes(name, op.NormMax, t.dtype, t.exec, set, keep, 0)
	case math.IsInf(p, -1):
		return t.reduceAxes(name, op.NormMin, t.dtype, t.exec, set, keep, 0)
	case p == 0:
		r, err := t.reduceAxes(name, op.CountNonzero, Int64, t.exec.Owned(), set, keep, 0)
		return converted(name, r, err, t.dtype, t.exec)
	}
	return t.powerNorm(name, p, set, keep)
}

// powerNorm works on a copy in place.
func (t *Tensor) powerNorm(name string, p float64, set axes, keep bool) (*Tensor, error) {
	wide := wideFor(t.dtype)
	x, err := t.convert(name, wide, t.exec.Owned())
	if err != nil {
		return nil, err
	}
	defer x.Release()
	if err := x.pointwiseInto(name, op.Abs, scalars{}, x); err != nil {
		return nil, err
	}
	if err := x.pointwiseInto(name, op.PowScalar, numbers(wide, p), x); err != nil {
		return nil, err
	}
	e := t.exec
	if wide != t.dtype {
		e = e.Owned()
	}
	r, err := x.reduceAxes(name, op.Sum, wide, e, set, keep, 0)
	if err != nil {
		return nil, err
	}
	if err := r.pointwiseInto(name, op.PowScalar, numbers(wide, 1/p), r); err != nil {
		r.Release()
		return nil, err
	}
	return converted(name, r, nil, t.dtype, t.exec)
}

// LogSumExp is the logarithm of the sum of the exponentials along dims, or of all elements if there are none, computed relative to
// the greatest. It is minus infinity for nothing. Floating-point types.
func (t *Tensor) LogSumExp(dims []int, keep bool) (*Tensor, error) {
	const name = "LogSumExp"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if !t.dtype.IsFloat() {
		return nil, dtypeErr(name, needsFloat, t.dtype)
	}
	return t.reduce(name, op.LogSumExp, t.dtype, t.dtype, dims, keep)
}

// CountNonzero is how many elements along dims, or of all if there are none, are not 0, as int64. NaN is not 0.
func (t *Tensor) CountNonzero(dims ...int) (*Tensor, error) {
	const name = "CountNonzero"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	return t.reduce(name, op.CountNonzero, t.dtype, Int64, dims, false)
}

// MaxDim is the greatest element along dim, NaN if there is one, and its index, as int64: the first of several (torch.max with a
// dimension). The caller releases both. Not defined for bool.
func (t *Tensor) MaxDim(dim int, keep bool) (values, indices *Tensor, err error) {
	return t.extremeDim("MaxDim", op.ArgMax, dim, keep)
}

// MinDim is the least element along dim and its index, with MaxDim's rules.
func (t *Tensor) MinDim(dim int, keep bool) (values, indices *Tensor, err error) {
	return t.extremeDim("MinDim", op.ArgMin, dim, keep)
}

func (t *Tensor) extremeDim(name string, id op.ID, dim int, keep bool) (values, indices *Tensor, err error) {
	indices, err = t.argExtreme(name, id, dim, true)
	if err != nil {
		return nil, nil, err
	}
	if values, err = t.gather(name, dim, indices); err != nil {
		indices.Release()
		return nil, nil, err
	}
	if axis, _ := t.layout.axis(name, dim); !keep && t.NDim() > 0 { // both are new: nobody else has seen them
		values.layout.drop(axis)
		indices.layout.drop(axis)
	}
	return values, indices, nil
}

// CumSum is the running sum along dim: element i is the sum of elements 0..i. Integers and bools are summed in int64.
func (t *Tensor) CumSum(dim int) (*Tensor, error) { return t.running("CumSum", op.CumSum, dim) }

// CumProd is the running product along dim. Integers and bools are multiplied in int64.
func (t *Tensor) CumProd(dim int) (*Tensor, error) { return t.running("CumProd", op.CumProd, dim) }

func (t *Tensor) running(name string, id op.ID, dim int) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	dt := t.dtype
	if !dt.IsFloat() {
		dt = Int64
	}
	return rowOperation(name, id, dt, dim, t)
}

// CumSum is the gradient of Tensor.CumSum along dim for the gradient grad of its result: the running sum from the end. Floating-point
// types.
func (gradients) CumSum(grad *Tensor, dim int) (*Tensor, error) {
	const name = "CumSumGrad"
	if err := sameFloat(name, grad); err != nil {
		return nil, err
	}
	axis, err := grad.layout.axis(name, dim)
	if err != nil {
		return nil, err
	}
	r, err := alloc(name, grad.exec, grad.dtype, &grad.layout)
	if err != nil || r.Len() == 0 {
		return r, err
	}
	c := begin(op.CumSum, grad.exec)
	to, from := r.layout.rows(axis), grad.layout.rows(axis)
	to.flip(to.ndim - 1)
	from.flip(from.ndim - 1)
	c.out(r, &to)
	c.in(grad, &from)
	if err := c.run(name); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// CumProd is the gradient of Tensor.CumProd along dim at in, whose result was out, for the gradient grad of that result. It divides by
// nothing: zeros are as good as other numbers. Floating-point types.
func (gradients) CumProd(grad, in, out *Tensor, dim int) (*Tensor, error) {
	return alongRows("CumProdGrad", op.CumProdGrad, dim, grad, in, out)
}
