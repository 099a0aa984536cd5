package autograd

import "math"

// specialRules are the gradients of inverse, hyperbolic and special functions, and of those activations that are no simple pieces.
func specialRules() {
	ofInput := func(o *op, f func(x *Variable) *Variable) {
		slope(o, func(r *rerun) *Variable { return f(r.input(0)) })
	}
	power := func(p float64, of func(x *Variable) *Variable) func(x *Variable) *Variable {
		return func(x *Variable) *Variable { return of(x).PowScalar(p) }
	}
	below := func(x *Variable) *Variable { return x.Square().RSubScalar(1) } // 1 - x*x
	ofInput(sinh, (*Variable).Cosh)
	ofInput(cosh, (*Variable).Sinh)
	ofInput(asin, power(-0.5, below))
	ofInput(acos, func(x *Variable) *Variable { return below(x).PowScalar(-0.5).Neg() })
	square := func(x *Variable) *Variable { return x.Mul(x) } // Square would double the largest numbers in its gradient
	ofInput(atan, func(x *Variable) *Variable { return square(x).AddScalar(1).Reciprocal() })
	ofInput(asinh, power(-0.5, func(x *Variable) *Variable { return x.Square().AddScalar(1) }))
	ofInput(acosh, power(-0.5, func(x *Variable) *Variable { return square(x).SubScalar(1) }))
	ofInput(atanh, power(-1, below))
	ofInput(erfc, func(x *Variable) *Variable { return x.Square().Neg().Exp().MulScalar(-2 / math.SqrtPi) })
	slope(erfinv, func(r *rerun) *Variable { return r.output().Square().Exp().MulScalar(math.SqrtPi / 2) })
	ofInput(lgamma, (*Variable).Digamma)
	ofInput(digamma, func(x *Variable) *Variable { return x.Polygamma(1) })
	slope(polygamma, func(r *rerun) *Variable { return r.input(0).Polygamma(r.number() + 1) })
	slope(logit, func(r *rerun) *Variable {
		x, eps := r.input(0), r.number()
		slope := func(x *Variable) *Variable { return x.RSubScalar(1).Mul(x).Reciprocal() }
		if eps < 0 {
			return slope(x).MaskedFill(x.LtScalar(0).Or(x.GtScalar(1)), math.NaN())
		}
		beyond := x.LtScalar(eps).Or(x.GtScalar(1 - eps))
		return slope(x.MaskedFill(beyond, 0.5)).MaskedFill(beyond, 0) // not that of 0 and 1, which are infinite
	})
	kernel(xlogy, eachOf(
		func(r *rerun, g *Variable) *Variable {
			x, y := r.input(0), r.input(1)
			return g.Xlogy(y).MaskedFill(x.EqScalar(0).And(y.LeScalar(0)), 0)
		},
		func(r *rerun, g *Variable) *Variable { return g.Mul(r.input(0)).Div(r.input(1)) }))

	ofInput(logSigmoid, func(x *Variable) *Variable { return x.Neg().Sigmoid() })
	ofInput(selu, func(x *Variable) *Variable {
		const alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
		d := x.negative().Exp().MulScalar(alpha)
		return d.MaskedFill(x.GtScalar(0), 1).MulScalar(scale)
	})
	slope(celu, func(r *rerun) *Variable {
		x := r.input(0)
		return x.negative().DivScalar(r.number()).Exp().MaskedFill(x.GtScalar(0), 1)
	})
	each(prelu,
		func(r *rerun, g *Variable) *Variable { return Where(r.input(0).GtScalar(0), g, g.Mul(r.input(1))) },
		func(r *rerun, g *Variable) *Variable { return g.Mul(r.input(0)).MaskedFill(r.input(0).GtScalar(0), 0) })
}
