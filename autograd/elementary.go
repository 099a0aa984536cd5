package autograd

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// Functions of single elements that are made of others.

var (
	hypot      = composite{name: "hypot"}
	sinc       = composite{name: "sinc"}
	signbit    = composite{name: "signbit"}
	copysign   = composite{name: "copysign"}
	ldexp      = composite{name: "ldexp"}
	heaviside  = composite{name: "heaviside"}
	floatPower = composite{name: "float_power"}
	deg2rad    = composite{name: "deg2rad"}
	rad2deg    = composite{name: "rad2deg"}
	logAddExp2 = composite{name: "logaddexp2"}
	fmax       = composite{name: "fmax"}
	fmin       = composite{name: "fmin"}
	isPosInf   = composite{name: "isposinf"}
	isNegInf   = composite{name: "isneginf"}
	tanhshrink = composite{name: "tanhshrink"}
	rrelu      = composite{name: "rrelu"}
)

// asFloat is v, of float32 if it is of no floating-point type.
func (v *Variable) asFloat() *Variable {
	if v.dtype.IsFloat() {
		return v
	}
	return v.To(tensor.Float32)
}

// asFloatWith is v, of u's type if that alone is of floating point, and of float32 if neither is.
func (v *Variable) asFloatWith(u *Variable) *Variable {
	if !v.dtype.IsFloat() && u.dtype.IsFloat() {
		return v.To(u.dtype)
	}
	return v.asFloat()
}

// pair runs a function of two that broadcast.
func (c composite) pair(v, u *Variable, check func(vs ...*Variable) error, f func(v, u *Variable) *Variable) *Variable {
	in := []*Variable{v, u}
	return c.run(in, func() error {
		err := c.broadcast(in...)
		if err == nil && check != nil {
			err = check(in...)
		}
		return err
	}, func(in []*Variable) *Variable { return f(in[0], in[1]) })
}

// alone runs a function of one.
func (c composite) alone(v *Variable, f func(v *Variable) *Variable) *Variable {
	return c.run([]*Variable{v}, nil, func(in []*Variable) *Variable { return f(in[0]) })
}

// Hypot is the square root of v² + u², whose squares do not overflow. Its gradient is NaN where both are 0, as in PyTorch.
func (v *Variable) Hypot(u *Variable) *Variable {
	return hypot.pair(v, u, hypot.floats, func(v, u *Variable) *Variable {
		scale := v.Detach().Abs().Maximum(u.Detach().Abs())
		scale = scale.MaskedFill(scale.EqScalar(0).Or(scale.IsFinite().Not()), 1)
		root := v.Div(scale).Square().Add(u.Div(scale).Square()).Sqrt().Mul(scale)
		return root.MaskedFill(v.IsInf().Or(u.IsInf()), math.Inf(1))
	})
}

// Sinc is sin(πv)/(πv), and 1 where v is 0.
func (v *Variable) Sinc() *Variable {
	return sinc.alone(v, func(v *Variable) *Variable {
		v = v.asFloat()
		zero := v.EqScalar(0)
		x := v.MulScalar(math.Pi).MaskedFill(zero, 1)
		return x.Sin().Div(x).MaskedFill(zero, 1)
	})
}

// Signbit is true where v is negative, also for -0. NaN counts as positive.
func (v *Variable) Signbit() *Variable {
	return signbit.alone(v, func(v *Variable) *Variable {
		switch {
		case v.dtype.IsFloat():
			return v.LtScalar(0).Or(v.Detach().Reciprocal().LtScalar(0))
		case v.dtype == tensor.Bool:
			return v.And(v.Not())
		}
		return v.LtScalar(0)
	})
}

// Copysign is the absolute value of v with the sign of u, whose gradient is 0.
func (v *Variable) Copysign(u *Variable) *Variable {
	return copysign.pair(v, u, nil, func(v, u *Variable) *Variable {
		size := v.asFloatWith(u).Abs()
		if u.dtype.IsFloat() {
			size = size.Add(u.MaskedFill(v.g.Ones(tensor.Bool), 0)) // zeros, whose gradient is 0
		}
		return Where(u.Signbit(), size.Neg(), size)
	})
}

// Ldexp is v * 2**u.
func (v *Variable) Ldexp(u *Variable) *Variable {
	return ldexp.pair(v, u, nil, func(v, u *Variable) *Variable { return v.Mul(u.asFloat().RPowScalar(2)) })
}

