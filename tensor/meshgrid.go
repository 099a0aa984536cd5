package tensor

// MeshGrid gives each tensor of ts, of one dimension or none, a dimension of its own, and expands all of them to all dimensions: element
// [i, j, ..] of result k is element i, j, .. of ts[k]. xy exchanges the first two dimensions (PyTorch's indexing="xy"; "ij" is its
// default). All have one type. The results are views, which can be read but not written to.
func MeshGrid(ts []*Tensor, xy bool) ([]*Tensor, error) {
	const name = "MeshGrid"
	if err := meshable(name, ts); err != nil {
		return nil, err
	}
	shape := make([]int, len(ts))
	for i, t := range ts {
		shape[i] = t.Len()
	}
	grid, err := newLayout(name, shape)
	if err != nil {
		return nil, err
	}
	views := make([]*Tensor, len(ts))
	for i, t := range ts {
		l := grid
		for d := range l.ndim {
			l.strides[d] = 0
		}
		l.offset = t.layout.offset
		if t.NDim() == 1 {
			l.strides[i] = t.layout.strides[0]
		}
		if xy && len(ts) > 1 {
			l.swap(0, 1)
		}
		views[i] = t.handle(&l, t.exec)
	}
	return views, nil
}

func meshable(name string, ts []*Tensor) error {
	if len(ts) == 0 {
		return valueErr(name, "no tensors")
	}
	if err := together(name, ts...); err != nil {
		return err
	}
	for _, t := range ts {
		if t.NDim() > 1 {
			return shapeErr(name, []Shape{t.Shape()}, "the tensors have one dimension, or none")
		}
		if t.dtype != ts[0].dtype {
			return dtypeErr(name, "the tensors must have one type", ts[0].dtype, t.dtype)
		}
	}
	return nil
}
