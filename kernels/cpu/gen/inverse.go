package main

import "math"

// Inverses of trigonometric and hyperbolic functions. The coefficients of float32 are those of testdata/fit32.py.

// Half of pi in two parts, the first of which is a float32.
const (
	halfPiFirst = 1.57079637050628662109375
	halfPiRest  = -4.37113900018624283e-8
)

// arctangent is the angle whose tangent is t, for t from 0 to 1.
func (p *program) arctangent(t *node) *node {
	z := p.times(t, t)
	q := p.polynomial(z, -.333332991, .199985483, -.142642416, .109521853, -.0840344907, .0579575718, -.0311778241, .010914594, -.00179361907)
	return p.fma(p.times(t, z), q, t)
}

// bitsWhere are the bits of a constant where m is, else 0.
func (p *program) bitsWhere(m *node, value float64) *node {
	return p.asNumber(p.and(p.asInteger(m), p.asInteger(p.value(value))))
}

// atan is the angle of |x|, or pi/2 less that of 1/|x|. Both bounds give NaN for it.
func (p *program) atan(x *node) *node {
	a, one := p.magnitude(x), p.value(1)
	angle := p.arctangent(p.over(p.least(one, a), p.most(one, a)))
	far := p.compare(greater, a, one)
	angle = p.asNumber(p.xor(p.asInteger(angle), p.and(p.asInteger(far), p.signBit())))
	angle = p.plus(p.bitsWhere(far, halfPiFirst), p.plus(angle, p.bitsWhere(far, halfPiRest)))
	return p.withSign(angle, p.sign(x))
}

// atan2 is the angle to the axis that is nearer, from the axis that x and y say. Of two zeros the tangent is 0, of two infinities 1.
func (p *program) atan2(y, x *node) *node {
	a, b, one, zero := p.magnitude(y), p.magnitude(x), p.value(1), p.value(0)
	high := p.most(a, b)
	t := p.over(p.least(a, b), high)
	t = p.pick(p.compare(equal, a, b), one, t)
	angle := p.arctangent(p.pick(p.compare(equal, high, zero), zero, t))

	steep := p.compare(greater, a, b)
	back := p.and(p.xor(p.asInteger(steep), p.asInteger(x)), p.signBit())
	angle = p.asNumber(p.xor(p.asInteger(angle), back))
	first := p.pick(steep, p.value(halfPiFirst), p.choose(x, p.value(2*halfPiFirst), zero))
	angle = p.plus(first, p.fma(first, p.value(halfPiRest/halfPiFirst), angle))

	sum := p.plus(a, b) // NaN if one of them is
	return p.withSign(p.pick(p.compare(unequal, sum, sum), sum, angle), p.sign(y))
}

// arcsine is the angle whose sine is |x|, or half of pi/2 less that where |x| > 1/2, as far tells: of the root of (1-|x|)/2. It has two parts.
func (p *program) arcsine(x *node) (first, rest, far *node) {
	a, half := p.magnitude(x), p.value(0.5)
	far = p.compare(greater, a, half)
	z := p.pick(far, p.fnma(half, a, half), p.times(a, a))
	s := p.pick(far, p.root(z), a)
	q := p.polynomial(z, .166667525, .0749529764, .0454703759, .0241795148, .0421663083)
	return s, p.times(p.times(s, z), q), far
}

func (p *program) asin(x *node) *node {
	s, rest, far := p.arcsine(x)
	// Half of pi/2 is added last, so that what is before is small and loses little. With two thirds of the rest of pi/2, which that sum rounds
	// to all or nothing, the arcsine of 1 is the nearest number.
	two, half := p.value(2), p.value(halfPiFirst/2)
	above := p.plus(p.plus(p.fnma(two, s, half), p.fnma(two, rest, p.value(halfPiRest*2/3))), half)
	return p.withSign(p.pick(far, above, p.plus(s, rest)), p.sign(x))
}

// acos is pi/2 less the arcsine, or twice the angle, or pi less that where x is negative.
func (p *program) acos(x *node) *node {
	s, rest, far := p.arcsine(x)
	angle := p.plus(s, rest)
	angle = p.pick(far, p.plus(angle, angle), angle)
	first := p.pick(far, p.choose(x, p.value(2*halfPiFirst), p.value(0)), p.value(halfPiFirst))
	// The angle is taken away where x is positive and near 0, or negative and far from it.
	minus := p.xor(p.sign(x), p.pick(far, p.whole(0), p.signBit()))
	angle = p.asNumber(p.xor(p.asInteger(angle), minus))
	return p.plus(first, p.fma(first, p.value(halfPiRest/halfPiFirst), angle))
}

// Inverses of hyperbolic functions compute in float64, as logarithms, and as the first terms of series near 0.

const nearZero = 0x1p-10

// logWide is the natural logarithm, as log2Wide.
func (p *program) logWide(x *node) *node { return p.times(p.log2Wide(x), p.value(math.Ln2)) }

// series is x + c*x^3 where x is near 0, else y.
func (p *program) series(x *node, c float64, y *node) *node {
	cube := p.times(p.times(x, x), x)
	return p.pick(p.compare(less, x, p.value(nearZero)), p.fma(cube, p.value(c), x), y)
}

func (p *program) asinh(x *node) *node {
	a := p.magnitude(x)
	y := p.logWide(p.plus(a, p.root(p.fma(a, a, p.value(1)))))
	return p.withSign(p.series(a, -1.0/6, y), p.sign(x))
}

func (p *program) acosh(x *node) *node {
	one := p.value(1)
	y := p.logWide(p.plus(x, p.root(p.times(p.minus(x, one), p.plus(x, one)))))
	return p.pick(p.compare(less, x, one), p.value(math.NaN()), y)
}

func (p *program) atanh(x *node) *node {
	a, one := p.magnitude(x), p.value(1)
	y := p.times(p.logWide(p.over(p.plus(one, a), p.minus(one, a))), p.value(0.5))
	y = p.pick(p.compare(greater, a, one), p.value(math.NaN()), y)
	return p.withSign(p.series(a, 1.0/3, y), p.sign(x))
}
