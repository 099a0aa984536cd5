package tensor

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Add is t + u, broadcast, in the promoted type. For bool it is "or".
func (t *Tensor) Add(u *Tensor) (*Tensor, error) { return t.addScaled("Add", u, 1) }

// AddScaled is t + alpha*u, broadcast, in the promoted type. For integer types alpha must be an integer; for bool, 1.
func (t *Tensor) AddScaled(u *Tensor, alpha float64) (*Tensor, error) {
	return t.addScaled("AddScaled", u, alpha)
}

func (t *Tensor) addScaled(name string, u *Tensor, alpha float64) (*Tensor, error) {
	if err := together(name, t, u); err != nil {
		return nil, err
	}
	dt := ResultType(t, u)
	if err := checkAlpha(name, dt, alpha); err != nil {
		return nil, err
	}
	if dt == Bool {
		return binary(name, op.Or, t, u, dt, dt, scalars{})
	}
	return binary(name, op.Add, t, u, dt, dt, numbers(dt, alpha))
}

func checkAlpha(name string, dt DType, alpha float64) error {
	if alpha == 1 { // of every sum that names none
		return nil
	}
	if dt == Bool && alpha != 1 {
		return valueErr(name, "alpha is %v; for bool it must be 1", alpha)
	}
	if !dt.IsFloat() && !integral(alpha) {
		return valueErr(name, "alpha is %v; for %s it must be an integer", alpha, dt)
	}
	return bounded(name, dt, dt, alpha)
}

// Sub is t - u, broadcast, in the promoted type. As in PyTorch it is not defined for bool operands.
func (t *Tensor) Sub(u *Tensor) (*Tensor, error) {
	const name = "Sub"
	if err := together(name, t, u); err != nil {
		return nil, err
	}
	if t.dtype == Bool || u.dtype == Bool {
		return nil, dtypeErr(name, "not defined for bool", t.dtype, u.dtype)
	}
	dt := ResultType(t, u)
	return binary(name, op.Sub, t, u, dt, dt, scalars{})
}

// converted turns the temporary r, made under e, into a result of type dt.
func converted(name string, r *Tensor, err error, dt DType, e Exec) (*Tensor, error) {
	if err != nil || r.dtype == dt {
		return r, err
	}
	defer r.Release()
	return r.cast(name, dt, e)
}

// SubScalar is t - v. Not defined for bool.
func (t *Tensor) SubScalar(v float64) (*Tensor, error) {
	const name = "SubScalar"
	if t != nil && t.dtype == Bool {
		return nil, dtypeErr(name, "not defined for bool", Bool)
	}
	if t != nil && !t.dtype.IsFloat() && v == math.MinInt64 {
		return withScalar(name, op.AddScalar, t, v) // in arithmetic that wraps it is its own negative, which int64 does not hold
	}
	return withScalar(name, op.AddScalar, t, -v)
}

// withScalar is unary for operations with a number, which does not widen t's type, but lifts it to its category: integers plus 2 are
// integers, plus 2.5 of float32.
func withScalar(name string, id op.ID, t *Tensor, v float64) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	dt := withNumbers(t.dtype, v)
	return unary(name, id, t, dt, dt, numbers(dt, v))
}

// PowScalar is t to the power of v. An integer tensor to the power of an integer stays one, exact but for wrapping; the exponent must
// then not be negative. Powers of 0.5 and -0.5 are Sqrt and Rsqrt, as in PyTorch, also of -0 and of minus infinity.
func (t *Tensor) PowScalar(v float64) (*Tensor, error) {
	const name = "PowScalar"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	dt := withNumbers(t.dtype, v)
	if !dt.IsFloat() && v < 0 {
		return nil, valueErr(name, "exponent is %v; integers have no negative powers", v)
	}
	switch v {
	case 0.5:
		return unary(name, op.Sqrt, t, dt, dt, scalars{})
	case -0.5:
		return unary(name, op.Rsqrt, t, dt, dt, scalars{})
	}
	return unary(name, op.PowScalar, t, dt, dt, numbers(dt, v))
}

// Clamp limits the elements to lo..hi; where lo > hi they become hi. An infinite bound is no bound. NaN stays NaN.
func (t *Tensor) Clamp(lo, hi float64) (*Tensor, error) {
	const name = "Clamp"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if math.IsNaN(lo) || math.IsNaN(hi) {
		return nil, valueErr(name, "bounds are %v and %v; NaN is not allowed", lo, hi)
	}
	dt := t.dtype
	for _, bound := range []float64{lo, hi} {
		if !math.IsInf(bound, 0) {
			dt = withNumbers(dt, bound)
		}
	}
	if dt == Bool {
		dt = Int64
	}
	if err := bounded(name, dt, dt, lo, hi); err != nil {
		return nil, err
	}
	s := scalars{f: [2]float64{lo, hi}, i: [2]int64{saturate(lo), saturate(hi)}}
	return unary(name, op.Clamp, t, dt, dt, s)
}

// saturate is v as an int64, the nearest there is.
func saturate(v float64) int64 {
	switch {
	case v >= math.MaxInt64:
		return math.MaxInt64
	case v <= math.MinInt64:
		return math.MinInt64
	}
	return int64(v)
}
