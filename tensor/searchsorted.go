package tensor

// SearchSorted finds where each of values would be put into t so that it stays sorted: t is ascending along its last dimension, and the
// result, int64 and of values' shape, says before which element. Equal elements come after it, or before it if right is set. t has one
// dimension, or those of values but for the last one; both have one type. NaN is greater than all numbers.
//
// It is made of sorts and scatters, which the host does not wait for, and takes memory for some int64 numbers for each element of both.
func (t *Tensor) SearchSorted(values *Tensor, right bool) (*Tensor, error) {
	return searchSorted("SearchSorted", t, values, right)
}

// Bucketize finds, for each element of t, which of the ascending boundaries, of one dimension, it lies before: SearchSorted with t as the
// values.
func (t *Tensor) Bucketize(boundaries *Tensor, right bool) (*Tensor, error) {
	const name = "Bucketize"
	if err := usable(name, t, boundaries); err != nil {
		return nil, err
	}
	if boundaries.NDim() != 1 {
		return nil, shapeErr(name, []Shape{t.Shape(), boundaries.Shape()}, "boundaries have one dimension")
	}
	if t.dtype != boundaries.dtype {
		return nil, dtypeErr(name, "both must have one type", t.dtype, boundaries.dtype)
	}
	return searchSorted(name, boundaries, t, right)
}

func searchSorted(name string, t, values *Tensor, right bool) (*Tensor, error) {
	if err := searchable(name, t, values); err != nil {
		return nil, err
	}
	var p parts
	row, x := p.of(t), p.of(values)
	if t.NDim() == 1 {
		x = p.do(x.Reshape(values.Len()))
	}
	places := p.places(row, x, right)
	return p.result(values.exec, p.do(places.Reshape(values.Shape()...)))
}

func searchable(name string, t, values *Tensor) error {
	if err := together(name, t, values); err != nil {
		return err
	}
	if t.dtype != values.dtype {
		return dtypeErr(name, "both must have one type", t.dtype, values.dtype)
	}
	n, shapes := t.NDim(), []Shape{t.Shape(), values.Shape()}
	switch {
	case n == 0:
		return shapeErr(name, shapes, "the sorted elements have at least one dimension")
	case n > 1 && (values.NDim() != n || !t.Shape()[:n-1].Equal(values.Shape()[:n-1])):
		return shapeErr(name, shapes, "all dimensions but the last must be the same")
	}
	return nil
}

// places is SearchSorted for operands whose dimensions before the last are the same. The rank of a value among all elements of both, less its
// rank among the values, is how many elements are before it: which of two equal ones is first decides their order in what is sorted.
func (p *parts) places(row, x *Tensor, right bool) *Tensor {
	if row == nil || x == nil {
		return nil
	}
	n, m := row.Dim(-1), x.Dim(-1)
	all, at := []*Tensor{x, row}, 0
	if right {
		all, at = []*Tensor{row, x}, n
	}
	among := p.do(p.ranks(p.do(Cat(all, -1))).Narrow(-1, at, m))
	return p.do(among.Sub(p.ranks(x)))
}

// ranks says at which place along the last dimension each element comes when they are sorted.
func (p *parts) ranks(t *Tensor) *Tensor { return p.inverse(p.do(t.ArgSort(-1, false))) }

// inverse is the inverse of permutations along the last dimension.
func (p *parts) inverse(order *Tensor) *Tensor {
	if order == nil {
		return nil
	}
	line := p.do(Arange(order.exec, 0, float64(order.Dim(-1)), 1, Int64))
	return p.do(order.Scatter(-1, order, p.do(line.Expand(order.Shape()...))))
}
