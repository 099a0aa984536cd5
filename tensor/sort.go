package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// Sort puts the elements along dim in ascending order, or descending, and tells where each was, as int64. Equal elements keep their
// order (PyTorch's stable=True); NaN is greater than all numbers. The caller releases both results.
func (t *Tensor) Sort(dim int, descending bool) (values, indices *Tensor, err error) {
	return t.sorted("Sort", op.Sort, -1, dim, descending)
}

// ArgSort is the indices of Sort.
func (t *Tensor) ArgSort(dim int, descending bool) (*Tensor, error) {
	values, indices, err := t.sorted("ArgSort", op.Sort, -1, dim, descending)
	values.Release()
	return indices, err
}

// TopK is the k greatest elements along dim, or the least ones, in descending (ascending) order, and where they are, as int64. Of equal
// elements those that stand first are taken; NaN is greater than all numbers. The caller releases both results.
func (t *Tensor) TopK(k, dim int, largest bool) (values, indices *Tensor, err error) {
	const name = "TopK"
	if err := usable(name, t); err != nil {
		return nil, nil, err
	}
	axis, err := t.layout.axis(name, dim)
	if err != nil {
		return nil, nil, err
	}
	if n := t.layout.rows(axis).shape[max(t.NDim(), 1)-1]; k < 0 || k > n {
		return nil, nil, shapeErr(name, []Shape{t.Shape()}, "k is %d; dimension %d has %d elements", k, dim, n)
	}
	return t.sorted(name, op.TopK, k, dim, largest)
}

// sorted runs Sort or TopK, which keeps k elements; -1 keeps all.
func (t *Tensor) sorted(name string, id op.ID, k, dim int, descending bool) (values, indices *Tensor, err error) {
	if err := usable(name, t); err != nil {
		return nil, nil, err
	}
	axis, err := t.layout.axis(name, dim)
	if err != nil {
		return nil, nil, err
	}
	out := t.layout
	if k >= 0 && out.ndim > 0 {
		out.shape[axis] = k
	}
	out.pack()
	if values, err = alloc(name, t.exec, t.dtype, &out); err != nil {
		return nil, nil, err
	}
	if indices, err = alloc(name, t.exec, Int64, &out); err != nil {
		values.Release()
		return nil, nil, err
	}
	if out.len() == 0 {
		return values, indices, nil
	}
	c := begin(id, t.exec)
	if descending {
		c.call.I[0] = 1
	}
	to, from := out.rows(axis), t.layout.rows(axis)
	if k >= 0 {
		to.shape[to.ndim-1] = k
	}
	c.out(values, &to)
	c.out(indices, &to)
	c.in(t, &from)
	if err := c.run(name); err != nil {
		values.Release()
		indices.Release()
		return nil, nil, err
	}
	return values, indices, nil
}

// Gather takes, for each element of idx, the element of t that it names along dim: the result has idx's shape, and its element
// [i][j][k] is t[idx[i][j][k]][j][k] for dim 0. idx is int64 or int32, has as many dimensions as t, and is not larger in the others.
// An index outside the dimension makes the work fail on the device, which the next wait reports.
func (t *Tensor) Gather(dim int, idx *Tensor) (*Tensor, error) { return t.gather("Gather", dim, idx) }

func (t *Tensor) gather(name string, dim int, idx *Tensor) (*Tensor, error) {
	axis, err := checkAlong(name, t, dim, idx)
	if err != nil {
		return nil, err
	}
	wide, err := idx.as(name, Int64, t.exec)
	if err != nil {
		return nil, err
	}
	defer drop(wide, idx)
	r, err := alloc(name, t.exec, t.dtype, &idx.layout)
	if err != nil || r.Len() == 0 {
		return r, err
	}
	if err := runAlong(name, op.Gather, r, t, wide, axis); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// ScatterInPlace writes each element of src to the element of t that idx names along dim: t[idx[i][j][k]][j][k] = src[i][j][k] for
// dim 0. idx and src have one shape, with Gather's rules; t and src have one type. Where indices name an element twice, it is open
// which is written last.
func (t *Tensor) ScatterInPlace(dim int, idx, src *Tensor) error {
	const name = "ScatterInPlace"
	if err := together(name, t, idx, src); err != nil {
		return err
	}
	if t.dtype != src.dtype {
		return dtypeErr(name, "destination and source must have one type", t.dtype, src.dtype)
	}
	if err := t.writable(name); err != nil {
		return err
	}
	axis, err := checkAlong(name, t, dim, idx)
	if err != nil {
		return err
	}
	if !idx.Shape().Equal(src.Shape()) {
		return shapeErr(name, []Shape{t.Shape(), idx.Shape(), src.Shape()}, "indices and source differ in shape")
	}
	wide, err := idx.as(name, Int64, t.exec)
	if err != nil {
		return err
	}
	defer drop(wide, idx)
	x := src
	if src.overlaps(t) {
		if x, err = src.convert(name, src.dtype, t.exec.Owned()); err != nil {
			return err
		}
		defer x.Release()
	}
	t.storage.changed()
	if src.Len() == 0 {
		return nil
	}
	return runAlong(name, op.Scatter, t, x, wide, axis)
}

// checkAlong checks t and the indices of Gather and Scatter, and resolves the dimension.
func checkAlong(name string, t *Tensor, dim int, idx *Tensor) (int, error) {
	if err := together(name, t, idx); err != nil {
		return 0, err
	}
	if idx.dtype != Int64 && idx.dtype != Int32 {
		return 0, dtypeErr(name, "indices are int64 or int32", t.dtype, idx.dtype)
	}
	axis, err := t.layout.axis(name, dim)
	if err != nil {
		return 0, err
	}
	fits := idx.NDim() == t.NDim()
	for i := 0; fits && i < t.NDim(); i++ {
		fits = i == axis || idx.layout.shape[i] <= t.layout.shape[i]
	}
	if !fits {
		return 0, shapeErr(name, []Shape{t.Shape(), idx.Shape()}, "the indices do not fit outside dimension %d", dim)
	}
	return axis, nil
}

// runAlong launches Gather or Scatter. Scalars are given one dimension.
func runAlong(name string, id op.ID, dst, a, idx *Tensor, axis int) error {
	c := begin(id, dst.exec)
	c.call.I[0] = int64(axis)
	var ls [3]layout
	for i, t := range []*Tensor{dst, a, idx} {
		if ls[i] = t.layout; ls[i].ndim == 0 {
			ls[i].insert(0, 1, 1)
		}
	}
	c.out(dst, &ls[0])
	c.in(a, &ls[1])
	c.in(idx, &ls[2])
	return c.run(name)
}
