package tensor

// KthValue is the k-th smallest element along dim, counted from 1, and its index, as int64; NaN is greater than all numbers, and of equal elements
// the first counts first. The caller releases both. It sorts along dim.
func (t *Tensor) KthValue(k, dim int, keep bool) (values, indices *Tensor, err error) {
	const name = "KthValue"
	axis, err := t.nonEmptyAxis(name, dim)
	if err != nil {
		return nil, nil, err
	}
	n := 1
	if t.NDim() > 0 {
		n = t.Dim(axis)
	}
	if k < 1 || k > n {
		return nil, nil, valueErr(name, "k is %d; it is from 1 to %d", k, n)
	}
	return t.ranked(name, dim, keep, func(p *parts, _, order *Tensor, axis int) *Tensor { return p.do(order.Narrow(axis, k-1, 1)) })
}

// MedianDim is the median along dim, the lower one of two, and its index, as int64: that of the first NaN if there is one (torch.median with a
// dimension). The caller releases both. It sorts along dim.
func (t *Tensor) MedianDim(dim int, keep bool) (values, indices *Tensor, err error) {
	return t.ranked("MedianDim", dim, keep, func(p *parts, x, order *Tensor, axis int) *Tensor {
		n := x.Dim(axis)
		if !x.dtype.IsFloat() {
			return p.do(order.Narrow(axis, (n-1)/2, 1))
		}
		count := p.do(p.do(x.IsNaN()).Sum([]int{axis}, true))
		first := p.do(count.RSubScalar(float64(n)))
		middle := p.do(count.FullLike(float64((n - 1) / 2)))
		if p.err != nil {
			return nil
		}
		return p.do(order.Gather(axis, p.do(Where(p.do(count.GtScalar(0)), first, middle))))
	})
}

// NanMedianDim is MedianDim of the elements that are not NaN, and NaN if all are.
func (t *Tensor) NanMedianDim(dim int, keep bool) (values, indices *Tensor, err error) {
	return t.ranked("NanMedianDim", dim, keep, func(p *parts, x, order *Tensor, axis int) *Tensor {
		n := x.Dim(axis)
		count := p.do(p.do(p.do(x.IsNaN()).Sum([]int{axis}, true)).To(Float64))
		middle := p.do(p.do(p.do(count.RSubScalar(float64(n - 1))).MulScalar(0.5)).Floor())
		return p.do(order.Gather(axis, p.do(p.do(middle.Clamp(0, float64(n))).To(Int64))))
	})
}

// ranked is the elements that at chooses of those sorted along dim, by their indices with 1 element along the axis.
func (t *Tensor) ranked(name string, dim int, keep bool, at func(p *parts, x, order *Tensor, axis int) *Tensor) (values, indices *Tensor, err error) {
	axis, err := t.nonEmptyAxis(name, dim)
	if err != nil {
		return nil, nil, err
	}
	var p parts
	x := p.atLeastOne(t)
	_, order := p.both(x.Sort(axis, false))
	if p.err != nil {
		return nil, nil, p.release()
	}
	return p.chosen(t, x, axis, at(&p, x, order, axis), keep)
}

// nonEmptyAxis resolves a dimension that has elements.
func (t *Tensor) nonEmptyAxis(name string, dim int) (int, error) {
	if err := usable(name, t); err != nil {
		return 0, err
	}
	axis, err := t.layout.axis(name, dim)
	if err == nil && t.NDim() > 0 && t.Dim(axis) == 0 {
		err = shapeErr(name, []Shape{t.Shape()}, "dimension %d has no elements", dim)
	}
	return axis, err
}

// atLeastOne is t with at least one dimension.
func (p *parts) atLeastOne(t *Tensor) *Tensor {
	x := p.of(t)
	if t.NDim() == 0 {
		return p.do(x.Reshape(1))
	}
	return x
}

// chosen ends an operation whose results are elements of x, which is t, along axis, and their indices.
func (p *parts) chosen(t, x *Tensor, axis int, at *Tensor, keep bool) (values, indices *Tensor, err error) {
	if p.err != nil {
		return nil, nil, p.release()
	}
	values, indices = p.do(x.Gather(axis, at)), p.do(at.Clone())
	if p.err == nil && (!keep || t.NDim() == 0) {
		values, indices = p.do(values.Squeeze(axis)), p.do(indices.Squeeze(axis))
	}
	return p.results(t.exec, values, indices)
}

// results is result for two.
func (p *parts) results(e Exec, t, u *Tensor) (*Tensor, *Tensor, error) {
	defer p.release()
	if p.err != nil {
		return nil, nil, p.err
	}
	return t.On(e), u.On(e), nil
}

