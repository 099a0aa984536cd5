package tensor

import (
	"math"
	"math/bits"
)

// Repeat puts sizes[i] copies of t side by side along dimension i; there may be more sizes than dimensions, which are then in front.
func (t *Tensor) Repeat(sizes ...int) (*Tensor, error) { return t.repeat("Repeat", sizes) }

// Tile is Repeat, where sizes that are missing in front are 1.
func (t *Tensor) Tile(sizes ...int) (*Tensor, error) {
	const name = "Tile"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	for len(sizes) < t.NDim() {
		sizes = append([]int{1}, sizes...)
	}
	return t.repeat(name, sizes)
}

func (t *Tensor) repeat(name string, sizes []int) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if len(sizes) < t.NDim() || len(sizes) > MaxDims {
		return nil, shapeErr(name, []Shape{t.Shape()}, "%d sizes; there must be one for each dimension, and at most %d", len(sizes), MaxDims)
	}
	from := t.layout
	for from.ndim < len(sizes) {
		from.insert(0, 1, 0)
	}
	shape := from.dims().Clone()
	for i, n := range sizes {
		if n < 0 {
			return nil, valueErr(name, "sizes are %v; none may be negative", sizes)
		}
		shape[i] = times(shape[i], n)
	}
	l, err := newLayout(name, shape)
	if err != nil {
		return nil, err
	}
	r, err := alloc(name, t.exec, t.dtype, &l)
	if err != nil || r.Len() == 0 {
		return r, err
	}
	if err := r.repeatInto(name, r.layout, t, from, sizes); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// repeatInto writes the copies: each dimension that is repeated becomes two, as long as there are few enough of them, and a loop if
// not. sizes has what is to be done.
func (r *Tensor) repeatInto(name string, to layout, t *Tensor, from layout, sizes []int) error {
	for i := len(sizes) - 1; i >= 0; i-- {
		n := from.shape[i]
		switch {
		case sizes[i] == 1:
		case n == 1:
			from.shape[i], from.strides[i] = sizes[i], 0
		case to.ndim == MaxDims:
			for k := range sizes[i] {
				part := to
				part.part(i, k*n, n)
				if err := r.repeatInto(name, part, t, from, sizes[:i]); err != nil {
					return err
				}
			}
			return nil
		default:
			to.shape[i] = n
			to.insert(i, sizes[i], n*to.strides[i])
			from.insert(i, sizes[i], 0)
		}
	}
	return r.write(name, &to, t, &from)
}

// RepeatInterleave puts n copies of each element side by side along dim.
func (t *Tensor) RepeatInterleave(n, dim int) (*Tensor, error) {
	const name = "RepeatInterleave"
	axis, err := t.dimension(name, dim)
	if err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, valueErr(name, "%d copies; there must be none or more", n)
	}
	l := t.layout
	l.shape[axis] = times(l.shape[axis], n)
	if l, err = newLayout(name, l.dims()); err != nil {
		return nil, err
	}
	r, err := alloc(name, t.exec, t.dtype, &l)
	if err != nil || r.Len() == 0 {
		return r, err
	}
	if t.NDim() < MaxDims {
		to, from := r.layout, t.layout
		to.shape[axis] = from.shape[axis]
		to.insert(axis+1, n, to.strides[axis])
		to.strides[axis] *= n
		from.insert(axis+1, n, 0)
		err, n = r.write(name, &to, t, &from), 0
	}
	for k := 0; k < n && err == nil; k++ { // one copy of each element at a time
		to := r.layout
		to.part(axis, k, t.layout.shape[axis])
		to.strides[axis] *= n
		err = r.write(name, &to, t, &t.layout)
	}
	if err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// times is n*m for numbers that are not negative, and the largest int where that is too large: no shape is made of it.
func times(n, m int) int {
	if hi, lo := bits.Mul64(uint64(n), uint64(m)); hi == 0 && lo <= math.MaxInt {
		return int(lo)
	}
	return math.MaxInt
}
