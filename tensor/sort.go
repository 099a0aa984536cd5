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
	if t.NDim() == 0 {
		k = 1 // a scalar is its own only element, also if none is asked for (as in PyTorch)
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
	out := t.layout.copied() // as in PyTorch: TopK's are row-major
	if k >= 0 {
		if out.ndim > 0 {
			out.shape[axis] = k
		}
		out.pack()
	}
	if values, err = allocAs(name, t.exec, t.dtype, &out); err != nil {
		return nil, nil, err
	}
	if indices, err = allocAs(name, t.exec, Int64, &out); err != nil {
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
