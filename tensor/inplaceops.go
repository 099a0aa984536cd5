package tensor

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// SubInPlace subtracts u, broadcast to t's shape, from t. As in AddInPlace, the promoted type must not be of a higher category than
// t's; bools are refused. Likewise for the two functions below, of which u may be bool.
func (t *Tensor) SubInPlace(u *Tensor) error {
	const name = "SubInPlace"
	if t != nil && u != nil && u.dtype == Bool {
		return dtypeErr(name, "not defined for bool", t.dtype, u.dtype)
	}
	return t.binaryInPlace(name, op.Sub, u)
}

// MulInPlace multiplies t by u, broadcast to t's shape.
func (t *Tensor) MulInPlace(u *Tensor) error { return t.binaryInPlace("MulInPlace", op.Mul, u) }

// DivInPlace divides t, which has a floating-point type, by u, broadcast to t's shape.
func (t *Tensor) DivInPlace(u *Tensor) error {
	const name = "DivInPlace"
	if err := usable(name, t); err != nil {
		return err
	}
	if !t.dtype.IsFloat() {
		return dtypeErr(name, needsFloat, t.dtype)
	}
	return t.binaryInPlace(name, op.Div, u)
}

// binaryInPlace runs an operation of t and u into t. Types that t's does not hold are computed apart and rounded once.
func (t *Tensor) binaryInPlace(name string, id op.ID, u *Tensor) error {
	if err := together(name, t, u); err != nil {
		return err
	}
	if t.dtype == Bool {
		return dtypeErr(name, noFit, t.dtype, u.dtype)
	}
	return t.binaryInto(name, id, u)
}

const noFit = "the result does not fit the type of the destination"

// binaryInto is binaryInPlace also of bools. t and u are usable, and on one device.
func (t *Tensor) binaryInto(name string, id op.ID, u *Tensor) error {
	if err := t.writable(name); err != nil {
		return err
	}
	if category(u.dtype) > category(t.dtype) {
		return dtypeErr(name, noFit, t.dtype, u.dtype)
	}
	if _, ok := u.layout.expanded(&t.layout); !ok {
		return shapeErr(name, []Shape{t.Shape(), u.Shape()}, "the operand does not broadcast to the destination")
	}
	if wide := ResultType(t, u); wide != t.dtype {
		r, err := binary(name, id, t, u, wide, wide, scalars{})
		if err != nil {
			return err
		}
		defer r.Release()
		t.storage.changed()
		return t.write(name, &t.layout, r, &r.layout)
	}
	x, err := u.as(name, t.dtype, t.exec)
	if err != nil {
		return err
	}
	defer drop(x, u)
	y, err := x.apart(name, t)
	if err != nil {
		return err
	}
	defer drop(y, x)
	t.storage.changed()
	return t.pointwiseInto(name, id, scalars{}, t, y)
}

// AddScalarInPlace adds s, which for integer types must be an integer, to every element. Bools are refused.
func (t *Tensor) AddScalarInPlace(s float64) error {
	const name = "AddScalarInPlace"
	if err := t.changeable(name, false); err != nil {
		return err
	}
	if !t.dtype.IsFloat() && !integral(s) {
		return valueErr(name, "number is %v; for %s it must be an integer", s, t.dtype)
	}
	return t.unaryInPlace(name, op.AddScalar, numbers(t.dtype, s))
}

// ClampInPlace limits the elements to lo..hi, as Clamp; for integer types finite bounds must be integers. Bools are refused.
func (t *Tensor) ClampInPlace(lo, hi float64) error {
	const name = "ClampInPlace"
	if err := t.changeable(name, false); err != nil {
		return err
	}
	for _, bound := range []float64{lo, hi} {
		if math.IsNaN(bound) || !t.dtype.IsFloat() && !infinite(bound) && !integral(bound) {
			return valueErr(name, "bounds are %v and %v; %s does not hold them", lo, hi, t.dtype)
		}
	}
	if err := bounded(name, t.dtype, t.dtype, lo, hi); err != nil {
		return err
	}
	return t.unaryInPlace(name, op.Clamp, scalars{f: [2]float64{lo, hi}, i: [2]int64{saturate(lo), saturate(hi)}})
}

// mapInPlace runs an operation of one input in place; float refuses integers.
func (t *Tensor) mapInPlace(name string, id op.ID, float bool) error {
	if err := t.changeable(name, float); err != nil {
		return err
	}
	return t.unaryInPlace(name, id, scalars{})
}

