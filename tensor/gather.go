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
		return 0, dtypeErr(name, "indices are int64 or int32", idx.dtype)
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
