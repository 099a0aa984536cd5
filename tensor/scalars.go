package tensor

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Hardtanh limits the elements, of a floating-point type, to lo..hi, as Clamp; PyTorch's defaults are -1 and 1. Its gradient at the bounds is 0.
func (t *Tensor) Hardtanh(lo, hi float64) (*Tensor, error) {
	const name = "Hardtanh"
	if !(lo <= hi) {
		return nil, valueErr(name, "bounds are %v and %v; the first must not be above the second", lo, hi)
	}
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if err := bounded(name, t.dtype, t.dtype, lo, hi); err != nil {
		return nil, err
	}
	return limited(name, t, lo, hi)
}

// limited is Clamp of a floating-point type into a tensor like t, as PyTorch's hardtanh is: strides of single elements are kept.
func limited(name string, t *Tensor, lo, hi float64) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if !t.dtype.IsFloat() {
		return nil, dtypeErr(name, needsFloat, t.dtype)
	}
	return pointwiseTo(name, op.Clamp, t.exec, t.dtype, t.layout.copied(), numbers(t.dtype, lo, hi), t)
}

// CELU is t where t > 0, else alpha*(exp(t/alpha)-1). alpha is not 0. Only takes floating-point types.
func (t *Tensor) CELU(alpha float64) (*Tensor, error) {
	const name = "CELU"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if alpha == 0 {
		return nil, valueErr(name, "alpha is 0, by which the elements are divided")
	}
	return activation(name, op.CELU, t, alpha)
}

// Softshrink is t-lambda where t > lambda, t+lambda where t < -lambda, else 0; NaN stays NaN. lambda is at least 0. Only takes floating-point types.
func (t *Tensor) Softshrink(lambda float64) (*Tensor, error) {
	const name = "Softshrink"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if !(lambda >= 0) {
		return nil, valueErr(name, "lambda is %v; it must be at least 0", lambda)
	}
	return activation(name, op.Softshrink, t, lambda)
}

// Polygamma is derivative number n of Digamma: 0 is Digamma itself, and 169 the last one whose factor, a factorial, is finite. Makes float32 of
// integers and bools.
func (t *Tensor) Polygamma(n float64) (*Tensor, error) {
	const name = "Polygamma"
	switch {
	case !(n >= 0 && n < 170 && n == math.Trunc(n)):
		return nil, valueErr(name, "the derivative is number %v; want a whole number from 0 to 169", n)
	case n == 0:
		return unaryFloat(name, op.Digamma, t)
	}
	return unaryFloat(name, op.Polygamma, t, n)
}

// ReLU6 limits the elements to 0..6.
func (t *Tensor) ReLU6() (*Tensor, error) { return limited("ReLU6", t, 0, 6) }

// FmodScalar is Fmod with a number.
func (t *Tensor) FmodScalar(v float64) (*Tensor, error) {
	return t.withOperand("FmodScalar", op.Fmod, v, false, false)
}

// RemainderScalar is Remainder with a number.
func (t *Tensor) RemainderScalar(v float64) (*Tensor, error) {
	return t.withOperand("RemainderScalar", op.Remainder, v, false, false)
}

// RSubScalar is v - t. Not defined for bool.
func (t *Tensor) RSubScalar(v float64) (*Tensor, error) {
	const name = "RSubScalar"
	if t != nil && t.dtype == Bool {
		return nil, dtypeErr(name, "not defined for bool", Bool)
	}
	return t.withOperand(name, op.Sub, v, true, false)
}

// RDivScalar is v / t, true division.
func (t *Tensor) RDivScalar(v float64) (*Tensor, error) {
	return t.withOperand("RDivScalar", op.Div, v, true, true)
}

// RPowScalar is v to the power of t. A whole v to the power of integers is an integer, as in Pow.
func (t *Tensor) RPowScalar(v float64) (*Tensor, error) {
	return t.withOperand("RPowScalar", op.Pow, v, true, false)
}

// withOperand runs a binary operation of t and a number, on the left if first; inFloat makes float32 of other types.
func (t *Tensor) withOperand(name string, id op.ID, v float64, first, inFloat bool) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	dt := withNumbers(t.dtype, v)
	if inFloat {
		dt = floating(dt)
	}
	n, err := number(name, t.exec.Owned(), v, dt)
	if err != nil {
		return nil, err
	}
	defer n.Release()
	x, err := t.as(name, dt, t.exec)
	if err != nil {
		return nil, err
	}
	defer drop(x, t)
	to := arrangedWith(&t.layout, !inFloat, x) // PyTorch divides a number by taking the reciprocal first, which is of one operand
	if first {
		return pointwiseTo(name, id, t.exec, dt, to, scalars{}, n, x)
	}
	return pointwiseTo(name, id, t.exec, dt, to, scalars{}, x, n)
}

// infinite reports whether v is one of the infinities.
func infinite(v float64) bool { return math.IsInf(v, 0) }
