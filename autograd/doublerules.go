package autograd

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// The gradients of element-wise operations as variables: formulas are those of the rules beside the operations.

func init() {
	piecewise(abs, relu, leakyReLU, hardtanh, hardsigmoid, threshold, hardshrink, softshrink, clamp, maximum, minimum, where, whereScalar, rwhereScalar, dropout, maskedFill, maskedFillOver, clampOver,
		reluInPlace)

	each(add, pass, pass)
	each(sub, pass, negated)
	multilinear(mul)
	each(div,
		func(r *rerun, g *Variable) *Variable { return g.Div(r.input(1)) },
		func(r *rerun, g *Variable) *Variable { return g.Neg().Mul(r.input(0).Div(r.input(1)).Div(r.input(1))) })
	kernel(pow, eachOf(powBase, powExponent))
	each(fmod, pass, quotient(truncated))
	each(remainder, pass, quotient(floored))
	kernel(atan2, eachOf(
		func(r *rerun, g *Variable) *Variable { return g.Mul(r.quantity(1)).Div(r.squares()) },
		func(r *rerun, g *Variable) *Variable { return g.Mul(r.quantity(0)).Neg().Div(r.squares()) }))
	kernel(logAddExp, eachOf(
		func(r *rerun, g *Variable) *Variable { return g.Mul(r.quantity(0).Sub(r.quantity(1)).Sigmoid()) },
		func(r *rerun, g *Variable) *Variable { return g.Mul(r.quantity(1).Sub(r.quantity(0)).Sigmoid()) }))

	for _, o := range []*op{addScalar, subScalar, addScalarTo, fmodScalar, remainderScalar, frac, contiguous, toMemoryFormat, expand, to} {
		each(o, pass)
	}
	each(rsubScalar, negated)
	each(neg, negated)
	scale := func(r *rerun, g *Variable) *Variable { return g.MulScalar(r.number()) }
	each(mulScalar, scale)
	each(mulScalarBy, scale)
	each(divScalar, func(r *rerun, g *Variable) *Variable { return g.DivScalar(r.number()) })
	each(rdivScalar, func(r *rerun, g *Variable) *Variable {
		return g.MulScalar(-r.number()).Div(r.input(0)).Div(r.input(0))
	})
	kernel(powScalar, eachOf(powNumber))
	kernel(rpowScalar, eachOf(func(r *rerun, g *Variable) *Variable {
		if y := r.output(); r.number() == 0 { // it is -infinity where the power is infinite, and 0 elsewhere
			logarithm := y.Detach().ZerosLike().MaskedFill(y.GtScalar(1), math.Inf(-1))
			return g.Mul(y.MaskedFill(y.LeScalar(1), 0).Mul(logarithm))
		}
		return g.Mul(r.output()).MulScalar(math.Log(r.number()))
	}))

	for _, o := range []*op{sign, floor, ceil, round, trunc} {
		each(o, flat(0))
	}
	each(floorDivide, flat(0), flat(1))

	ofOutput := func(f func(y *Variable) *Variable, ops ...*op) {
		for _, o := range ops {
			slope(o, func(r *rerun) *Variable { return f(r.output()) })
		}
	}
	ofInput := func(o *op, f func(x *Variable) *Variable) {
		slope(o, func(r *rerun) *Variable { return f(r.input(0)) })
	}
	ofOutput(func(y *Variable) *Variable { return y }, exp, expInPlace)
	ofOutput(func(y *Variable) *Variable { return y.MulScalar(math.Ln2) }, exp2)
	ofOutput(func(y *Variable) *Variable { return y.AddScalar(1) }, expm1)
	ofOutput(func(y *Variable) *Variable { return y.MulScalar(2).Reciprocal() }, sqrt)
	ofOutput(func(y *Variable) *Variable { return y.PowScalar(3).MulScalar(-0.5) }, rsqrt)
	ofOutput(func(y *Variable) *Variable { return y.Square().Neg() }, reciprocal)
	ofOutput(func(y *Variable) *Variable { return y.Square().AddScalar(1) }, tan)
	ofOutput(func(y *Variable) *Variable { return y.Square().RSubScalar(1) }, tanh, tanhInPlace)
	ofOutput(func(y *Variable) *Variable { return y.RSubScalar(1).Mul(y) }, sigmoid, sigmoidInPlace)
	ofInput(square, func(x *Variable) *Variable { return x.MulScalar(2) })
	ofInput(log, (*Variable).Reciprocal)
	ofInput(log2, func(x *Variable) *Variable { return x.Reciprocal().MulScalar(math.Log2E) })
	ofInput(log10, func(x *Variable) *Variable { return x.Reciprocal().MulScalar(math.Log10E) })
	ofInput(log1p, func(x *Variable) *Variable { return x.AddScalar(1).Reciprocal() })
	ofInput(sin, (*Variable).Cos)
	ofInput(cos, func(x *Variable) *Variable { return x.Sin().Neg() })
	ofInput(erf, func(x *Variable) *Variable { return x.Square().Neg().Exp().MulScalar(2 / math.SqrtPi) })

	ofInput(silu, func(x *Variable) *Variable { s := x.Sigmoid(); return s.Add(x.Mul(s.RSubScalar(1).Mul(s))) })
	ofInput(gelu, func(x *Variable) *Variable {
		x = x.Hardtanh(-40, 40) // beyond which the density is 0, and times an infinity would be NaN
		density := x.Square().MulScalar(-0.5).Exp().MulScalar(1 / math.Sqrt(2*math.Pi))
		return x.MulScalar(math.Sqrt2 / 2).Erf().AddScalar(1).MulScalar(0.5).Add(x.Mul(density))
	})
	ofInput(geluTanh, geluTanhSlope)
	ofInput(softsign, func(x *Variable) *Variable {
		y := x.Abs().AddScalar(1)
		return y.Mul(y).Reciprocal() // Square would double the largest numbers
	})
	ofInput(mish, func(x *Variable) *Variable {
		t := x.Softplus(1, 20).Tanh()
		return t.Add(x.Mul(x.Sigmoid()).Mul(t.Square().RSubScalar(1)))
	})
	ofInput(hardswish, func(x *Variable) *Variable {
		x = Where(x.Ne(x), x.Detach(), x) // as in PyTorch NaN has the derivative NaN, of which the derivative is 0
		inner := x.DivScalar(3).AddScalar(0.5)
		return inner.MaskedFill(x.LeScalar(-3), 0).MaskedFill(x.GeScalar(3), 1)
	})
	slope(softplus, func(r *rerun) *Variable {
		x, s := r.input(0), r.n.arg.([2]float64)
		scaled := x.MulScalar(s[0])
		return scaled.Sigmoid().MaskedFill(scaled.GtScalar(s[1]), 1)
	})
	slope(elu, func(r *rerun) *Variable {
		x := r.input(0)
		below := x.negative().Exp().MulScalar(r.number())
		return below.MaskedFill(x.GtScalar(0), 1)
	})

	specialRules()

	toStart := func(r *rerun, g *Variable) *Variable { return r.input(2).RSubScalar(1).Mul(g) }
	toEnd := func(r *rerun, g *Variable) *Variable { return g.Mul(r.input(2)) }
	each(lerp, toStart, toEnd, func(r *rerun, g *Variable) *Variable { return r.input(1).Sub(r.input(0)).Mul(g) })
	each(lerpOver, toStart, toEnd, func(r *rerun, g *Variable) *Variable { return r.input(1).Sub(r.before()).Mul(g) })
	for _, o := range []*op{lerpScalar, lerpScalarOver} {
		each(o, func(r *rerun, g *Variable) *Variable { return g.MulScalar(1 - r.number()) }, scale)
	}
	times := func(other int) func(r *rerun, g *Variable) *Variable {
		return func(r *rerun, g *Variable) *Variable { return g.Mul(r.input(other).MulScalar(r.number())) }
	}
	each(addCMul, pass, times(2), times(1))
	each(addCDiv, pass,
		func(r *rerun, g *Variable) *Variable { return g.MulScalar(r.number()).Div(r.input(2)) },
		func(r *rerun, g *Variable) *Variable {
			return r.input(1).To(g.dtype).MulScalar(-r.number()).Div(r.input(2)).Div(r.input(2)).Mul(g)
		})

	each(addTo, pass, scale)
	each(subFrom, pass, negated)
	each(mulBy,
		func(r *rerun, g *Variable) *Variable { return g.Mul(r.input(1)) },
		func(r *rerun, g *Variable) *Variable { return g.Mul(r.before()) })
	each(divBy,
		func(r *rerun, g *Variable) *Variable { return g.Div(r.input(1)) },
		func(r *rerun, g *Variable) *Variable { return g.Mul(r.output()).Div(r.input(1)).Neg() })
}

