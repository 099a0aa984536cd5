package tensor

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Var is the variance of the elements along dims: the sum of the squared distances from their mean, divided by their number
// less correction (1 for the unbiased estimate, 0 for the variance of the population). Floating-point types only; float16
// and bfloat16 are computed in float32. It is NaN where number and correction are equal.
func (t *Tensor) Var(dims []int, correction int, keep bool) (*Tensor, error) {
	const name = "Var"
	return t.spread(name, dims, correction, keep, false)
}

// Std is the square root of Var.
func (t *Tensor) Std(dims []int, correction int, keep bool) (*Tensor, error) {
	const name = "Std"
	return t.spread(name, dims, correction, keep, true)
}

// spread is Var, or its square root. It allocates the mean, the distances and the result.
func (t *Tensor) spread(name string, dims []int, correction int, keep, root bool) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if !t.dtype.IsFloat() {
		return nil, dtypeErr(name, needsFloat, t.dtype)
	}
	set, err := axesOf(name, &t.layout, dims)
	if err != nil {
		return nil, err
	}
	x, err := t.as(name, Promote(t.dtype, wideFor(t.dtype)), t.exec)
	if err != nil {
		return nil, err
	}
	defer drop(x, t)
	e := t.exec
	if x != t {
		e = e.Owned() // the result is converted once more
	}
	r, err := x.distances(name, set, e, root)
	if err != nil {
		return nil, err
	}
	l := t.layout.reduced(set)
	count := 1
	if l.len() > 0 {
		count = t.Len() / l.len()
	}
	if err := r.finishSpread(name, count, correction, root); err != nil {
		r.Release()
		return nil, err
	}
	if !keep {
		r.layout.dropAll(set)
	}
	return converted(name, r, nil, t.dtype, t.exec)
}

func wideFor(d DType) DType {
	if d.Size() == 2 {
		return Float32
	}
	return d
}

// distances is the mean of squared distances from the mean along the axes, or their norm, kept as dimensions of one element.
func (x *Tensor) distances(name string, set axes, e Exec, norm bool) (*Tensor, error) {
	mean, err := x.reduceAxes(name, op.Mean, x.dtype, e.Owned(), set, true, 0)
	if err != nil {
		return nil, err
	}
	defer mean.Release()
	distance, err := pointwise(name, op.Sub, e.Owned(), x.dtype, &x.layout, scalars{}, x, mean)
	if err != nil {
		return nil, err
	}
	defer distance.Release()
	id := op.MeanSquare
	if norm {
		id = op.Norm2
	}
	return distance.reduceAxes(name, id, x.dtype, e, set, true, 0)
}

// finishSpread makes the sum of count squares divided by count less correction of their mean, or the root of that of their norm.
// Neither takes a step that overflows where the result is a number. What is divided by nothing is infinite, or NaN if it is 0.
func (r *Tensor) finishSpread(name string, count, correction int, root bool) error {
	left := max(0, float64(count)-float64(correction)) // the difference of two ints may overflow
	if root {
		return r.pointwiseInto(name, op.DivScalar, numbers(r.dtype, math.Sqrt(left)), r)
	}
	if correction == 0 {
		return nil
	}
	return r.pointwiseInto(name, op.MulScalar, numbers(r.dtype, float64(count)/left), r)
}
