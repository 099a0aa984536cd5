package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// IndexSelect takes the slices of t along dim that idx names, in its order: idx is int64 or int32, of one dimension (or a
// scalar). An index outside the dimension makes the work fail on the device, which the next wait reports.
func (t *Tensor) IndexSelect(dim int, idx *Tensor) (*Tensor, error) {
	const name = "IndexSelect"
	if err := together(name, t, idx); err != nil {
		return nil, err
	}
	axis, err := t.layout.axis(name, dim)
	if err != nil {
		return nil, err
	}
	wide, at, err := indices(name, t, idx)
	if err != nil {
		return nil, err
	}
	defer drop(wide, idx)
	if t.NDim() == 0 && at.len() != 1 {
		return nil, shapeErr(name, []Shape{t.Shape(), idx.Shape()}, "a scalar takes one index")
	}
	src := t.layout
	if src.ndim == 0 {
		src.insert(0, 1, 1)
	}
	shape := src.shape
	shape[axis] = at.shape[0]
	l, err := newLayout(name, shape[:src.ndim])
	if err != nil {
		return nil, err
	}
	r, err := alloc(name, t.exec, t.dtype, &l)
	if err != nil {
		return nil, err
	}
	if err := indexed(name, op.IndexSelect, r, t, &src, wide, &at, axis); err != nil {
		r.Release()
		return nil, err
	}
	if t.NDim() == 0 {
		r.layout.drop(0)
	}
	return r, nil
}

// indices gives idx the type and the layout that the kernels want: int64, one dimension.
func indices(name string, t, idx *Tensor) (*Tensor, layout, error) {
	if idx.dtype != Int64 && idx.dtype != Int32 {
		return nil, layout{}, dtypeErr(name, "indices are int64 or int32", t.dtype, idx.dtype)
	}
	if idx.NDim() > 1 {
		return nil, layout{}, shapeErr(name, []Shape{t.Shape(), idx.Shape()}, "indices have one dimension")
	}
	wide, err := idx.as(name, Int64, t.exec)
	if err != nil {
		return nil, layout{}, err
	}
	at := wide.layout
	if at.ndim == 0 {
		at.insert(0, 1, 1)
	}
	return wide, at, nil
}

func indexed(name string, id op.ID, dst, a *Tensor, la *layout, idx *Tensor, at *layout, axis int) error {
	if la.len() == 0 && dst.Len() > 0 && at.len() > 0 {
		return shapeErr(name, []Shape{la.dims(), idx.Shape()}, "there is nothing to index")
	}
	if dst.Len() == 0 || la.len() == 0 {
		return nil
	}
	out := dst.layout
	if out.ndim == 0 {
		out.insert(0, 1, 1)
	}
	c := begin(id, dst.exec)
	c.call.I[0] = int64(axis)
	c.out(dst, &out)
	c.in(a, la)
	c.in(idx, at)
	return c.run(name)
}

// IndexAdd adds slice i of src, along dim, to slice idx[i] of t, in place, in the order of i. t and src have one
// floating-point type, and src has t's shape but for dim, where it has as many as there are indices.
func (t *Tensor) IndexAdd(dim int, idx, src *Tensor) error {
	const name = "IndexAdd"
	axis, err := indexAddAxis(name, t, dim, idx, src)
	if err != nil {
		return err
	}
	wide, at, err := indices(name, t, idx)
	if err != nil {
		return err
	}
	defer drop(wide, idx)
	to, from := t.layout, src.layout
	if to.ndim == 0 && from.ndim == 0 {
		to.insert(0, 1, 1)
		from.insert(0, 1, 1)
	}
	to.shape[axis] = at.shape[0]
	if !to.dims().Equal(from.dims()) {
		return shapeErr(name, []Shape{t.Shape(), idx.Shape(), src.Shape()}, "the source does not fit destination and indices")
	}
	x := src
	if src.overlaps(t) { // unlike element-wise operations, not even the very same elements are safe
		if x, err = src.convert(name, src.dtype, t.exec.Owned()); err != nil {
			return err
		}
		defer x.Release()
		from = from.packed()
	}
	t.storage.changed()
	return indexed(name, op.IndexAdd, t, x, &from, wide, &at, axis)
}

// indexAddAxis checks all of IndexAdd's operands but their shapes, and resolves the dimension.
func indexAddAxis(name string, t *Tensor, dim int, idx, src *Tensor) (int, error) {
	if err := together(name, t, idx, src); err != nil {
		return 0, err
	}
	if t.dtype != src.dtype || !t.dtype.IsFloat() {
		return 0, dtypeErr(name, "destination and source must have one floating-point type", t.dtype, src.dtype)
	}
	if err := t.writable(name); err != nil {
		return 0, err
	}
	return t.layout.axis(name, dim)
}
