package tensor

import (
	"math"

	"github.com/cistern-ml/cistern/internal/plural"
)

// The functions in this file make views: handles with another layout on the same storage. A view is released like any
// other tensor, in any order with its base; the memory goes back when the last of them is released.

// End, as the end of Slice, is the end of the dimension.
const End = math.MaxInt

// Transpose exchanges two dimensions.
func (t *Tensor) Transpose(a, b int) (*Tensor, error) { return t.transpose("Transpose", a, b) }

func (t *Tensor) transpose(name string, a, b int) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	i, err := t.layout.axis(name, a)
	if err != nil {
		return nil, err
	}
	j, err := t.layout.axis(name, b)
	if err != nil {
		return nil, err
	}
	l := t.layout
	l.swap(i, j)
	return t.handle(&l, t.exec), nil
}

// MT exchanges the last two dimensions: it transposes each matrix of a batch. Tensors of fewer than two dimensions are a *ShapeError.
func (t *Tensor) MT() (*Tensor, error) {
	const name = "MT"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	l := t.layout
	if l.ndim < 2 {
		return nil, shapeErr(name, []Shape{t.Shape()}, "there are no matrices in %s", counted(l.ndim, "dimension"))
	}
	l.swap(l.ndim-2, l.ndim-1)
	return t.handle(&l, t.exec), nil
}

// T is the transpose of a matrix. Tensors of fewer dimensions stay as they are, those of more are a *ShapeError.
func (t *Tensor) T() (*Tensor, error) {
	const name = "T"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	l := t.layout
	switch {
	case l.ndim > 2:
		return nil, shapeErr(name, []Shape{t.Shape()}, "more than two dimensions; use Transpose or Permute")
	case l.ndim == 2:
		l.swap(0, 1)
	}
	return t.handle(&l, t.exec), nil
}

// Permute puts the dimensions in another order: dimension i of the result is dimension dims[i] of t.
func (t *Tensor) Permute(dims ...int) (*Tensor, error) {
	const name = "Permute"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if len(dims) != t.NDim() {
		return nil, shapeErr(name, []Shape{t.Shape()}, "%s %s named for a tensor of %d", plural.Of(len(dims), "dimension"), plural.End(len(dims), "is", "are"), t.NDim())
	}
	l := t.layout
	var seen [MaxDims]bool
	for i, d := range dims {
		from, err := t.layout.axis(name, d)
		if err != nil {
			return nil, err
		}
		if seen[from] {
			return nil, shapeErr(name, []Shape{t.Shape()}, "dimension %d is named twice", d)
		}
		seen[from] = true
		l.shape[i], l.strides[i] = t.layout.shape[from], t.layout.strides[from]
	}
	return t.handle(&l, t.exec), nil
}

// Slice takes every step-th element from start up to but not including end along dim, as Python's t[start:end:step]:
// negative positions count from the end, those outside are brought to the nearest end. step is at least 1. math.MaxInt
// as end is "to the end".
func (t *Tensor) Slice(dim, start, end, step int) (*Tensor, error) {
	const name = "Slice"
	i, err := t.dimension(name, dim)
	if err != nil {
		return nil, err
	}
	if step < 1 {
		return nil, valueErr(name, "step is %d; it must be at least 1", step)
	}
	n := t.layout.shape[i]
	start, end = position(start, n), position(end, n)
	l := t.layout
	l.shape[i] = 0
	if end > start {
		l.shape[i] = (end-start-1)/step + 1
	}
	l.offset += start * l.strides[i]
	l.strides[i] *= step // may wrap around, but only where one element is left, whose stride does not matter
	return t.handle(&l, t.exec), nil
}

func position(p, n int) int {
	if p < 0 {
		p = max(p+n, 0)
	}
	return min(p, n)
}

