package tensor

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Log1p is log(1+t), accurate near 0. Like the two functions below it makes float32 of integers and bools.
func (t *Tensor) Log1p() (*Tensor, error) { return unaryFloat("Log1p", op.Log1p, t) }

// Expm1 is exp(t)-1, accurate near 0.
func (t *Tensor) Expm1() (*Tensor, error) { return unaryFloat("Expm1", op.Expm1, t) }

// Erf is the error function.
func (t *Tensor) Erf() (*Tensor, error) { return unaryFloat("Erf", op.Erf, t) }

// Floor is the greatest integer that is not above t, in t's type. Integers stay as they are; bools are refused. Likewise for the
// three functions below.
func (t *Tensor) Floor() (*Tensor, error) { return rounded("Floor", op.Floor, t) }

// Ceil is the least integer that is not below t.
func (t *Tensor) Ceil() (*Tensor, error) { return rounded("Ceil", op.Ceil, t) }

// Round is the nearest integer, and the even one of two.
func (t *Tensor) Round() (*Tensor, error) { return rounded("Round", op.Round, t) }

// Trunc is t without its fraction.
func (t *Tensor) Trunc() (*Tensor, error) { return rounded("Trunc", op.Trunc, t) }

func rounded(name string, id op.ID, t *Tensor) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	switch {
	case t.dtype == Bool:
		return nil, dtypeErr(name, "not defined for bool", t.dtype)
	case !t.dtype.IsFloat():
		return t.convert(name, t.dtype, t.exec)
	}
	return unary(name, id, t, t.dtype, t.dtype, scalars{})
}

// IsNaN is true where t is not a number: a bool tensor, all false for integers.
func (t *Tensor) IsNaN() (*Tensor, error) { return tested("IsNaN", op.IsNaN, t, 0) }

// IsInf is true where t is infinite: a bool tensor.
func (t *Tensor) IsInf() (*Tensor, error) { return tested("IsInf", op.IsInf, t, 0) }

// IsFinite is true where t is neither infinite nor NaN: a bool tensor.
func (t *Tensor) IsFinite() (*Tensor, error) { return tested("IsFinite", op.IsFinite, t, 1) }

// tested runs a test of floats; otherwise is what it gives for all other types.
func tested(name string, id op.ID, t *Tensor, otherwise float64) (*Tensor, error) {
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if !t.dtype.IsFloat() {
		return full(name, t.exec, otherwise, Bool, &t.layout)
	}
	return unary(name, id, t, t.dtype, Bool, scalars{})
}

// ELU is t where t > 0, else alpha*(exp(t)-1). PyTorch's default alpha is 1. Floating-point types, here and below.
func (t *Tensor) ELU(alpha float64) (*Tensor, error) { return activation("ELU", op.ELU, t, alpha) }

// Hardtanh limits the elements to lo..hi, as Clamp; PyTorch's defaults are -1 and 1. Its gradient at the bounds is 0.
func (t *Tensor) Hardtanh(lo, hi float64) (*Tensor, error) {
	const name = "Hardtanh"
	if !(lo <= hi) {
		return nil, valueErr(name, "bounds are %v and %v; the first must not be above the second", lo, hi)
	}
	return activation(name, op.Clamp, t, lo, hi)
}

// ReLU6 limits the elements to 0..6.
func (t *Tensor) ReLU6() (*Tensor, error) { return activation("ReLU6", op.Clamp, t, 0, 6) }

// ErfGrad is the gradient of Erf at in: t*2/sqrt(pi)*exp(-in*in).
func (t *Tensor) ErfGrad(in *Tensor) (*Tensor, error) { return gradient("ErfGrad", op.ErfGrad, t, in) }

// ELUGrad is the gradient of ELU at in.
func (t *Tensor) ELUGrad(in *Tensor, alpha float64) (*Tensor, error) {
	return gradient("ELUGrad", op.ELUGrad, t, in, alpha)
}

// ClampGrad is the gradient of Clamp at in: t where lo <= in <= hi, else 0.
func (t *Tensor) ClampGrad(in *Tensor, lo, hi float64) (*Tensor, error) {
	return gradient("ClampGrad", op.ClampGrad, t, in, lo, hi)
}

// HardtanhGrad is the gradient of Hardtanh at in: 0 where in <= lo or in >= hi, else t.
func (t *Tensor) HardtanhGrad(in *Tensor, lo, hi float64) (*Tensor, error) {
	return gradient("HardtanhGrad", op.HardtanhGrad, t, in, lo, hi)
}

// Xor is true where exactly one of t and u is not 0, broadcast: a bool tensor.
func (t *Tensor) Xor(u *Tensor) (*Tensor, error) { return logical("Xor", op.Xor, t, u) }

// Fmod is the remainder of t/u with the sign of t, exact, broadcast, in the promoted type; for integers it is 0 where u is 0.
// Two bools are refused.
func (t *Tensor) Fmod(u *Tensor) (*Tensor, error) { return modulo("Fmod", op.Fmod, t, u) }

// Remainder is the remainder of t/u with the sign of u, as Python's %, broadcast, in the promoted type; for integers it is 0
// where u is 0. Two bools are refused.
func (t *Tensor) Remainder(u *Tensor) (*Tensor, error) {
	return modulo("Remainder", op.Remainder, t, u)
}

func modulo(name string, id op.ID, t, u *Tensor) (*Tensor, error) {
	if err := together(name, t, u); err != nil {
		return nil, err
	}
	dt := ResultType(t, u)
	if dt == Bool {
		return nil, dtypeErr(name, "not defined for bool", t.dtype, u.dtype)
	}
	return binary(name, id, t, u, dt, dt, scalars{})
}

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
	number, err := full(name, t.exec.Owned(), v, dt, &layout{})
	if err != nil {
		return nil, err
	}
	defer number.Release()
	x, err := t.as(name, dt, t.exec)
	if err != nil {
		return nil, err
	}
	defer drop(x, t)
	if first {
		return pointwise(name, id, t.exec, dt, &t.layout, scalars{}, number, x)
	}
	return pointwise(name, id, t.exec, dt, &t.layout, scalars{}, x, number)
}

// infinite reports whether v is one of the infinities.
func infinite(v float64) bool { return math.IsInf(v, 0) }
