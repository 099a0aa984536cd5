package tensor

import "slices"

// reshapeTo resolves one -1 among the dimensions of shape and checks that it has t's number of elements.
func (t *Tensor) reshapeTo(name string, shape []int) (layout, error) {
	n, hole := t.Len(), -1
	var dims [MaxDims]int
	if len(shape) > MaxDims {
		return newLayout(name, shape)
	}
	copy(dims[:], shape)
	for i, d := range shape {
		switch {
		case d == -1 && hole < 0:
			hole = i
			dims[i] = 1
		case d == -1:
			return layout{}, shapeErr(name, []Shape{t.Shape(), shape}, "only one dimension can be -1")
		}
	}
	l, err := newLayout(name, dims[:len(shape)])
	if err != nil {
		return l, err
	}
	rest := l.len()
	if hole >= 0 && rest > 0 && n%rest == 0 {
		l.shape[hole] = n / rest
		l.pack()
	}
	if hole >= 0 && rest == 0 || l.len() != n {
		return l, shapeErr(name, []Shape{t.Shape(), shape}, "%d elements do not make this shape", n)
	}
	return l, nil
}

// reshaped gives l the shape of to, which has as many elements, without moving any; it reports whether that is possible.
//
// Neighbouring dimensions of l form a chunk while each steps over exactly the next one (stride = next stride * next
// shape): within a chunk the elements are evenly spaced and can be divided anew, across chunks they cannot. The rule is
// that of PyTorch (computeStride in ATen/TensorUtils.cpp).
func (l *layout) reshaped(to *layout) (layout, bool) {
	r := *to
	r.pack()
	r.offset = l.offset
	if l.len() == 0 {
		return r, true
	}
	v := r.ndim - 1 // the dimension of r to fill next
	chunk, stride := 1, 1
	if l.ndim > 0 {
		stride = l.strides[l.ndim-1]
	}
	for i := l.ndim - 1; i >= 0; i-- {
		chunk *= l.shape[i]
		if i > 0 && (l.shape[i-1] == 1 || l.strides[i-1] == chunk*stride) {
			continue
		}
		filled := 1
		for v >= 0 && (filled < chunk || r.shape[v] == 1) {
			r.strides[v] = filled * stride
			filled *= r.shape[v]
			v--
		}
		if filled != chunk {
			return r, false
		}
		if i > 0 {
			chunk, stride = 1, l.strides[i-1]
		}
	}
	return r, true
}

// View gives t another shape of as many elements; one dimension may be -1, for what is left. It is a *ShapeError if the
// strides do not allow it without moving elements.
func (t *Tensor) View(shape ...int) (*Tensor, error) {
	const name = "View"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	to, err := t.reshapeTo(name, shape)
	if err != nil {
		return nil, err
	}
	l, ok := t.layout.reshaped(&to)
	if !ok {
		return nil, shapeErr(name, []Shape{t.Shape(), shape}, "strides %v do not allow this view; use Reshape", t.Strides())
	}
	return t.handle(&l, t.exec), nil
}

// Reshape is View where the strides allow it, and else a contiguous copy.
func (t *Tensor) Reshape(shape ...int) (*Tensor, error) {
	const name = "Reshape"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	return t.reshape(name, shape)
}

func (t *Tensor) reshape(name string, shape []int) (*Tensor, error) {
	to, err := t.reshapeTo(name, shape)
	if err != nil {
		return nil, err
	}
	if l, ok := t.layout.reshaped(&to); ok {
		return t.handle(&l, t.exec), nil
	}
	r, err := t.convert(name, t.dtype, t.exec)
	if err != nil {
		return nil, err
	}
	r.layout = to // r is new and contiguous, and nobody else has seen it
	return r, nil
}

// Flatten joins the dimensions from..to, both included, into one. It is a view where the strides allow it, else a copy.
// A scalar becomes a tensor of one dimension.
func (t *Tensor) Flatten(from, to int) (*Tensor, error) {
	const name = "Flatten"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	first, err := t.layout.axis(name, from)
	if err != nil {
		return nil, err
	}
	last, err := t.layout.axis(name, to)
	if err != nil {
		return nil, err
	}
	if first > last {
		return nil, shapeErr(name, []Shape{t.Shape()}, "dimension %d comes after %d", from, to)
	}
	if t.NDim() == 0 {
		return t.reshape(name, []int{1})
	}
	dims := t.layout.shape
	joined := Shape(dims[first : last+1]).Len()
	return t.reshape(name, slices.Replace(dims[:t.NDim()], first, last+1, joined))
}
