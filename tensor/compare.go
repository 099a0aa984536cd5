package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// EqScalar is t == v: a bool tensor, as of the functions below.
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

// compare compares in the promoted type.
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
	n, err := number(name, t.exec.Owned(), v, dt)
	if err != nil {
		return nil, err
	}
	defer n.Release()
	return binary(name, id, t, n, dt, Bool, scalars{})
}

// logical runs an operation of conditions: what is not 0 is true.
func logical(name string, id op.ID, t, u *Tensor) (*Tensor, error) {
	if err := together(name, t, u); err != nil {
		return nil, err
	}
	return binary(name, id, t, u, Bool, Bool, scalars{})
}
