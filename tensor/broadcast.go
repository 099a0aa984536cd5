package tensor

// broadcast widens l's shape so that m fits too, by PyTorch's rule: shapes are aligned at their last dimensions, and along
// each the numbers of elements are equal, or one of them is 1. It reports whether m fits; strides are left alone.
func (l *layout) broadcast(m *layout) bool {
	for m.ndim > l.ndim {
		l.insert(0, 1, 0)
	}
	for i := 1; i <= m.ndim; i++ {
		have, want := &l.shape[l.ndim-i], m.shape[m.ndim-i]
		switch {
		case want == 1 || want == *have:
		case *have == 1:
			*have = want
		default:
			return false
		}
	}
	return true
}

// expanded is l with the shape of to: new and single-element dimensions are repeated, with a stride of 0. It reports
// whether that is possible.
func (l *layout) expanded(to *layout) (layout, bool) {
	r := layout{ndim: to.ndim, offset: l.offset, shape: to.shape}
	if l.ndim > to.ndim {
		return r, false
	}
	for i := 1; i <= l.ndim; i++ {
		from, at := l.ndim-i, to.ndim-i
		switch {
		case l.shape[from] == to.shape[at]:
			r.strides[at] = l.strides[from]
		case l.shape[from] != 1:
			return r, false
		}
	}
	return r, true
}

// broadcastLayout is the row-major layout of what the operands' shapes broadcast to.
func broadcastLayout(name string, ts ...*Tensor) (layout, error) {
	if len(ts) == 2 && ts[0].Shape().Equal(ts[1].layout.dims()) {
		return ts[0].layout.packed(), nil
	}
	l := ts[0].layout
	for _, t := range ts[1:] {
		if !l.broadcast(&t.layout) {
			return l, shapeErr(name, shapesOf(ts), "shapes do not broadcast")
		}
	}
	return newLayout(name, l.dims()) // two legal shapes may broadcast to one of too many elements
}

func shapesOf(ts []*Tensor) []Shape {
	shapes := make([]Shape, len(ts))
	for i, t := range ts {
		shapes[i] = t.layout.dims()
	}
	return shapes
}

// BroadcastShapes is the shape that tensors of the given shapes broadcast to, or a *ShapeError.
func BroadcastShapes(shapes ...Shape) (Shape, error) {
	var l layout
	for _, s := range shapes {
		m, err := newLayout("BroadcastShapes", s)
		if err != nil {
			return nil, err
		}
		if !l.broadcast(&m) {
			return nil, shapeErr("BroadcastShapes", shapes, "shapes do not broadcast")
		}
	}
	return l.dims().Clone(), nil
}
