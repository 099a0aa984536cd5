package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// pointwise launches an element-wise operation into a new tensor of type dt and l's shape under e, which is laid out as arranged says, or over a
// donated input. The inputs are usable, on one device, already of the types that the kernel wants, and broadcast to l.
func pointwise(name string, id op.ID, e Exec, dt DType, l *layout, s scalars, ins ...*Tensor) (*Tensor, error) {
	return pointwiseTo(name, id, e, dt, arrangedWith(l, takesNumber(id), ins...), s, ins...)
}

// pointwiseTo is pointwise with a result that is laid out as it is told, without gaps.
func pointwiseTo(name string, id op.ID, e Exec, dt DType, to layout, s scalars, ins ...*Tensor) (*Tensor, error) {
	r := donated(e, dt, &to, ins)
	if r == nil {
		var err error
		if r, err = allocAs(name, e, dt, &to); err != nil {
			return nil, err
		}
	}
	if err := r.pointwiseInto(name, id, s, ins...); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// takesNumber reports whether the number of an operation is an operand in PyTorch, and no argument.
func takesNumber(id op.ID) bool {
	return id == op.AddScalar || id == op.MulScalar || id == op.DivScalar
}

// pointwiseInto launches an element-wise operation over inputs that broadcast to r's shape, into r, on the stream of r.
func (r *Tensor) pointwiseInto(name string, id op.ID, s scalars, ins ...*Tensor) error {
	if r.Len() == 0 {
		return nil
	}
	c := begin(id, r.exec)
	c.scalars(s)
	c.out(r, &r.layout)
	for _, t := range ins {
		if t.layout.sameAs(&r.layout) {
			c.in(t, &t.layout)
			continue
		}
		l, _ := t.layout.expanded(&r.layout)
		c.in(t, &l)
	}
	return c.run(name)
}

// unary runs an operation of one input in type in.
func unary(name string, id op.ID, t *Tensor, in, out DType, s scalars) (*Tensor, error) {
	if t.dtype == in {
		return pointwise(name, id, t.exec, out, &t.layout, s, t)
	}
	x, err := t.as(name, in, t.exec)
	if err != nil {
		return nil, err
	}
	defer drop(x, t)
	return pointwise(name, id, t.exec, out, &t.layout, s, x)
}

// unaryNumeric is unary for operations on floating-point and integer types.
func unaryNumeric(name string, id op.ID, t *Tensor) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if t.dtype == Bool {
		return nil, dtypeErr(name, "not defined for bool", t.dtype)
	}
	return unary(name, id, t, t.dtype, t.dtype, scalars{})
}

// unaryFloat is unary for mathematical functions, which make float32 of other types, as in PyTorch.
func unaryFloat(name string, id op.ID, t *Tensor, v ...float64) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	dt := floating(t.dtype)
	return unary(name, id, t, dt, dt, numbers(dt, v...))
}

// rounded is unary for roundings, which leave integers as they are.
func rounded(name string, id op.ID, t *Tensor) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	switch {
	case t.dtype == Bool:
		return nil, dtypeErr(name, "not defined for bool", t.dtype)
	case !t.dtype.IsFloat():
		to := arranged(&t.layout, t)
		return t.convertTo(name, &to, t.dtype, t.exec)
	}
	return unary(name, id, t, t.dtype, t.dtype, scalars{})
}

// condition is unary for conditions of all types.
func condition(name string, id op.ID, t *Tensor) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	return unary(name, id, t, t.dtype, Bool, scalars{})
}

// tested is condition for floating-point types; otherwise is what it gives for all others.
func tested(name string, id op.ID, t *Tensor, otherwise float64) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if !t.dtype.IsFloat() {
		to := t.layout.copied()
		if id == op.IsNaN { // a comparison, also of integers
			to = arranged(&t.layout, t)
		}
		return full(name, t.exec, otherwise, Bool, &to)
	}
	return unary(name, id, t, t.dtype, Bool, scalars{})
}

// activation is unary for functions that, as in PyTorch, only take floating-point types.
func activation(name string, id op.ID, t *Tensor, v ...float64) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if !t.dtype.IsFloat() {
		return nil, dtypeErr(name, needsFloat, t.dtype)
	}
	if err := factors(name, t.dtype, v...); err != nil {
		return nil, err
	}
	return unary(name, id, t, t.dtype, t.dtype, numbers(t.dtype, v...))
}