// Heaviside is 0 where v is negative or NaN, 1 where it is positive, and values where it is 0. It has no gradient, as in PyTorch.
func (v *Variable) Heaviside(values *Variable) *Variable {
	return heaviside.pair(v, values, func(vs ...*Variable) error {
		if v.dtype != values.dtype {
			return &tensor.DTypeError{Op: heaviside.name, DTypes: dtypesOf(vs), Detail: "both must be of one type"}
		}
		return nil
	}, func(v, values *Variable) *Variable {
		v, values = v.Detach(), values.Detach()
		zero := v.EqScalar(0)
		return Where(zero, values, v.GtScalar(0).To(v.dtype))
	})
}

// FloatPower is v to the power of u, in float64.
func (v *Variable) FloatPower(u *Variable) *Variable {
	return floatPower.pair(v, u, nil, func(v, u *Variable) *Variable { return v.To(tensor.Float64).Pow(u.To(tensor.Float64)) })
}

// Deg2Rad makes radians of degrees.
func (v *Variable) Deg2Rad() *Variable {
	return deg2rad.alone(v, func(v *Variable) *Variable { return v.MulScalar(math.Pi / 180) })
}

// Rad2Deg makes degrees of radians.
func (v *Variable) Rad2Deg() *Variable {
	return rad2deg.alone(v, func(v *Variable) *Variable { return v.MulScalar(180 / math.Pi) })
}

// LogAddExp2 is log2(2**v + 2**u), which does not overflow.
func (v *Variable) LogAddExp2(u *Variable) *Variable {
	return logAddExp2.pair(v, u, logAddExp2.floats, func(v, u *Variable) *Variable {
		return v.MulScalar(math.Ln2).LogAddExp(u.MulScalar(math.Ln2)).MulScalar(1 / math.Ln2)
	})
}

// FMax is the greater of v and u, and the other one where one of them is NaN. Of equal ones v gets the gradient.
func (v *Variable) FMax(u *Variable) *Variable {
	return fmax.pair(v, u, nil, func(v, u *Variable) *Variable { return chosen(v.Ge(u), v, u) })
}

// FMin is the lesser of v and u, and the other one where one of them is NaN. Of equal ones v gets the gradient.
func (v *Variable) FMin(u *Variable) *Variable {
	return fmin.pair(v, u, nil, func(v, u *Variable) *Variable { return chosen(v.Le(u), v, u) })
}

// chosen is v where first is true or u is NaN, else u.
func chosen(first, v, u *Variable) *Variable { return Where(first.Or(u.IsNaN()), v, u) }

// IsPosInf is true where v is +Inf.
func (v *Variable) IsPosInf() *Variable {
	return isPosInf.alone(v, func(v *Variable) *Variable { return v.infinite(1) })
}

// IsNegInf is true where v is -Inf.
func (v *Variable) IsNegInf() *Variable {
	return isNegInf.alone(v, func(v *Variable) *Variable { return v.infinite(-1) })
}

func (v *Variable) infinite(sign int) *Variable {
	if !v.dtype.IsFloat() {
		return v.IsInf() // nowhere
	}
	return v.EqScalar(math.Inf(sign))
}

// Tanhshrink is v - tanh(v).
func (v *Variable) Tanhshrink() *Variable {
	return tanhshrink.alone(v, func(v *Variable) *Variable { return v.Sub(v.Tanh()) })
}

// RReLU is v where it is positive, else v times a slope: in training a random number between lower and upper for each element, else their mean.
// PyTorch's defaults are 1/8, 1/3 and false.
func (v *Variable) RReLU(lower, upper float64, training bool) *Variable {
	return rrelu.run([]*Variable{v}, func() error {
		if !(lower <= upper) || math.IsInf(upper-lower, 0) {
			return rrelu.values("the slopes are from %v to %v", lower, upper)
		}
		return rrelu.floats(v)
	}, func(in []*Variable) *Variable {
		x := in[0]
		if !training {
			return x.LeakyReLU((lower + upper) / 2)
		}
		slope := x.Detach().RandLike().MulScalar(upper - lower).AddScalar(lower)
		return Where(x.GtScalar(0), x, x.Mul(slope))
	})
}
