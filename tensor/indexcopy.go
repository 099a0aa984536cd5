package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// IndexCopy is t with slice i of src, along dim, in the place of slice idx[i]: of several for one place the last wins. idx is int64 or int32, of
// one dimension; src has t's type, and t's shape but for dim, where it has as many as there are indices.
func (t *Tensor) IndexCopy(dim int, idx, src *Tensor) (*Tensor, error) {
	axis, err := indexCopyAxis("IndexCopy", t, dim, idx, src)
	if err != nil {
		return nil, err
	}
	var p parts
	x, at := p.of(t), p.spread(p.of(idx), axis, src.Shape())
	return p.result(t.exec, p.do(x.Scatter(axis, at, p.of(src))))
}

// IndexCopyInPlace is IndexCopy that changes t itself: a batch that is written into a ring buffer moves no other rows of it.
func (t *Tensor) IndexCopyInPlace(dim int, idx, src *Tensor) error {
	const name = "IndexCopyInPlace"
	axis, err := indexCopyAxis(name, t, dim, idx, src)
	if err != nil {
		return err
	}
	if err := t.writable(name); err != nil {
		return err
	}
	var p parts
	at, x := p.spread(p.of(idx), axis, src.Shape()), p.of(src)
	if p.err == nil {
		p.note(t.scatterInPlace(name, op.Scatter, axis, at, x))
	}
	return p.release()
}

// indexCopyAxis checks IndexCopy's operands, and resolves the dimension.
func indexCopyAxis(name string, t *Tensor, dim int, idx, src *Tensor) (int, error) {
	if err := together(name, t, idx, src); err != nil {
		return 0, err
	}
	if t.dtype != src.dtype {
		return 0, dtypeErr(name, "destination and source must have one type", t.dtype, src.dtype)
	}
	axis, slices, err := slicesFor(name, t, dim, idx)
	if err != nil {
		return 0, err
	}
	if !src.Shape().Equal(slices) {
		return 0, shapeErr(name, []Shape{t.Shape(), idx.Shape(), src.Shape()}, "the source does not fit destination and indices")
	}
	return axis, nil
}

// IndexFill is t with value in all elements of the slices along dim that idx, int64 or int32 and of one dimension, names. Negative indices count
// from the end.
func (t *Tensor) IndexFill(dim int, idx *Tensor, value float64) (*Tensor, error) {
	const name = "IndexFill"
	if err := together(name, t, idx); err != nil {
		return nil, err
	}
	axis, slices, err := slicesFor(name, t, dim, idx)
	if err != nil {
		return nil, err
	}
	if err := fillable(name, t.dtype, value); err != nil {
		return nil, err
	}
	n := 1
	if t.NDim() > 0 {
		n = t.Dim(axis)
	}
	var p parts
	at := p.spread(p.fromStart(p.of(idx), n), axis, slices)
	return p.result(t.exec, p.do(p.of(t).ScatterValue(axis, at, value)))
}

// slicesFor resolves a dimension of t, and gives the shape of the slices along it that idx names.
func slicesFor(name string, t *Tensor, dim int, idx *Tensor) (axis int, shape Shape, err error) {
	if axis, err = t.layout.axis(name, dim); err != nil {
		return 0, nil, err
	}
	if err := checkIndices(name, t, idx); err != nil {
		return 0, nil, err
	}
	shape = t.Shape().Clone()
	shapes := []Shape{t.Shape(), idx.Shape()}
	switch {
	case t.NDim() == 0 && idx.Len() != 1:
		return 0, nil, shapeErr(name, shapes, "a scalar takes one index")
	case t.Len() == 0 && idx.Len() > 0:
		return 0, nil, shapeErr(name, shapes, "there is nothing to index")
	case t.NDim() > 0:
		shape[axis] = idx.Len()
	}
	_, err = newLayout(name, shape)
	return axis, shape, err
}

// spread is an index for each element of slices, by an index for each slice.
func (p *parts) spread(idx *Tensor, axis int, slices Shape) *Tensor {
	own := make([]int, len(slices))
	for d := range own {
		own[d] = 1
	}
	if len(own) > 0 {
		own[axis] = slices[axis]
	}
	return p.do(p.do(idx.Reshape(own...)).Expand(slices...))
}

// fromStart counts negative indices from the end of a dimension of n, as int64.
func (p *parts) fromStart(idx *Tensor, n int) *Tensor {
	idx = p.do(idx.To(Int64))
	return p.do(Where(p.do(idx.LtScalar(0)), p.do(idx.AddScalar(float64(n))), idx))
}
