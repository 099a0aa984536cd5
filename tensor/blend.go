package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// Lerp is t + weight*(end-t), broadcast, computed from the nearer end. All three have one floating-point type.
func (t *Tensor) Lerp(end, weight *Tensor) (*Tensor, error) {
	const name = "Lerp"
	if err := sameFloat(name, t, end, weight); err != nil {
		return nil, err
	}
	return ternary(name, op.Lerp, t.dtype, scalars{}, t, end, weight)
}

// LerpScalar is Lerp with one weight for all elements.
func (t *Tensor) LerpScalar(end *Tensor, weight float64) (*Tensor, error) {
	const name = "LerpScalar"
	if err := sameFloat(name, t, end); err != nil {
		return nil, err
	}
	if _, err := broadcastLayout(name, t, end); err != nil {
		return nil, err
	}
	w, err := full(name, t.exec.Owned(), weight, t.dtype, &layout{})
	if err != nil {
		return nil, err
	}
	defer w.Release()
	return ternary(name, op.Lerp, t.dtype, scalars{}, t, end, w)
}

// AddCMul is t + value*a*b, broadcast, in the promoted type. For integer types value must be an integer; bools are refused.
func (t *Tensor) AddCMul(a, b *Tensor, value float64) (*Tensor, error) {
	const name = "AddCMul"
	if err := together(name, t, a, b); err != nil {
		return nil, err
	}
	dt := ResultType(t, a, b)
	if dt == Bool {
		return nil, dtypeErr(name, "not defined for bool", t.dtype, a.dtype, b.dtype)
	}
	if !dt.IsFloat() && !integral(value) {
		return nil, valueErr(name, "value is %v; for %s it must be an integer", value, dt)
	}
	if err := factors(name, dt, value); err != nil {
		return nil, err
	}
	return ternary(name, op.AddCMul, dt, numbers(dt, value), t, a, b)
}

// AddCDiv is t + value*a/b, broadcast, in the promoted type, which must be of floating point: so a or b, or t, must be.
func (t *Tensor) AddCDiv(a, b *Tensor, value float64) (*Tensor, error) {
	const name = "AddCDiv"
	if err := together(name, t, a, b); err != nil {
		return nil, err
	}
	dt := ResultType(t, a, b)
	if !a.dtype.IsFloat() && !b.dtype.IsFloat() {
		return nil, dtypeErr(name, "integer division is not defined; convert an operand", t.dtype, a.dtype, b.dtype)
	}
	if err := factors(name, dt, value); err != nil {
		return nil, err
	}
	return ternary(name, op.AddCDiv, dt, numbers(dt, value), t, a, b)
}

// ternary runs an operation of three inputs, converted to dt and broadcast together.
func ternary(name string, id op.ID, dt DType, s scalars, ts ...*Tensor) (*Tensor, error) {
	l, err := broadcastLayout(name, ts...)
	if err != nil {
		return nil, err
	}
	var in [3]*Tensor
	for i, t := range ts {
		if in[i], err = t.as(name, dt, ts[0].exec); err != nil {
			return nil, err
		}
		defer drop(in[i], t)
	}
	return pointwise(name, id, ts[0].exec, dt, &l, s, in[:]...)
}

// MaskedFill is v where mask, which is bool, is true, and t elsewhere, broadcast. The type is t's, which must be able to hold v, as Full says; integers take no
// number with a fraction here.
func (t *Tensor) MaskedFill(mask *Tensor, v float64) (*Tensor, error) {
	const name = "MaskedFill"
	if err := maskable(name, t, mask, v); err != nil {
		return nil, err
	}
	l, err := broadcastLayout(name, t, mask)
	if err != nil {
		return nil, err
	}
	number, err := full(name, t.exec.Owned(), v, t.dtype, &layout{})
	if err != nil {
		return nil, err
	}
	defer number.Release()
	return pointwise(name, op.Where, t.exec, t.dtype, &l, scalars{}, mask, number, t)
}

func maskable(name string, t, mask *Tensor, v float64) error {
	if err := together(name, t, mask); err != nil {
		return err
	}
	if mask.dtype != Bool {
		return dtypeErr(name, "the mask must be bool", t.dtype, mask.dtype)
	}
	if !t.dtype.IsFloat() && !integral(v) {
		return valueErr(name, "value is %v; %s does not hold it", v, t.dtype)
	}
	return fillable(name, t.dtype, v)
}