// dimension checks t and resolves a dimension that must exist: unlike axis it refuses scalars.
func (t *Tensor) dimension(name string, dim int) (int, error) {
	if err := usable(name, t); err != nil {
		return 0, err
	}
	if t.NDim() == 0 {
		return 0, shapeErr(name, []Shape{t.Shape()}, "a scalar has no dimension %d", dim)
	}
	return t.layout.axis(name, dim)
}

// Narrow takes length elements from start on along dim. A negative start counts from the end. Unlike Slice it refuses
// positions outside.
func (t *Tensor) Narrow(dim, start, length int) (*Tensor, error) {
	const name = "Narrow"
	i, err := t.dimension(name, dim)
	if err != nil {
		return nil, err
	}
	n, from := t.layout.shape[i], start
	if from < 0 {
		from += n
	}
	if from < 0 || length < 0 || from > n || length > n-from {
		return nil, shapeErr(name, []Shape{t.Shape()}, "%d elements from %d on are not in dimension %d", length, start, dim)
	}
	l := t.layout
	l.shape[i] = length
	l.offset += from * l.strides[i]
	return t.handle(&l, t.exec), nil
}

// Select takes element index along dim, and drops the dimension. A negative index counts from the end.
func (t *Tensor) Select(dim, index int) (*Tensor, error) {
	const name = "Select"
	i, err := t.dimension(name, dim)
	if err != nil {
		return nil, err
	}
	n, at := t.layout.shape[i], index
	if at < 0 {
		at += n
	}
	if at < 0 || at >= n {
		return nil, shapeErr(name, []Shape{t.Shape()}, "index %d is not in dimension %d", index, dim)
	}
	l := t.layout
	l.offset += at * l.strides[i]
	l.drop(i)
	return t.handle(&l, t.exec), nil
}

// Squeeze drops the named dimensions that have one element, or all such dimensions if none is named.
func (t *Tensor) Squeeze(dims ...int) (*Tensor, error) {
	const name = "Squeeze"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	var chosen [MaxDims]bool
	for _, d := range dims {
		i, err := t.layout.axis(name, d)
		if err != nil {
			return nil, err
		}
		chosen[i] = true
	}
	l := t.layout
	for i := l.ndim - 1; i >= 0; i-- {
		if l.shape[i] == 1 && (len(dims) == 0 || chosen[i]) {
			l.drop(i)
		}
	}
	return t.handle(&l, t.exec), nil
}

// Unsqueeze puts a dimension of one element before dimension dim, which runs from -(NDim+1) to NDim.
func (t *Tensor) Unsqueeze(dim int) (*Tensor, error) {
	const name = "Unsqueeze"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	l := t.layout
	axis, err := l.newAxis(name, dim)
	if err != nil {
		return nil, err
	}
	stride := 1
	if axis < l.ndim {
		stride = l.strides[axis] * l.shape[axis]
	}
	l.insert(axis, 1, stride)
	return t.handle(&l, t.exec), nil
}

// Expand repeats dimensions of one element, without copying them, to the given shape, which may have more dimensions in
// front; -1 keeps a dimension as it is. The result can be read but not written to.
func (t *Tensor) Expand(shape ...int) (*Tensor, error) {
	return t.expand("Expand", shape)
}

func (t *Tensor) expand(name string, shape []int) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	var dims [MaxDims]int
	if len(shape) <= MaxDims {
		copy(dims[:], shape)
		for i, d := range shape {
			if from := i - (len(shape) - t.NDim()); d == -1 && from >= 0 {
				dims[i] = t.layout.shape[from]
			}
		}
		shape = dims[:len(shape)]
	}
	to, err := newLayout(name, shape)
	if err != nil {
		return nil, err
	}
	l, ok := t.layout.expanded(&to)
	if !ok {
		return nil, shapeErr(name, []Shape{t.Shape(), shape}, "the tensor does not expand to this shape")
	}
	return t.handle(&l, t.exec), nil
}

// BroadcastTo is Expand.
func (t *Tensor) BroadcastTo(shape ...int) (*Tensor, error) { return t.expand("BroadcastTo", shape) }
