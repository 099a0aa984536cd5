package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// axes are the dimensions that a reduction removes, as a set.
type axes [MaxDims]bool

// axesOf resolves a list of dimensions; an empty list means all of them. Naming one twice is a *ShapeError.
func axesOf(name string, l *layout, dims []int) (axes, error) {
	var set axes
	if len(dims) == 0 {
		for i := range l.ndim {
			set[i] = true
		}
		return set, nil
	}
	for _, d := range dims {
		i, err := l.axis(name, d)
		if err != nil {
			return set, err
		}
		if set[i] {
			return set, shapeErr(name, []Shape{l.dims()}, "dimension %d is named twice", d)
		}
		set[i] = l.ndim > 0
	}
	return set, nil
}

// reduced is the row-major layout with one element along each of the axes.
func (l *layout) reduced(set axes) layout {
	r := *l
	for i := range r.ndim {
		if set[i] {
			r.shape[i] = 1
		}
	}
	r.pack()
	return r
}

// dropAll removes the axes from a layout that has one element along each.
func (l *layout) dropAll(set axes) {
	for i := l.ndim - 1; i >= 0; i-- {
		if set[i] {
			l.drop(i)
		}
	}
}

// reduce runs a reduction over dims in type in, with a result of type out.
func (t *Tensor) reduce(name string, id op.ID, in, out DType, dims []int, keep bool) (*Tensor, error) {
	set, err := axesOf(name, &t.layout, dims)
	if err != nil {
		return nil, err
	}
	x, err := t.as(name, in, t.exec)
	if err != nil {
		return nil, err
	}
	defer drop(x, t)
	return x.reduceAxes(name, id, out, t.exec, set, keep, 0)
}

// reduceAxes runs a reduction of x, which has the type that the kernel wants. arg is the scalar I[0] of the operation.
func (x *Tensor) reduceAxes(name string, id op.ID, out DType, e Exec, set axes, keep bool, arg int) (*Tensor, error) {
	l := x.layout.reduced(set)
	r, err := alloc(name, e, out, &l)
	if err != nil {
		return nil, err
	}
	if r.Len() > 0 {
		c := begin(id, e)
		c.call.I[0] = int64(arg)
		c.out(r, &l)
		c.in(x, &x.layout)
		if err := c.run(name); err != nil {
			r.Release()
			return nil, err
		}
	}
	if !keep {
		r.layout.dropAll(set) // r is new: nobody else has seen it
	}
	return r, nil
}

// Sum adds the elements along dims, or all of them if dims is empty; keep leaves the dimensions in the result, with one
// element each. Integers and bools are summed in int64. The sum of nothing is 0. Likewise for the reductions below.
func (t *Tensor) Sum(dims []int, keep bool) (*Tensor, error) {
	return t.accumulate("Sum", op.Sum, dims, keep)
}

// Prod multiplies the elements along dims. The product of nothing is 1.
func (t *Tensor) Prod(dims []int, keep bool) (*Tensor, error) {
	const name = "Prod"
	if t != nil && t.dtype == Bool { // the kernel multiplies numbers
		return t.reduceAs(name, op.Prod, Int64, Int64, dims, keep)
	}
	return t.accumulate(name, op.Prod, dims, keep)
}

func (t *Tensor) accumulate(name string, id op.ID, dims []int, keep bool) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	out := t.dtype
	if !out.IsFloat() {
		out = Int64
	}
	return t.reduce(name, id, t.dtype, out, dims, keep)
}

// reduceAs is reduce for operands that were not checked yet.
func (t *Tensor) reduceAs(name string, id op.ID, in, out DType, dims []int, keep bool) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	return t.reduce(name, id, in, out, dims, keep)
}

// Mean is the mean of the elements along dims: of floating-point types, and NaN for nothing.
func (t *Tensor) Mean(dims []int, keep bool) (*Tensor, error) {
	const name = "Mean"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if !t.dtype.IsFloat() {
		return nil, dtypeErr(name, needsFloat, t.dtype)
	}
	return t.reduce(name, op.Mean, t.dtype, t.dtype, dims, keep)
}

