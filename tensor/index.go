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
	src, l, err := selectLayout(name, t, axis, idx)
	if err != nil {
		return nil, err
	}
	wide, err := idx.as(name, Int64, t.exec)
	if err != nil {
		return nil, err
	}
	defer drop(wide, idx)
	r, err := alloc(name, t.exec, t.dtype, &l)
	if err != nil {
		return nil, err
	}
	if err := indexed(name, op.IndexSelect, r, t, &src, wide, axis); err != nil {
		r.Release()
		return nil, err
	}
	if t.NDim() == 0 {
		r.layout.drop(0)
	}
	return r, nil
}

// selectLayout is the layout of t, of one dimension if it is a scalar, and that of what IndexSelect takes from it.
func selectLayout(name string, t *Tensor, axis int, idx *Tensor) (src, out layout, err error) {
	if err := checkIndices(name, t, idx); err != nil {
		return src, out, err
	}
	src = t.layout
	if src.ndim == 0 {
		src.insert(0, 1, 1)
	}
	switch shapes := []Shape{t.Shape(), idx.Shape()}; {
	case t.NDim() == 0 && idx.Len() != 1:
		return src, out, shapeErr(name, shapes, "a scalar takes one index")
	case src.shape[axis] == 0 && idx.Len() > 0:
		return src, out, shapeErr(name, shapes, "there is nothing to index")
	}
	shape := src.shape
	shape[axis] = idx.Len()
	out, err = newLayout(name, shape[:src.ndim])
	return src, out, err
}

// checkIndices refuses what cannot be the indices of an operation on t.
func checkIndices(name string, t, idx *Tensor) error {
	if idx.dtype != Int64 && idx.dtype != Int32 {
		return dtypeErr(name, "indices are int64 or int32", idx.dtype)
	}
	if idx.NDim() > 1 {
		return shapeErr(name, []Shape{t.Shape(), idx.Shape()}, "indices have one dimension")
	}
	return nil
}

// indexed launches an operation of dst, a under layout la, and int64 indices. Scalars are given one dimension.
func indexed(name string, id op.ID, dst, a *Tensor, la *layout, idx *Tensor, axis int) error {
	if dst.Len() == 0 || la.len() == 0 {
		return nil
	}
	out, at := dst.layout, idx.layout
	if out.ndim == 0 {
		out.insert(0, 1, 1)
	}
	if at.ndim == 0 {
		at.insert(0, 1, 1)
	}
	c := begin(id, dst.exec)
	c.call.I[0] = int64(axis)
	c.out(dst, &out)
	c.in(a, la)
	c.in(idx, &at)
	return c.run(name)
}

// IndexAdd is t with slice i of src, along dim, added to slice idx[i], in the order of i. t and src have one floating-point type, and src has t's
// shape but for dim, where it has as many as there are indices.
func (t *Tensor) IndexAdd(dim int, idx, src *Tensor) (*Tensor, error) {
	const name = "IndexAdd"
	if _, _, err := indexAddOperands(name, t, dim, idx, src); err != nil {
		return nil, err
	}
	r, err := t.convert(name, t.dtype, t.exec)
	if err != nil {
		return nil, err
	}
	if err := r.indexAddInPlace(name, dim, idx, src); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// IndexAddInPlace is IndexAdd that changes t itself.
func (t *Tensor) IndexAddInPlace(dim int, idx, src *Tensor) error {
	return t.indexAddInPlace("IndexAddInPlace", dim, idx, src)
}

func (t *Tensor) indexAddInPlace(name string, dim int, idx, src *Tensor) error {
	axis, from, err := indexAddOperands(name, t, dim, idx, src)
	if err != nil {
		return err
	}
	if err := t.writable(name); err != nil {
		return err
	}
	wide, err := idx.as(name, Int64, t.exec)
	if err != nil {
		return err
	}
	defer drop(wide, idx)
	x := src
	if src.overlaps(t) { // unlike element-wise operations, not even the very same elements are safe
		if x, err = src.convert(name, src.dtype, t.exec.Owned()); err != nil {
			return err
		}
		defer x.Release()
		from = from.packed()
	}
	t.storage.changed()
	return indexed(name, op.IndexAdd, t, x, &from, wide, axis)
}

// indexAddOperands checks IndexAdd's operands, resolves the dimension, and gives the layout of the source, of one dimension if it is a scalar.
func indexAddOperands(name string, t *Tensor, dim int, idx, src *Tensor) (axis int, from layout, err error) {
	if err := together(name, t, idx, src); err != nil {
		return 0, from, err
	}
	if t.dtype != src.dtype || !t.dtype.IsFloat() {
		return 0, from, dtypeErr(name, "destination and source must have one floating-point type", t.dtype, src.dtype)
	}
	if err := checkIndices(name, t, idx); err != nil {
		return 0, from, err
	}
	if axis, err = t.layout.axis(name, dim); err != nil {
		return 0, from, err
	}
	to := t.layout
	from = src.layout
	if to.ndim == 0 && from.ndim == 0 {
		to.insert(0, 1, 1)
		from.insert(0, 1, 1)
	}
	shapes := []Shape{t.Shape(), idx.Shape(), src.Shape()}
	if to.shape[axis] == 0 && idx.Len() > 0 {
		return 0, from, shapeErr(name, shapes, "there is nothing to index")
	}
	to.shape[axis] = idx.Len()
	if !to.dims().Equal(from.dims()) {
		return 0, from, shapeErr(name, shapes, "the source does not fit destination and indices")
	}
	return axis, from, nil
}
