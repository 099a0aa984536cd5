package tensor

import "math"

// OneHot makes a vector of classes elements of each element of t, int64 or int32: 1 at the place that it names, else 0. The
// result is int64 and has one dimension more. With classes -1 there are as many as the greatest element needs, which waits
// for it. An element that is not in 0..classes-1 makes the work fail on the device, which the next wait reports.
func (t *Tensor) OneHot(classes int) (*Tensor, error) {
	const name = "OneHot"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if t.dtype != Int64 && t.dtype != Int32 {
		return nil, dtypeErr(name, "classes are int64 or int32", t.dtype)
	}
	if classes < -1 || classes == 0 && t.Len() > 0 {
		return nil, valueErr(name, "classes is %d; it must be positive, or -1 for as many as there are", classes)
	}
	last, err := t.layout.newAxis(name, -1)
	if err != nil {
		return nil, err
	}
	if classes == -1 {
		if classes, err = t.greatest(name); err != nil {
			return nil, err
		}
	}
	l := t.layout
	l.insert(last, classes, 1)
	if l, err = newLayout(name, l.dims()); err != nil {
		return nil, err
	}
	r, err := full(name, t.exec, 0, Int64, &l)
	if err != nil || r.Len() == 0 {
		return r, err
	}
	at := t.layout
	at.insert(last, 1, 1)
	idx := t.handle(&at, t.exec)
	defer idx.Release()
	if err := r.scatterValue(name, -1, idx, 1); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// greatest is one more than t's greatest element.
func (t *Tensor) greatest(name string) (int, error) {
	if t.Len() == 0 {
		return 0, shapeErr(name, []Shape{t.Shape()}, "no elements to tell the number of classes from")
	}
	if err := t.valued(name); err != nil {
		return 0, err
	}
	m, err := t.Max(nil, false)
	if err != nil {
		return 0, err
	}
	defer m.Release()
	wide, err := m.To(Int64)
	if err != nil {
		return 0, err
	}
	defer wide.Release()
	v, err := ToSlice[int64](wide)
	if err != nil {
		return 0, err
	}
	if v[0] == math.MaxInt64 {
		return 0, valueErr(name, "the class %d is too large", v[0])
	}
	return int(v[0]) + 1, nil
}