// flat is the gradient of input i of an operation that does not depend on it but at single points.
func flat(i int) func(r *rerun, g *Variable) *Variable {
	return func(r *rerun, _ *Variable) *Variable { return r.n.g.zerosLike(r.n.in[i]) }
}

// before is what input 0 of an operation in place was, of which the operation has stashed a copy.
func (r *rerun) before() *Variable {
	if s := r.saved(stash); s != nil {
		return r.n.in[0].as(s.val)
	}
	return r.fails("what was overwritten is not saved")
}

// fails is the result of a rule that cannot go on.
func (r *rerun) fails(why string) *Variable {
	return r.n.g.fail(called(r.n.op.name, higherOrder(why)))
}

// squares is the sum of the squares of both inputs; Square would double the largest numbers in its gradient.
func (r *rerun) squares() *Variable {
	a, b := r.quantity(0), r.quantity(1)
	return a.Mul(a).Add(b.Mul(b))
}

// negative is v where it is negative, else 0, so that nothing overflows; like PyTorch's second derivatives of ELU and its like its own gradient is 0 at 0.
func (v *Variable) negative() *Variable { return v.Hardtanh(math.Inf(-1), 0) }

// powBase is g * u*v^(u-1), and 0 where u is 0.
func powBase(r *rerun, g *Variable) *Variable {
	v, u := r.input(0), r.input(1)
	none := u.EqScalar(0)
	return g.Mul(u).Mul(v.Pow(u.SubScalar(1).MaskedFill(none, 1))).MaskedFill(none, 0) // not v^-1, whose derivative may be infinite
}