// Max is the greatest element along dims, NaN if there is one. Nothing has no maximum: that is a *ShapeError.
func (t *Tensor) Max(dims []int, keep bool) (*Tensor, error) {
	return t.extreme("Max", op.Max, op.Any, dims, keep)
}

// Min is the least element along dims, NaN if there is one. Nothing has no minimum: that is a *ShapeError.
func (t *Tensor) Min(dims []int, keep bool) (*Tensor, error) {
	return t.extreme("Min", op.Min, op.All, dims, keep)
}

func (t *Tensor) extreme(name string, id, forBool op.ID, dims []int, keep bool) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	set, err := axesOf(name, &t.layout, dims)
	if err != nil {
		return nil, err
	}
	if err := t.something(name, set); err != nil {
		return nil, err
	}
	if t.dtype == Bool {
		id = forBool
	}
	return t.reduceAxes(name, id, t.dtype, t.exec, set, keep, 0)
}

// something refuses to reduce over a dimension of 0, also where the result would have no elements, as PyTorch does.
func (t *Tensor) something(name string, set axes) error {
	for i, n := range t.Shape() {
		if set[i] && n == 0 {
			return shapeErr(name, []Shape{t.Shape()}, "no elements to reduce over in dimension %d", i)
		}
	}
	return nil
}

// ArgMax is the index of the greatest element along dim, as int64: the first of equal ones, and that of the first NaN if
// there is one.
func (t *Tensor) ArgMax(dim int, keep bool) (*Tensor, error) {
	return t.argExtreme("ArgMax", op.ArgMax, dim, keep)
}

// ArgMin is the index of the least element along dim, as int64, with ArgMax's rules.
func (t *Tensor) ArgMin(dim int, keep bool) (*Tensor, error) {
	return t.argExtreme("ArgMin", op.ArgMin, dim, keep)
}

func (t *Tensor) argExtreme(name string, id op.ID, dim int, keep bool) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if t.dtype == Bool {
		return nil, dtypeErr(name, "not defined for bool", t.dtype)
	}
	axis, err := t.layout.axis(name, dim)
	if err != nil {
		return nil, err
	}
	if t.NDim() == 0 {
		return full(name, t.exec, 0, Int64, &layout{})
	}
	var set axes
	set[axis] = true
	if err := t.something(name, set); err != nil {
		return nil, err
	}
	return t.reduceAxes(name, id, Int64, t.exec, set, keep, axis)
}

// Any is true where any element along dims is not 0: a bool tensor, false for nothing.
func (t *Tensor) Any(dims []int, keep bool) (*Tensor, error) {
	return t.reduceAs("Any", op.Any, Bool, Bool, dims, keep)
}

// All is true where all elements along dims are not 0: a bool tensor, true for nothing.
func (t *Tensor) All(dims []int, keep bool) (*Tensor, error) {
	return t.reduceAs("All", op.All, Bool, Bool, dims, keep)
}

// SumTo sums away the dimensions along which shape would be broadcast to t's shape: the gradient of broadcasting. With t's
// own shape it is another handle on t.
func (t *Tensor) SumTo(shape ...int) (*Tensor, error) {
	const name = "SumTo"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	to, err := newLayout(name, shape)
	if err != nil {
		return nil, err
	}
	if _, ok := to.expanded(&t.layout); !ok {
		return nil, shapeErr(name, []Shape{t.Shape(), shape}, "the second does not broadcast to the first")
	}
	if t.Shape().Equal(shape) {
		return t.Retain(), nil
	}
	var set axes
	lead := t.NDim() - len(shape)
	for i := range t.NDim() {
		set[i] = i < lead || shape[i-lead] == 1
	}
	out := t.dtype
	if !out.IsFloat() {
		out = Int64
	}
	r, err := t.reduceAxes(name, op.Sum, out, t.exec, set, true, 0)
	if err != nil {
		return nil, err
	}
	r.layout = to
	return r, nil
}
