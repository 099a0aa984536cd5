package tensor

import (
	"github.com/cistern-ml/cistern/kernels/op"
)

// Neg is -t. Not defined for bool.
func (t *Tensor) Neg() (*Tensor, error) { return unaryNumeric("Neg", op.Neg, t) }

// Abs is |t|. Not defined for bool.
func (t *Tensor) Abs() (*Tensor, error) { return unaryNumeric("Abs", op.Abs, t) }

// Sign is -1, 0 or 1. Not defined for bool.
func (t *Tensor) Sign() (*Tensor, error) { return unaryNumeric("Sign", op.Sign, t) }

// Exp is e to the power of t. Like the functions below it makes float32 of integers and bools.
func (t *Tensor) Exp() (*Tensor, error) { return unaryFloat("Exp", op.Exp, t) }

// Log is the natural logarithm.
func (t *Tensor) Log() (*Tensor, error) { return unaryFloat("Log", op.Log, t) }

// Sqrt is the square root.
func (t *Tensor) Sqrt() (*Tensor, error) { return unaryFloat("Sqrt", op.Sqrt, t) }

// Rsqrt is 1/sqrt(t).
func (t *Tensor) Rsqrt() (*Tensor, error) { return unaryFloat("Rsqrt", op.Rsqrt, t) }

// Reciprocal is 1/t.
func (t *Tensor) Reciprocal() (*Tensor, error) { return unaryFloat("Reciprocal", op.Reciprocal, t) }

// Sin is the sine of t in radians.
func (t *Tensor) Sin() (*Tensor, error) { return unaryFloat("Sin", op.Sin, t) }

// Cos is the cosine of t in radians.
func (t *Tensor) Cos() (*Tensor, error) { return unaryFloat("Cos", op.Cos, t) }

// Tanh is the hyperbolic tangent.
func (t *Tensor) Tanh() (*Tensor, error) { return unaryFloat("Tanh", op.Tanh, t) }

// Sigmoid is 1/(1+exp(-t)).
func (t *Tensor) Sigmoid() (*Tensor, error) { return unaryFloat("Sigmoid", op.Sigmoid, t) }

// ReLU is max(t, 0). NaN stays NaN. Not defined for bool.
func (t *Tensor) ReLU() (*Tensor, error) { return unaryNumeric("ReLU", op.ReLU, t) }

// LeakyReLU is t where t > 0, else slope*t. Like the functions below it only takes floating-point types.
func (t *Tensor) LeakyReLU(slope float64) (*Tensor, error) {
	return activation("LeakyReLU", op.LeakyReLU, t, slope)
}

// GELU is t times the normal distribution function at t: 0.5*t*(1+erf(t/sqrt 2)).
func (t *Tensor) GELU() (*Tensor, error) { return activation("GELU", op.GELU, t) }

// GELUTanh is the tanh approximation of GELU.
func (t *Tensor) GELUTanh() (*Tensor, error) { return activation("GELUTanh", op.GELUTanh, t) }

// SiLU is t*sigmoid(t).
func (t *Tensor) SiLU() (*Tensor, error) { return activation("SiLU", op.SiLU, t) }

// Softplus is log(1+exp(beta*t))/beta, and t itself where beta*t > threshold. PyTorch's defaults are 1 and 20.
func (t *Tensor) Softplus(beta, threshold float64) (*Tensor, error) {
	return activation("Softplus", op.Softplus, t, beta, threshold)
}

// The gradients of the functions above: t is the gradient that arrives, and the argument is what the forward pass saved,
// of the same shape and floating-point type.

// ReLUGrad is the gradient of ReLU, whose output was out: t where out > 0, else 0.
func (t *Tensor) ReLUGrad(out *Tensor) (*Tensor, error) {
	return gradient("ReLUGrad", op.ReLUGrad, t, out)
}

// LeakyReLUGrad is the gradient of LeakyReLU at in.
func (t *Tensor) LeakyReLUGrad(in *Tensor, slope float64) (*Tensor, error) {
	return gradient("LeakyReLUGrad", op.LeakyReLUGrad, t, in, slope)
}

// SigmoidGrad is the gradient of Sigmoid, whose output was out.
func (t *Tensor) SigmoidGrad(out *Tensor) (*Tensor, error) {
	return gradient("SigmoidGrad", op.SigmoidGrad, t, out)
}

// TanhGrad is the gradient of Tanh, whose output was out.
func (t *Tensor) TanhGrad(out *Tensor) (*Tensor, error) {
	return gradient("TanhGrad", op.TanhGrad, t, out)
}

// GELUGrad is the gradient of GELU at in.
func (t *Tensor) GELUGrad(in *Tensor) (*Tensor, error) {
	return gradient("GELUGrad", op.GELUGrad, t, in)
}

// GELUTanhGrad is the gradient of GELUTanh at in.
func (t *Tensor) GELUTanhGrad(in *Tensor) (*Tensor, error) {
	return gradient("GELUTanhGrad", op.GELUTanhGrad, t, in)
}

// SiLUGrad is the gradient of SiLU at in.
func (t *Tensor) SiLUGrad(in *Tensor) (*Tensor, error) {
	return gradient("SiLUGrad", op.SiLUGrad, t, in)
}

// SoftplusGrad is the gradient of Softplus at in.
func (t *Tensor) SoftplusGrad(in *Tensor, beta, threshold float64) (*Tensor, error) {
	return gradient("SoftplusGrad", op.SoftplusGrad, t, in, beta, threshold)
}

func gradient(name string, id op.ID, grad, saved *Tensor, v ...float64) (*Tensor, error) {
	if err := sameFloat(name, grad, saved); err != nil {
		return nil, err
	}
	if !grad.Shape().Equal(saved.Shape()) {
		return nil, shapeErr(name, []Shape{grad.Shape(), saved.Shape()}, "shapes differ")
	}
	return pointwise(name, id, grad.exec, grad.dtype, &grad.layout, numbers(grad.dtype, v...), grad, saved)
}

// sameFloat refuses operands that are not usable, not on one device, or not of one floating-point type.
func sameFloat(name string, ts ...*Tensor) error {
	if err := together(name, ts...); err != nil {
		return err
	}
	dt := ts[0].dtype
	for _, t := range ts {
		if t.dtype != dt {
			return dtypeErr(name, "operands must have one type; To converts", dtypesOf(ts)...)
		}
	}
	if !dt.IsFloat() {
		return dtypeErr(name, needsFloat, dtypesOf(ts)...)
	}
	return nil
}

func dtypesOf(ts []*Tensor) []DType {
	dts := make([]DType, len(ts))
	for i, t := range ts {
		dts[i] = t.dtype
	}
	return dts
}
