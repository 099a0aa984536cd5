package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// Scatter is t with the elements of src put where idx says: element src[i, j, ..] goes to the same place but along dim, where it
// goes to idx[i, j, ..]. src has t's type; along no dimension are there more indices than elements of src, nor, but for dim, of
// t. Where several elements go to one place, the last one along dim wins (PyTorch leaves it open). An index outside the
// dimension makes the work fail on the device, which the next wait reports.
func (t *Tensor) Scatter(dim int, idx, src *Tensor) (*Tensor, error) {
	return t.copyAnd("Scatter", op.Scatter, dim, idx, src)
}

// ScatterAdd is Scatter with elements added to what is there, in the order in which they stand along dim: results are the
// same bits every time. Floating-point types.
func (t *Tensor) ScatterAdd(dim int, idx, src *Tensor) (*Tensor, error) {
	return t.copyAnd("ScatterAdd", op.ScatterAdd, dim, idx, src)
}

// copyAnd scatters into a copy of t.
func (t *Tensor) copyAnd(name string, id op.ID, dim int, idx, src *Tensor) (*Tensor, error) {
	if _, err := scatterOperands(name, id, t, dim, idx, src); err != nil {
		return nil, err
	}
	r, err := t.convert(name, t.dtype, t.exec)
	if err != nil {
		return nil, err
	}
	if err := r.scatterInPlace(name, id, dim, idx, src); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// ScatterValue is Scatter of copies of v.
func (t *Tensor) ScatterValue(dim int, idx *Tensor, v float64) (*Tensor, error) {
	const name = "ScatterValue"
	if _, err := elementIndices(name, t, dim, idx); err != nil {
		return nil, err
	}
	if err := fillable(name, t.dtype, v); err != nil {
		return nil, err
	}
	r, err := t.convert(name, t.dtype, t.exec)
	if err != nil {
		return nil, err
	}
	if err := r.scatterValue(name, dim, idx, v); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

func (t *Tensor) scatterValue(name string, dim int, idx *Tensor, v float64) error {
	one, err := full(name, t.exec.Owned(), v, t.dtype, &layout{})
	if err != nil {
		return err
	}
	defer one.Release()
	l, _ := one.layout.expanded(&idx.layout)
	src := one.handle(&l, one.exec)
	defer src.Release()
	return t.scatterInPlace(name, op.Scatter, dim, idx, src)
}

// ScatterInPlace is Scatter that changes t itself.
func (t *Tensor) ScatterInPlace(dim int, idx, src *Tensor) error {
	return t.scatterInPlace("ScatterInPlace", op.Scatter, dim, idx, src)
}

// ScatterAddInPlace is ScatterAdd that changes t itself.
func (t *Tensor) ScatterAddInPlace(dim int, idx, src *Tensor) error {
	return t.scatterInPlace("ScatterAddInPlace", op.ScatterAdd, dim, idx, src)
}

// scatterOperands checks the operands of the scattering operations, and resolves the dimension.
func scatterOperands(name string, id op.ID, t *Tensor, dim int, idx, src *Tensor) (int, error) {
	axis, err := elementIndices(name, t, dim, idx)
	if err != nil {
		return 0, err
	}
	if err := together(name, t, src); err != nil {
		return 0, err
	}
	if t.dtype != src.dtype {
		return 0, dtypeErr(name, "destination and source must have one type", t.dtype, src.dtype)
	}
	if id == op.ScatterAdd && !t.dtype.IsFloat() {
		return 0, dtypeErr(name, needsFloat, t.dtype, src.dtype)
	}
	shapes := []Shape{t.Shape(), idx.Shape(), src.Shape()}
	if src.NDim() != t.NDim() {
		return 0, shapeErr(name, shapes, "destination and source must have equally many dimensions")
	}
	for i, n := range idx.Shape() {
		if n > src.layout.shape[i] {
			return 0, shapeErr(name, shapes, "there are more indices than elements of the source along dimension %d", i)
		}
	}
	if t.Len() == 0 && idx.Len() > 0 {
		return 0, shapeErr(name, shapes, "there is nothing to index")
	}
	return axis, nil
}

// scatterInPlace changes t, by way of a copy if it is not contiguous. What shares memory with it is copied first.
func (t *Tensor) scatterInPlace(name string, id op.ID, dim int, idx, src *Tensor) error {
	axis, err := scatterOperands(name, id, t, dim, idx, src)
	if err != nil {
		return err
	}
	if err := t.writable(name); err != nil {
		return err
	}
	if idx.Len() == 0 {
		return nil
	}
	places, err := idx.clearOf(name, t, Int64)
	if err != nil {
		return err
	}
	defer drop(places, idx)
	x, err := src.clearOf(name, t, src.dtype)
	if err != nil {
		return err
	}
	defer drop(x, src)
	dst, err := t.packedAs(name, t.dtype, t.exec)
	if err != nil {
		return err
	}
	defer drop(dst, t)
	from := x.layout
	from.shape = places.layout.shape // the first of the source's elements
	t.storage.changed()
	if err := dst.byElements(name, id, dst, &dst.layout, &from, x, places, axis); err != nil || dst == t {
		return err
	}
	return t.write(name, &t.layout, dst, &dst.layout)
}

// clearOf returns u itself if it has type dt and shares no memory with t, which is going to change. Else it returns a temporary
// copy, which the caller gives back with drop(x, u).
func (u *Tensor) clearOf(name string, t *Tensor, dt DType) (*Tensor, error) {
	if u.dtype == dt && !u.overlaps(t) {
		return u, nil
	}
	return u.convert(name, dt, t.exec.Owned())
}
