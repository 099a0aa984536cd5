package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// Where takes the elements of a where cond, which is bool, is true, and those of b elsewhere. All three are broadcast; the
// result has the promoted type of a and b and runs under cond's Exec.
func Where(cond, a, b *Tensor) (*Tensor, error) { return where("Where", cond, a, b) }

const needsCondition = "the condition must be bool"

func where(name string, cond, a, b *Tensor) (*Tensor, error) {
	if err := together(name, cond, a, b); err != nil {
		return nil, err
	}
	if cond.dtype != Bool {
		return nil, dtypeErr(name, needsCondition, cond.dtype, a.dtype, b.dtype)
	}
	l, err := broadcastLayout(name, cond, a, b)
	if err != nil {
		return nil, err
	}
	dt := ResultType(a, b)
	x, err := a.as(name, dt, cond.exec)
	if err != nil {
		return nil, err
	}
	defer drop(x, a)
	y, err := b.as(name, dt, cond.exec)
	if err != nil {
		return nil, err
	}
	defer drop(y, b)
	return pointwise(name, op.Where, cond.exec, dt, &l, scalars{}, cond, x, y)
}

// WhereScalar takes the elements of a where cond, which is bool, is true, and v elsewhere. The number lifts a's type to its category, and does not widen
// it: a number with a fraction, one beyond int64, and NaN make float32 of integers; others make int64 of bools. A number that int32 or uint8 does not hold is
// a *ValueError, but for those from -255 to -1 of uint8, which count back from 256, as in PyTorch. So is
// a finite number beyond the largest one of a floating-point type.
func WhereScalar(cond, a *Tensor, v float64) (*Tensor, error) {
	const name = "WhereScalar"
	number, err := choice(name, cond, a, v)
	if err != nil {
		return nil, err
	}
	defer number.Release()
	return where(name, cond, a, number)
}

// RWhereScalar takes v where cond, which is bool, is true, and the elements of b elsewhere; see WhereScalar.
func RWhereScalar(cond *Tensor, v float64, b *Tensor) (*Tensor, error) {
	const name = "RWhereScalar"
	number, err := choice(name, cond, b, v)
	if err != nil {
		return nil, err
	}
	defer number.Release()
	return where(name, cond, number, b)
}

// choice is v as a tensor of the type that it has beside t.
func choice(name string, cond, t *Tensor, v float64) (*Tensor, error) {
	if err := together(name, cond, t); err != nil {
		return nil, err
	}
	if cond.dtype != Bool {
		return nil, dtypeErr(name, needsCondition, cond.dtype, t.dtype)
	}
	if _, err := broadcastLayout(name, cond, t); err != nil {
		return nil, err
	}
	dt := withNumbers(t.dtype, v)
	return full(name, t.exec.Owned(), v, dt, &layout{})
}