const needsFloat = "needs a floating-point type"

// binary runs an operation of two inputs, both converted to type in, broadcast together.
func binary(name string, id op.ID, a, b *Tensor, in, out DType, s scalars) (*Tensor, error) {
	l, err := broadcastLayout(name, a, b)
	if err != nil {
		return nil, err
	}
	if a.dtype == in && b.dtype == in {
		return pointwise(name, id, a.exec, out, &l, s, a, b)
	}
	if half, wide := mixed(a, b); id == op.Add && half != nil && s.f[0] == 1 {
		to := arranged(&l, a, b)
		r, err := allocAs(name, a.exec, Float32, &to)
		if err != nil {
			return nil, err
		}
		if err := addMixed(name, a.exec, r, half, wide); err != nil {
			r.Release()
			return nil, err
		}
		return r, nil
	}
	return binaryAs(name, id, a, b, in, out, &l, s)
}

// binaryAs is binary where an input has another type.
func binaryAs(name string, id op.ID, a, b *Tensor, in, out DType, l *layout, s scalars) (*Tensor, error) {
	x, err := a.as(name, in, a.exec)
	if err != nil {
		return nil, err
	}
	defer drop(x, a)
	y, err := b.as(name, in, a.exec)
	if err != nil {
		return nil, err
	}
	defer drop(y, b)
	return pointwise(name, id, a.exec, out, l, s, x, y)
}

// binaryNumeric is binary in the promoted type for operations on floating-point and integer types: one of two bools is refused.
func binaryNumeric(name string, id op.ID, t, u *Tensor) (*Tensor, error) {
	if err := together(name, t, u); err != nil {
		return nil, err
	}
	dt := ResultType(t, u)
	if dt == Bool {
		return nil, dtypeErr(name, "not defined for bool", t.dtype, u.dtype)
	}
	return binary(name, id, t, u, dt, dt, scalars{})
}

// binaryWithBools is binaryNumeric for an operation that is another one, or is itself, for two bools.
func binaryWithBools(name string, id, ofBools op.ID, t, u *Tensor) (*Tensor, error) {
	if err := together(name, t, u); err != nil {
		return nil, err
	}
	dt := ResultType(t, u)
	if dt == Bool {
		id = ofBools
	}
	return binary(name, id, t, u, dt, dt, scalars{})
}

// binaryFloat is binary in the promoted type for mathematical functions, which make float32 of other types, as in PyTorch.
func binaryFloat(name string, id op.ID, t, u *Tensor) (*Tensor, error) {
	if err := together(name, t, u); err != nil {
		return nil, err
	}
	dt := floating(ResultType(t, u))
	return binary(name, id, t, u, dt, dt, scalars{})
}

// binaryActivation is binary in the promoted type for functions that only take floating-point types.
func binaryActivation(name string, id op.ID, t, u *Tensor) (*Tensor, error) {
	if err := together(name, t, u); err != nil {
		return nil, err
	}
	dt := ResultType(t, u)
	if !dt.IsFloat() {
		return nil, dtypeErr(name, needsFloat, t.dtype, u.dtype)
	}
	return binary(name, id, t, u, dt, dt, scalars{})
}

// gradientOfTwo runs the gradient of an operation of two inputs by one of them, in the type and shape of the gradient that arrives.
func gradientOfTwo(name string, id op.ID, grad, a, b *Tensor) (*Tensor, error) {
	if err := together(name, grad, a, b); err != nil {
		return nil, err
	}
	if !grad.dtype.IsFloat() {
		return nil, dtypeErr(name, needsFloat, grad.dtype)
	}
	l, err := broadcastLayout(name, a, b)
	if err != nil {
		return nil, err
	}
	if !grad.Shape().Equal(l.dims()) {
		return nil, shapeErr(name, []Shape{grad.Shape(), a.Shape(), b.Shape()}, "the gradient is not of the shape of the result")
	}
	x, err := a.as(name, grad.dtype, grad.exec)
	if err != nil {
		return nil, err
	}
	defer drop(x, a)
	y, err := b.as(name, grad.dtype, grad.exec)
	if err != nil {
		return nil, err
	}
	defer drop(y, b)
	return pointwise(name, id, grad.exec, grad.dtype, &grad.layout, scalars{}, grad, x, y)
}
