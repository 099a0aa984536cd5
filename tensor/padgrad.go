package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// Pad is the gradient of Tensor.Pad for the gradient t of its result: t without the borders, with what the borders have added to where
// their elements came from. With PadConstant it is a view of t, unless elements had been cut off.
func (gradients) Pad(t *Tensor, pad []int, mode PadMode) (*Tensor, error) {
	const name = "PadGrad"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if !t.dtype.IsFloat() {
		return nil, dtypeErr(name, needsFloat, t.dtype)
	}
	if wide, cut := cutting(pad, mode); cut != nil {
		var p parts
		return p.result(t.exec, p.do(gradients{}.Pad(p.do(gradients{}.Pad(p.of(t), cut, PadConstant)), wide, mode)))
	}
	inner, b, err := t.unpadded(name, pad, mode)
	if err != nil {
		return nil, err
	}
	if mode == PadConstant {
		inner.packIn(t.layout.format())
		return t.padConstantGrad(name, b, &inner)
	}
	r, err := t.convert(name, t.dtype, t.exec)
	if err != nil {
		return nil, err
	}
	for d := r.layout.ndim - 1; d >= 0; d-- {
		l := b.window(r.layout, d+1, r.layout.ndim)
		for _, s := range b.sides(l, d, mode) {
			if err := r.fold(name, s, d, mode); err != nil {
				r.Release()
				return nil, err
			}
		}
	}
	r.layout = b.window(r.layout, 0, r.layout.ndim)
	return r, nil
}

// unpadded is the layout of what Pad made t's shape of, and the borders.
func (t *Tensor) unpadded(name string, pad []int, mode PadMode) (inner layout, b borders, err error) {
	inner = t.layout
	if len(pad)/2 > inner.ndim {
		return inner, b, shapeErr(name, []Shape{t.Shape()}, "pad is %v; it has two numbers for each of the last dimensions", pad)
	}
	for k := 0; k+1 < len(pad); k += 2 {
		inner.shape[inner.ndim-1-k/2] -= pad[k] + pad[k+1]
	}
	if inner, err = newLayout(name, inner.dims()); err != nil {
		return inner, b, err
	}
	b, err = bordersOf(name, &inner, pad, mode)
	return inner, b, err
}

func (t *Tensor) padConstantGrad(name string, b borders, inner *layout) (*Tensor, error) {
	from, to := b.overlap(t.layout, *inner)
	if to.dims().Equal(inner.dims()) {
		return t.handle(&from, t.exec), nil
	}
	r, err := full(name, t.exec, 0, t.dtype, inner)
	if err != nil {
		return nil, err
	}
	if err := r.write(name, &to, t, &from); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// fold adds a border to where its elements came from. The elements of an edge that was repeated are summed first.
func (r *Tensor) fold(name string, s side, d int, mode PadMode) error {
	if s.border.len() == 0 {
		return nil
	}
	c, border := begin(op.Add, r.exec), r
	if mode == PadReplicate {
		var set axes
		set[d] = true
		sum, err := r.under(s.border).reduceAxes(name, op.Sum, r.dtype, r.exec.Owned(), set, true, 0)
		if err != nil {
			c.recycle()
			return err
		}
		defer sum.Release()
		border, s.border = sum, sum.layout
		s.source.shape[d] = 1
	}
	c.scalars(numbers(r.dtype, 1))
	c.out(r, &s.source)
	c.in(r, &s.source)
	c.in(border, &s.border)
	return c.run(name)
}
