package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// Gather takes, for each element of idx, the element of t at the same place but along dim, where it is at the index: idx, of
// int64 or int32, has as many dimensions as t, and no more elements than t along those other than dim. The result has idx's
// shape. An index outside the dimension makes the work fail on the device, which the next wait reports.
func (t *Tensor) Gather(dim int, idx *Tensor) (*Tensor, error) {
	return t.gather("Gather", dim, idx)
}

func (t *Tensor) gather(name string, dim int, idx *Tensor) (*Tensor, error) {
	axis, err := elementIndices(name, t, dim, idx)
	if err != nil {
		return nil, err
	}
	if t.Len() == 0 && idx.Len() > 0 {
		return nil, shapeErr(name, []Shape{t.Shape(), idx.Shape()}, "there is nothing to index")
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
	if err := t.byElements(name, op.Gather, r, &r.layout, &t.layout, t, wide, axis); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// elementIndices checks the operands of Gather and Scatter, and resolves the dimension.
func elementIndices(name string, t *Tensor, dim int, idx *Tensor) (int, error) {
	if err := together(name, t, idx); err != nil {
		return 0, err
	}
	axis, err := t.layout.axis(name, dim)
	if err != nil {
		return 0, err
	}
	if idx.dtype != Int64 && idx.dtype != Int32 {
		return 0, dtypeErr(name, "indices are int64 or int32", t.dtype, idx.dtype)
	}
	shapes := []Shape{t.Shape(), idx.Shape()}
	if idx.NDim() != t.NDim() {
		return 0, shapeErr(name, shapes, "tensor and indices must have equally many dimensions")
	}
	for i, n := range idx.Shape() {
		if i != axis && n > t.layout.shape[i] {
			return 0, shapeErr(name, shapes, "there are more indices than elements along dimension %d", i)
		}
	}
	return axis, nil
}

// byElements launches an operation with an index for each element. Scalars are given one dimension.
func (t *Tensor) byElements(name string, id op.ID, dst *Tensor, out, in *layout, a, idx *Tensor, axis int) error {
	c := begin(id, t.exec)
	c.call.I[0] = int64(axis)
	to, from, at := *out, *in, idx.layout
	for _, l := range []*layout{&to, &from, &at} {
		if l.ndim == 0 {
			l.insert(0, 1, 1)
		}
	}
	c.out(dst, &to)
	c.in(a, &from)
	c.in(idx, &at)
	return c.run(name)
}

// TakeAlongDim is Gather with t and idx broadcast to each other in all dimensions but dim (torch.take_along_dim).
func (t *Tensor) TakeAlongDim(idx *Tensor, dim int) (*Tensor, error) {
	const name = "TakeAlongDim"
	if err := together(name, t, idx); err != nil {
		return nil, err
	}
	axis, err := t.layout.axis(name, dim)
	if err != nil {
		return nil, err
	}
	if idx.NDim() != t.NDim() {
		return nil, shapeErr(name, []Shape{t.Shape(), idx.Shape()}, "tensor and indices must have equally many dimensions")
	}
	from, at := t.layout, idx.layout
	for i := range t.NDim() {
		n := from.shape[i]
		if n == 1 {
			n = at.shape[i]
		}
		if i != axis && (!from.stretch(i, n) || !at.stretch(i, n)) {
			return nil, shapeErr(name, []Shape{t.Shape(), idx.Shape()}, "the shapes do not broadcast along dimension %d", i)
		}
	}
	src, places := t.handle(&from, t.exec), idx.handle(&at, idx.exec)
	defer src.Release()
	defer places.Release()
	return src.gather(name, axis, places)
}

// stretch broadcasts dimension i to n elements, if it has one or n.
func (l *layout) stretch(i, n int) bool {
	if l.shape[i] == 1 && n != 1 {
		l.shape[i], l.strides[i] = n, 0
	}
	return l.shape[i] == n
}

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

// scatterInPlace changes t, by way of a copy if it is not contiguous.
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
	places := idx
	if idx.overlaps(t) {
		if places, err = idx.convert(name, Int64, t.exec.Owned()); err != nil {
			return err
		}
		defer places.Release()
	}
	wide, err := places.as(name, Int64, t.exec)
	if err != nil {
		return err
	}
	defer drop(wide, places)
	x := src
	if src.overlaps(t) {
		if x, err = src.convert(name, src.dtype, t.exec.Owned()); err != nil {
			return err
		}
		defer x.Release()
	}
	dst, err := t.packedAs(name, t.dtype, t.exec)
	if err != nil {
		return err
	}
	defer drop(dst, t)
	from := x.layout
	from.shape = wide.layout.shape // the first of the source's elements
	t.storage.changed()
	if err := dst.byElements(name, id, dst, &dst.layout, &from, x, wide, axis); err != nil || dst == t {
		return err
	}
	return t.write(name, &t.layout, dst, &dst.layout)
}

// MaskedFill is v where mask, of type bool and broadcast with t, holds, else t. v is converted to t's type.
func (t *Tensor) MaskedFill(mask *Tensor, v float64) (*Tensor, error) {
	const name = "MaskedFill"
	if err := together(name, t, mask); err != nil {
		return nil, err
	}
	if mask.dtype != Bool {
		return nil, dtypeErr(name, "the mask is bool", t.dtype, mask.dtype)
	}
	l, err := broadcastLayout(name, t, mask)
	if err != nil {
		return nil, err
	}
	one, err := full(name, t.exec.Owned(), v, t.dtype, &layout{})
	if err != nil {
		return nil, err
	}
	defer one.Release()
	return pointwise(name, op.Where, t.exec, t.dtype, &l, scalars{}, mask, one, t)
}

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
	m, err := t.Max(nil, false)
	if err != nil {
		return 0, err
	}
	defer m.Release()
	v, err := m.Item()
	return int(v) + 1, err
}