// ModeDim is the most frequent element along dim, the least of several, and the last index at which it is, as int64 (torch.mode). NaN counts as one
// number, which is greatest. The caller releases both. It sorts along dim.
func (t *Tensor) ModeDim(dim int, keep bool) (values, indices *Tensor, err error) {
	const name = "ModeDim"
	axis, err := t.nonEmptyAxis(name, dim)
	if err != nil {
		return nil, nil, err
	}
	var p parts
	x := p.atLeastOne(t)
	if p.err != nil {
		return nil, nil, p.release()
	}
	last := p.do(p.do(x.MoveDim(axis, -1)).Contiguous())
	if p.err != nil {
		return nil, nil, p.release()
	}
	sorted, order := p.both(last.Sort(-1, false))
	if p.err != nil {
		return nil, nil, p.release()
	}
	before, upTo := p.do(sorted.SearchSorted(sorted, false)), p.do(sorted.SearchSorted(sorted, true))
	if p.err != nil {
		return nil, nil, p.release()
	}
	longest := p.do(p.do(upTo.Sub(before)).ArgMax(-1, true))
	at := p.do(p.do(upTo.Gather(-1, longest)).SubScalar(1))
	return p.chosen(t, x, axis, p.do(p.do(order.Gather(-1, at)).MoveDim(-1, axis)), keep)
}

// CumMax is the greatest element so far along dim, NaN from the first one on, and its index, as int64: the last of several. The caller releases both. Not
// defined for bool. It goes over t as often as the dimension can be halved.
func (t *Tensor) CumMax(dim int) (values, indices *Tensor, err error) {
	return t.cumExtreme("CumMax", dim, (*Tensor).Ge)
}

// CumMin is the least element so far along dim and its index, with CumMax's rules.
func (t *Tensor) CumMin(dim int) (values, indices *Tensor, err error) {
	return t.cumExtreme("CumMin", dim, (*Tensor).Le)
}

// cumExtreme joins each element with what has been found d places before it, for d of 1, 2, 4 and so on; holds says that a later one is preferred.
func (t *Tensor) cumExtreme(name string, dim int, holds func(t, u *Tensor) (*Tensor, error)) (values, indices *Tensor, err error) {
	if err := usable(name, t); err != nil {
		return nil, nil, err
	}
	axis, err := t.layout.axis(name, dim)
	if err != nil {
		return nil, nil, err
	}
	if t.dtype == Bool {
		return nil, nil, dtypeErr(name, "bools have no order", t.dtype)
	}
	var p parts
	x := p.atLeastOne(t)
	if p.err != nil {
		return nil, nil, p.release()
	}
	n, shape := x.Dim(axis), slicesOfOne(x.NDim())
	shape[axis] = n
	line := p.do(p.do(Arange(x.exec, 0, float64(n), 1, Int64)).Reshape(shape...))
	values, indices = p.do(x.Clone()), p.do(p.do(line.Expand(x.Shape()...)).Contiguous())
	for d := 1; d < n && p.err == nil; d *= 2 {
		values, indices = p.prefer(values, indices, axis, d, holds)
	}
	if p.err == nil && t.NDim() == 0 {
		values, indices = p.do(values.Reshape()), p.do(indices.Reshape())
	}
	return p.results(t.exec, values, indices)
}

func slicesOfOne(n int) Shape {
	shape := make(Shape, n)
	for i := range shape {
		shape[i] = 1
	}
	return shape
}

// prefer is a step of cumExtreme. What it took besides its results is given back.
func (p *parts) prefer(values, indices *Tensor, axis, d int, holds func(t, u *Tensor) (*Tensor, error)) (*Tensor, *Tensor) {
	var q parts
	cut := func(t *Tensor) (first, earlier, later *Tensor) {
		n := t.Dim(axis) - d
		return q.do(t.Narrow(axis, 0, d)), q.do(t.Narrow(axis, 0, n)), q.do(t.Narrow(axis, d, n))
	}
	first, earlier, later := cut(values)
	at, before, after := cut(indices)
	if q.err != nil {
		return p.both(nil, nil, q.release())
	}
	stays := q.do(holds(later, earlier))
	nan := q.do(later.Ne(later))
	if q.err != nil {
		return p.both(nil, nil, q.release())
	}
	stays = q.do(stays.Or(nan))
	values = q.do(Cat([]*Tensor{first, q.do(Where(stays, later, earlier))}, axis))
	indices = q.do(Cat([]*Tensor{at, q.do(Where(stays, after, before))}, axis))
	return p.both(q.results(p.temps[0].exec, values, indices))
}