// powExponent is g * v^u*log(v), and 0 where v is 0 and u is not negative.
func powExponent(r *rerun, g *Variable) *Variable {
	v, u := r.input(0), r.input(1)
	limit := v.EqScalar(0).And(u.GeScalar(0))
	return g.Mul(r.output().Mul(RWhereScalar(limit, 1, v).Log()).MaskedFill(limit, 0))
}

// powNumber is g * p*v^(p-1), and 0 for p = 0.
func powNumber(r *rerun, g *Variable) *Variable {
	switch p := r.number(); p {
	case 0:
		return g.MulScalar(0)
	case 1:
		return g
	default:
		return g.Mul(r.input(0).PowScalar(p - 1).MulScalar(p))
	}
}

// quotient is -g times the whole part of v/u, which does not change but at single points.
func quotient(whole func(v, u *tensor.Tensor) (*tensor.Tensor, error)) func(r *rerun, g *Variable) *Variable {
	return func(r *rerun, g *Variable) *Variable {
		v, u := r.input(0), r.input(1)
		if r.n.g.err != nil {
			return r.n.g.poison
		}
		q := r.n.g.New(func(tensor.Exec) (*tensor.Tensor, error) { return whole(v.tensor(), u.tensor()) })
		return g.Mul(q).Neg()
	}
}

// geluTanhSlope is the derivative of x*s with s = (1 + tanh(a*(x + b*x³)))/2, which is sigmoid(2a*(x + b*x³)): far below 0 it loses no digits, where
// 1 + tanh does.
func geluTanhSlope(x *Variable) *Variable {
	const b = 0.044715
	a := math.Sqrt(8 / math.Pi)
	x = x.Hardtanh(-100, 100) // beyond which s is 0 or 1; NaN has a gradient, which is NaN
	square := x.Square()
	s := square.MulScalar(b).AddScalar(1).Mul(x).MulScalar(a).Sigmoid()
	inner := square.MulScalar(3 * b).AddScalar(1).MulScalar(a)
	return s.Add(x.Mul(s.RSubScalar(1).Mul(s)).Mul(inner))
}