// changeable refuses tensors that cannot be written to, bools, and, if float, integers.
func (t *Tensor) changeable(name string, float bool) error {
	if err := usable(name, t); err != nil {
		return err
	}
	switch {
	case float && !t.dtype.IsFloat():
		return dtypeErr(name, needsFloat, t.dtype)
	case t.dtype == Bool:
		return dtypeErr(name, "not defined for bool", t.dtype)
	}
	return t.writable(name)
}

func (t *Tensor) unaryInPlace(name string, id op.ID, s scalars) error {
	t.storage.changed()
	return t.pointwiseInto(name, id, s, t)
}

// MaskedFillInPlace sets the elements where mask, which is bool and broadcast to t's shape, is true to v, which t's type must be able to
// hold.
func (t *Tensor) MaskedFillInPlace(mask *Tensor, v float64) error {
	const name = "MaskedFillInPlace"
	if err := maskable(name, t, mask, v); err != nil {
		return err
	}
	if err := t.writable(name); err != nil {
		return err
	}
	if _, ok := mask.layout.expanded(&t.layout); !ok {
		return shapeErr(name, []Shape{t.Shape(), mask.Shape()}, "the mask does not broadcast to the destination")
	}
	number, err := full(name, t.exec.Owned(), v, t.dtype, &layout{})
	if err != nil {
		return err
	}
	defer number.Release()
	x, err := mask.apart(name, t)
	if err != nil {
		return err
	}
	defer drop(x, mask)
	t.storage.changed()
	return t.pointwiseInto(name, op.Where, scalars{}, x, number, t)
}

// AddCMulInPlace adds value*a*b, broadcast to t's shape, to t. All three have one type: integers take an integer value, bools are
// refused.
func (t *Tensor) AddCMulInPlace(a, b *Tensor, value float64) error {
	return t.ternaryInPlace("AddCMulInPlace", op.AddCMul, a, b, value, false)
}

// AddCDivInPlace adds value*a/b, broadcast to t's shape, to t. All three have one floating-point type.
func (t *Tensor) AddCDivInPlace(a, b *Tensor, value float64) error {
	return t.ternaryInPlace("AddCDivInPlace", op.AddCDiv, a, b, value, true)
}

// LerpInPlace adds weight*(end-t), broadcast to t's shape, to t. All three have one floating-point type.
func (t *Tensor) LerpInPlace(end, weight *Tensor) error {
	return t.ternaryInPlace("LerpInPlace", op.Lerp, end, weight, 0, true)
}

// LerpScalarInPlace is LerpInPlace with one weight for all elements.
func (t *Tensor) LerpScalarInPlace(end *Tensor, weight float64) error {
	const name = "LerpScalarInPlace"
	if err := together(name, t, end); err != nil {
		return err
	}
	if err := t.changeable(name, true); err != nil {
		return err
	}
	if err := t.takes(name, end); err != nil {
		return err
	}
	w, err := full(name, t.exec.Owned(), weight, t.dtype, &layout{})
	if err != nil {
		return err
	}
	defer w.Release()
	return t.ternaryInPlace(name, op.Lerp, end, w, 0, true)
}

func (t *Tensor) ternaryInPlace(name string, id op.ID, a, b *Tensor, value float64, float bool) error {
	if err := together(name, t, a, b); err != nil {
		return err
	}
	if err := t.changeable(name, float); err != nil {
		return err
	}
	if err := t.takes(name, a, b); err != nil {
		return err
	}
	if !t.dtype.IsFloat() && !integral(value) {
		return valueErr(name, "value is %v; for %s it must be an integer", value, t.dtype)
	}
	if err := factors(name, t.dtype, value); err != nil {
		return err
	}
	in := [3]*Tensor{t, a, b}
	for k, u := range in[1:] {
		x, err := u.apart(name, t)
		if err != nil {
			return err
		}
		defer drop(x, u)
		in[k+1] = x
	}
	t.storage.changed()
	return t.pointwiseInto(name, id, numbers(t.dtype, value), in[:]...)
}

// takes refuses operands that are not of t's type, or do not broadcast to its shape.
func (t *Tensor) takes(name string, operands ...*Tensor) error {
	types, shapes := []DType{t.dtype}, []Shape{t.Shape()}
	for _, u := range operands {
		types, shapes = append(types, u.dtype), append(shapes, u.Shape())
	}
	for _, u := range operands {
		if u.dtype != t.dtype {
			return dtypeErr(name, "operands must have one type; To converts", types...)
		}
		if _, ok := u.layout.expanded(&t.layout); !ok {
			return shapeErr(name, shapes, "an operand does not broadcast to the destination")
		}
	}
	return nil
}
