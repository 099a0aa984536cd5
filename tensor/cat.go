package tensor

// Cat joins tensors along dim. They have the same shape but for that dimension; tensors of shape [0] are skipped, as in
// PyTorch. The result has the promoted type and runs under the first tensor's Exec. It has the memory format of all of them, if they have one.
func Cat(ts []*Tensor, dim int) (*Tensor, error) {
	const name = "Cat"
	dt, err := joinable(name, ts)
	if err != nil {
		return nil, err
	}
	l, axis, err := catLayout(name, ts, dim)
	if err != nil {
		return nil, err
	}
	return join(name, ts, dt, &l, func(at *layout, done int, t *Tensor) int {
		at.offset = done * at.strides[axis]
		at.shape[axis] = 0
		if !nothing(t) {
			at.shape[axis] = t.layout.shape[axis]
		}
		return done + at.shape[axis]
	})
}

// catLayout is the shape of what Cat makes, as a layout whose strides do not count, and the dimension to join along.
func catLayout(name string, ts []*Tensor, dim int) (layout, int, error) {
	model := ts[0] // the first that is not of shape [0]
	for _, t := range ts {
		if t.NDim() == 0 {
			return layout{}, 0, shapeErr(name, shapesOf(ts), "scalars have no dimension to join along; use Stack")
		}
		if nothing(model) {
			model = t
		}
	}
	axis, err := model.layout.axis(name, dim)
	if err != nil {
		return layout{}, 0, err
	}
	l := model.layout
	l.shape[axis] = 0
	for _, t := range ts {
		if nothing(t) {
			continue
		}
		shape := t.layout
		shape.shape[axis] = l.shape[axis]
		if !shape.dims().Equal(l.dims()) {
			return layout{}, 0, shapeErr(name, shapesOf(ts), "shapes differ in more than dimension %d", dim)
		}
		l.shape[axis] += t.layout.shape[axis]
	}
	return l, axis, nil
}

// nothing reports whether t has shape [0].
func nothing(t *Tensor) bool { return t.NDim() == 1 && t.layout.shape[0] == 0 }

// Stack joins tensors of one shape along a new dimension dim. The result has the promoted type and runs under the first
// tensor's Exec.
func Stack(ts []*Tensor, dim int) (*Tensor, error) {
	const name = "Stack"
	dt, err := joinable(name, ts)
	if err != nil {
		return nil, err
	}
	l := ts[0].layout
	for _, t := range ts {
		if !t.Shape().Equal(l.dims()) {
			return nil, shapeErr(name, shapesOf(ts), "shapes differ")
		}
	}
	axis, err := l.newAxis(name, dim)
	if err != nil {
		return nil, err
	}
	l.insert(axis, len(ts), 0)
	return join(name, ts, dt, &l, func(at *layout, done int, t *Tensor) int {
		at.offset = done * at.strides[axis]
		at.drop(axis)
		return done + 1
	})
}

// joinable checks the tensors and returns their promoted type.
func joinable(name string, ts []*Tensor) (DType, error) {
	if len(ts) == 0 {
		return 0, valueErr(name, "no tensors")
	}
	if err := together(name, ts...); err != nil {
		return 0, err
	}
	return ResultType(ts...), nil
}

// commonFormat is the format of all tensors, if it is one of so many dimensions.
func commonFormat(ts []*Tensor, ndim int) MemoryFormat {
	f := lastFormat(ndim)
	for _, t := range ts {
		if !nothing(t) && (t.layout.ndim != ndim || t.layout.format() != f) {
			return ContiguousFormat
		}
	}
	return f
}

// join copies tensors side by side into a new one of shape l. place turns the layout of the result into that of the piece
// for t, given the count of what was placed before, and returns the new count.
func join(name string, ts []*Tensor, dt DType, l *layout, place func(at *layout, done int, t *Tensor) int) (*Tensor, error) {
	checked, err := newLayout(name, l.dims())
	if err != nil {
		return nil, err
	}
	checked.packIn(commonFormat(ts, l.ndim))
	r, err := allocAs(name, ts[0].exec, dt, &checked)
	if err != nil {
		return nil, err
	}
	done := 0
	for _, t := range ts {
		at := r.layout
		done = place(&at, done, t)
		if at.len() == 0 {
			continue
		}
		if err := r.write(name, &at, t, &t.layout); err != nil {
			r.Release()
			return nil, err
		}
	}
	return r, nil
}
