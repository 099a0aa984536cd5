package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// Eq is t == u: a bool tensor. Operands are broadcast and compared in the promoted type, here and below.
func (t *Tensor) Eq(u *Tensor) (*Tensor, error) { return compare("Eq", op.Eq, t, u) }

// Ne is t != u.
func (t *Tensor) Ne(u *Tensor) (*Tensor, error) { return compare("Ne", op.Ne, t, u) }

// Lt is t < u.
func (t *Tensor) Lt(u *Tensor) (*Tensor, error) { return compare("Lt", op.Lt, t, u) }

// Le is t <= u.
func (t *Tensor) Le(u *Tensor) (*Tensor, error) { return compare("Le", op.Le, t, u) }

// Gt is t > u.
func (t *Tensor) Gt(u *Tensor) (*Tensor, error) { return compare("Gt", op.Gt, t, u) }

// Ge is t >= u.
func (t *Tensor) Ge(u *Tensor) (*Tensor, error) { return compare("Ge", op.Ge, t, u) }

// EqScalar is t == v.
func (t *Tensor) EqScalar(v float64) (*Tensor, error) { return compareScalar("EqScalar", op.Eq, t, v) }

// NeScalar is t != v.
func (t *Tensor) NeScalar(v float64) (*Tensor, error) { return compareScalar("NeScalar", op.Ne, t, v) }

// LtScalar is t < v.
func (t *Tensor) LtScalar(v float64) (*Tensor, error) { return compareScalar("LtScalar", op.Lt, t, v) }

// LeScalar is t <= v.
func (t *Tensor) LeScalar(v float64) (*Tensor, error) { return compareScalar("LeScalar", op.Le, t, v) }

// GtScalar is t > v.
func (t *Tensor) GtScalar(v float64) (*Tensor, error) { return compareScalar("GtScalar", op.Gt, t, v) }

// GeScalar is t >= v.
func (t *Tensor) GeScalar(v float64) (*Tensor, error) { return compareScalar("GeScalar", op.Ge, t, v) }

func compare(name string, id op.ID, t, u *Tensor) (*Tensor, error) {
	if err := together(name, t, u); err != nil {
		return nil, err
	}
	return binary(name, id, t, u, ResultType(t, u), Bool, scalars{})
}

// compareScalar compares in t's type or that of the number's category; a number that an integer type does not hold is
// compared in int64, so that it equals nothing.
func compareScalar(name string, id op.ID, t *Tensor, v float64) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	dt := withNumbers(t.dtype, v)
	if !holds(dt, v) {
		dt = Int64
	}
	number, err := full(name, t.exec.Owned(), v, dt, &layout{})
	if err != nil {
		return nil, err
	}
	defer number.Release()
	return binary(name, id, t, number, dt, Bool, scalars{})
}

// And is true where both are not 0, broadcast: a bool tensor, as torch.logical_and.
func (t *Tensor) And(u *Tensor) (*Tensor, error) { return logical("And", op.And, t, u) }

// Or is true where either is not 0, broadcast.
func (t *Tensor) Or(u *Tensor) (*Tensor, error) { return logical("Or", op.Or, t, u) }

func logical(name string, id op.ID, t, u *Tensor) (*Tensor, error) {
	if err := together(name, t, u); err != nil {
		return nil, err
	}
	return binary(name, id, t, u, Bool, Bool, scalars{})
}

// Not is true where t is 0.
func (t *Tensor) Not() (*Tensor, error) {
	const name = "Not"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	return unary(name, op.Not, t, t.dtype, Bool, scalars{})
}

// Where takes the elements of a where cond, which is bool, is true, and those of b elsewhere. All three are broadcast; the
// result has the promoted type of a and b and runs under cond's Exec.
func Where(cond, a, b *Tensor) (*Tensor, error) {
	const name = "Where"
	if err := together(name, cond, a, b); err != nil {
		return nil, err
	}
	if cond.dtype != Bool {
		return nil, dtypeErr(name, "the condition must be bool", cond.dtype, a.dtype, b.dtype)
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
