package tensor

import "math"

// IsClose tells of each pair of elements whether |t - u| is at most atol + rtol*|u|: infinities are close to themselves alone, NaN to nothing, or to NaN if
// equalNaN is set. The two broadcast and have one type. PyTorch's defaults are 1e-5, 1e-8 and false.
func (t *Tensor) IsClose(u *Tensor, rtol, atol float64, equalNaN bool) (*Tensor, error) {
	const name = "IsClose"
	if err := together(name, t, u); err != nil {
		return nil, err
	}
	if t.dtype != u.dtype {
		return nil, dtypeErr(name, "both must have one type", t.dtype, u.dtype)
	}
	if _, err := BroadcastShapes(t.Shape(), u.Shape()); err != nil {
		return nil, shapeErr(name, []Shape{t.Shape(), u.Shape()}, "shapes do not broadcast")
	}
	if !(rtol >= 0 && atol >= 0) || math.IsInf(rtol, 1) || math.IsInf(atol, 1) {
		return nil, valueErr(name, "tolerances are %v and %v; they are numbers of at least 0", rtol, atol)
	}
	var p parts
	a, b := p.of(t), p.of(u)
	if !t.dtype.IsFloat() {
		a, b = p.do(a.To(Float64)), p.do(b.To(Float64))
	}
	if p.err != nil {
		return nil, p.release()
	}
	close := p.do(a.Eq(b))
	off := p.do(p.do(a.Sub(b)).Abs())
	most := p.do(p.do(p.do(b.MulScalar(rtol)).Abs()).AddScalar(atol))
	if p.err != nil {
		return nil, p.release()
	}
	near := p.do(p.do(off.IsFinite()).And(p.do(off.Le(most))))
	close = p.do(close.Or(near))
	if equalNaN {
		close = p.do(close.Or(p.do(p.do(a.IsNaN()).And(p.do(b.IsNaN())))))
	}
	return p.result(t.exec, close)
}

// AllClose tells whether all elements are close, as IsClose says. It waits for the device.
func (t *Tensor) AllClose(u *Tensor, rtol, atol float64, equalNaN bool) (bool, error) {
	return everywhere(t.IsClose(u, rtol, atol, equalNaN))
}

// Equal tells whether both have one shape and the same elements, of one type; NaN equals nothing. It waits for the device.
func (t *Tensor) Equal(u *Tensor) (bool, error) {
	const name = "Equal"
	if err := together(name, t, u); err != nil {
		return false, err
	}
	if t.dtype != u.dtype {
		return false, dtypeErr(name, "both must have one type", t.dtype, u.dtype)
	}
	if !t.Shape().Equal(u.Shape()) {
		return false, nil
	}
	var p parts
	same, err := p.result(t.exec, p.do(p.of(t).Eq(p.of(u))))
	return everywhere(same, err)
}

// everywhere waits for a condition, which it takes over, and tells whether it holds for all elements.
func everywhere(cond *Tensor, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	var p parts
	all, err := p.result(cond.exec, p.do(p.do(cond, nil).All(nil, false)))
	if err != nil {
		return false, err
	}
	defer all.Release()
	x, err := all.Item()
	return x != 0, err
}
