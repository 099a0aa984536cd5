package main

// elementary are functions without transcendental ones: roundings, bounds, choices, and derivatives that are quotients and roots. Those that must not
// overflow on the way, or lose what two numbers differ in, compute in float64.
func elementary() []function {
	x := func(f func(p *program, x *node) *node) func(*program) {
		return func(p *program) { p.result(f(p, p.input(0))) }
	}
	// gx has the incoming gradient first.
	gx := func(f func(p *program, g, x *node) *node) func(*program) {
		return func(p *program) { p.result(f(p, p.input(0), p.input(1))) }
	}
	xyz := func(f func(p *program, x, y, z *node) *node) func(*program) {
		return func(p *program) { p.result(f(p, p.input(0), p.input(1), p.input(2))) }
	}
	// above is v where a > 0, else w.
	above := func(p *program, a, v, w *node) *node { return p.pick(p.compare(greater, a, p.value(0)), v, w) }
	// bend is v where a > 0, else v*slope.
	bend := func(p *program, v, a, slope *node) *node { return above(p, a, v, p.times(v, slope)) }
	// sixth is min(max(a+3, 0), 6), and NaN for it.
	sixth := func(p *program, a *node) *node {
		return p.least(p.value(6), p.most(p.value(0), p.plus(a, p.value(3))))
	}
	within := func(p *program, a, lo, hi *node) *node {
		return p.and(p.compare(greaterEq, a, lo), p.compare(lessEqual, a, hi))
	}
	one := func(p *program) *node { return p.value(1) }
	zero := func(p *program) *node { return p.value(0) }
	return []function{
		{"neg", "-a", x((*program).negative)},
		{"abs", "the magnitude of a", x((*program).magnitude)},
		{"sign", "1, 0 or -1", x(func(p *program, a *node) *node {
			above, below := p.asInteger(p.compare(greater, a, zero(p))), p.asInteger(p.compare(less, a, zero(p))) // -1, or 0
			return p.toNumber(p.minus(below, above))
		})},
		{"square", "a*a", x(func(p *program, a *node) *node { return p.times(a, a) })},
		{"squareGrad", "a*2*b", gx(func(p *program, g, a *node) *node { return p.times(g, p.plus(a, a)) })},
		{"floor", "the next whole number down", x((*program).floor)},
		{"ceil", "the next whole number up", x((*program).ceil)},
		{"nearest", "the nearest whole number, the even one of two", x((*program).round)},
		{"trunc", "the next whole number towards 0", x((*program).trunc)},
		{"frac", "a without that", x(func(p *program, a *node) *node { return p.minus(a, p.trunc(a)) })},
		{"clamp", "a, or the bound that it is beyond", x(func(p *program, a *node) *node {
			a = p.pick(p.compare(less, a, p.scalar(0)), p.scalar(0), a)
			return p.pick(p.compare(greater, a, p.scalar(1)), p.scalar(1), a)
		})},
		{"clampGrad", "a where b is within the bounds", gx(func(p *program, g, a *node) *node {
			return p.pick(within(p, a, p.scalar(0), p.scalar(1)), g, zero(p))
		})},
		{"hardtanhGrad", "a where b is between the bounds, or NaN", gx(func(p *program, g, a *node) *node {
			return p.pick(p.or(p.compare(lessEqual, a, p.scalar(0)), p.compare(greaterEq, a, p.scalar(1))), zero(p), g)
		})},
		{"lerp", "a+c*(b-a), from the nearer end", xyz(func(p *program, a, b, w *node) *node {
			d := p.minus(b, a)
			return p.pick(p.compare(less, p.magnitude(w), p.value(0.5)), p.plus(a, p.times(w, d)), p.minus(b, p.times(d, p.minus(one(p), w))))
		})},
		{"addCMul", "a+value*b*c", xyz(func(p *program, a, b, c *node) *node {
			return p.plus(a, p.times(p.times(p.scalar(0), b), c))
		})},
		{"addCDiv", "a+value*b/c", xyz(func(p *program, a, b, c *node) *node {
			return p.plus(a, p.over(p.times(p.scalar(0), b), c))
		})},
		{"softsign", "a/(1+|a|)", x(func(p *program, a *node) *node { return p.over(a, p.plus(one(p), p.magnitude(a))) })},
		{"softsignGrad", "a/(1+|b|)^2", wide(gx(func(p *program, g, a *node) *node {
			d := p.plus(one(p), p.magnitude(a))
			return p.over(g, p.times(d, d))
		}))},
		{"hardswish", "a*min(max(a+3, 0), 6)/6", x(func(p *program, a *node) *node { return p.over(p.times(a, sixth(p, a)), p.value(6)) })},
		{"hardswishGrad", "a times the derivative of hardswish at b", wide(gx(func(p *program, g, a *node) *node {
			middle := p.times(g, p.plus(p.over(a, p.value(3)), p.value(0.5)))
			return p.pick(p.compare(greaterEq, a, p.value(3)), g, p.pick(p.compare(lessEqual, a, p.value(-3)), zero(p), middle))
		}))},
		{"hardsigmoid", "min(max(a+3, 0), 6)/6", x(func(p *program, a *node) *node { return p.over(sixth(p, a), p.value(6)) })},
		{"hardsigmoidGrad", "a/6 where b is between -3 and 3", gx(func(p *program, g, a *node) *node {
			m := p.and(p.compare(greater, a, p.value(-3)), p.compare(less, a, p.value(3)))
			return p.pick(m, p.over(g, p.value(6)), zero(p))
		})},
		{"leakyReLU", "a where it is positive, else a*slope", x(func(p *program, a *node) *node { return bend(p, a, a, p.scalar(0)) })},
		{"leakyReLUGrad", "a where b is positive, else a*slope", gx(func(p *program, g, a *node) *node { return bend(p, g, a, p.scalar(0)) })},
		{"prelu", "a where it is positive, else a*b", gx(func(p *program, a, w *node) *node { return bend(p, a, a, w) })},
		{"preluGrad", "a where b is positive, else a*c", xyz(func(p *program, g, a, w *node) *node { return bend(p, g, a, w) })},
		{"preluGradWeight", "0 where b is positive, else a*b", xyz(func(p *program, g, a, _ *node) *node { return above(p, a, zero(p), p.times(g, a)) })},
		{"threshold", "a where it is above the edge, else value", x(func(p *program, a *node) *node {
			return p.pick(p.compare(lessEqual, a, p.scalar(0)), p.scalar(1), a)
		})},
		{"thresholdGrad", "a where b is above the edge", gx(func(p *program, g, a *node) *node {
			return p.pick(p.compare(lessEqual, a, p.scalar(0)), zero(p), g)
		})},
		{"hardshrink", "a where it is outside of -lambda..lambda", x(func(p *program, a *node) *node {
			return p.pick(within(p, a, p.negative(p.scalar(0)), p.scalar(0)), zero(p), a)
		})},
		{"hardshrinkGrad", "a where b is outside of -lambda..lambda", gx(func(p *program, g, a *node) *node {
			return p.pick(within(p, a, p.negative(p.scalar(0)), p.scalar(0)), zero(p), g)
		})},
		{"softshrink", "a nearer to 0 by lambda, or 0", x(func(p *program, a *node) *node {
			l := p.scalar(0)
			low := p.pick(p.compare(less, a, p.negative(l)), p.plus(a, l), p.times(a, zero(p)))
			return p.pick(p.compare(greater, a, l), p.minus(a, l), low)
		})},
		{"log2Grad", "a/(b*ln 2)", wide(gx(func(p *program, g, a *node) *node { return p.over(g, p.times(a, p.value(ln2))) }))},
		{"log10Grad", "a/(b*ln 10)", wide(gx(func(p *program, g, a *node) *node { return p.over(g, p.times(a, p.value(ln10))) }))},
		{"exp2Grad", "a*b*ln 2", wide(gx(func(p *program, g, a *node) *node { return p.times(g, p.times(a, p.value(ln2))) }))},
		{"tanGrad", "a*(1+b*b)", wide(gx(func(p *program, g, a *node) *node { return p.times(g, p.plus(one(p), p.times(a, a))) }))},
		{"asinGrad", "a/sqrt((1-b)*(1+b))", wide(gx(func(p *program, g, a *node) *node {
			return p.over(g, p.root(p.times(p.minus(one(p), a), p.plus(one(p), a))))
		}))},
		{"acosGrad", "-a/sqrt((1-b)*(1+b))", wide(gx(func(p *program, g, a *node) *node {
			return p.over(p.negative(g), p.root(p.times(p.minus(one(p), a), p.plus(one(p), a))))
		}))},
		{"atanGrad", "a/(1+b*b)", wide(gx(func(p *program, g, a *node) *node { return p.over(g, p.plus(one(p), p.times(a, a))) }))},
		{"asinhGrad", "a/sqrt(b*b+1)", wide(gx(func(p *program, g, a *node) *node { return p.over(g, p.root(p.plus(p.times(a, a), one(p)))) }))},
		{"acoshGrad", "a/sqrt((b-1)*(b+1))", wide(gx(func(p *program, g, a *node) *node { // at -1 the root is -0
			return p.over(g, p.magnitude(p.root(p.times(p.minus(a, one(p)), p.plus(a, one(p))))))
		}))},
		{"atanhGrad", "a/((1-b)*(1+b))", wide(gx(func(p *program, g, a *node) *node {
			return p.over(g, p.times(p.minus(one(p), a), p.plus(one(p), a)))
		}))},
	}
}

const (
	ln2  = 0.693147180559945309417232121458176568
	ln10 = 2.30258509299404568401799145468436421
)
