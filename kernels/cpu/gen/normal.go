package main

import "math"

// The error function and the normal distribution.

// erfSmall is the error function of numbers up to 1.
func (p *program) erfSmall(a *node) *node {
	return p.fma(a, p.polynomial(p.times(a, a), .12837916612625122, -.3761262595653534, .1128358542919159, -.026853812858462334, .005188327748328447,
		-.0008010193705558777, 7.853861461626366e-05), a)
}

func (p *program) erf(x *node) *node {
	a := p.magnitude(x)
	b := p.least(p.value(3.95), a)
	q := p.polynomial(b, -.00016920398, 1.12948835, .633400857, .108220369, -.0250806063, .00415625051, -.000431392633, 2.08285328e-5)
	large := p.minus(p.value(1), p.expSmall(p.negative(q)))
	return p.withSign(p.pick(p.compare(less, a, p.value(1)), p.erfSmall(a), large), p.sign(x))
}

// squareDecay is exp(-a*a*factor), for a factor of 1 or 1/2, as decay.
func (p *program) squareDecay(a *node, factor float64) (first, second *node) {
	z := p.times(a, p.value(-factor))
	s := p.times(z, a)
	return p.expDown(s, p.fms(z, a, s))
}

// tailFactor is P(q)/(a+k) with q = (a-k)/(a+k), for a that is not negative.
func (p *program) tailFactor(a *node, k float64, c ...float64) *node {
	t := p.over(p.value(1), p.plus(a, p.value(k)))
	q := p.fnma(p.value(2*k), t, p.value(1))
	return p.times(p.polynomial(q, c...), t)
}

// normalTail is the normal distribution function at -a and exp(-a*a/2), both times 2^64, for an a that is not negative; NaN stays. The first is 0 at infinity.
func (p *program) normalTail(a *node) (tail, gauss *node) {
	factor := p.tailFactor(a, 2.5, .7066566348075867, -.43369200825691223, .13198696076869965, .009235905483365059, -.01638605445623398,
		-.001600928488187492, .0025234294589608908, .0006843517767265439, -.0003110263787675649, -.000157357266289182)
	b := p.least(p.value(14.6), a)
	z := p.times(b, p.value(-0.5))
	s := p.times(z, b)
	gauss = p.scaledExp(s, p.fms(z, b, s))
	return p.times(gauss, factor), gauss
}

func (p *program) erfc(x *node) *node {
	a := p.least(p.value(10.3), p.magnitude(x))
	first, second := p.squareDecay(a, 1)
	v := p.times(first, p.tailFactor(a, 2.5, 1.0540318489074707, -.8046517372131348, .4539141356945038, -.1712547093629837,
		.02836056612432003, .008421621285378933, -.004803318064659834, -.0005257321172393858, .0006279338267631829, .0001416716113453731))
	v = p.times(v, second)
	v = p.pick(p.compare(less, a, p.value(0.6)), p.minus(p.value(1), p.erfSmall(a)), v)
	return p.pick(p.compare(less, x, p.value(0)), p.minus(p.value(2), v), v)
}

// gelu is max(x, 0) - |x|*tail: NaN at -infinity, where the tail is 0.
func (p *program) gelu(x *node) *node {
	a := p.magnitude(p.least(p.value(14.6), x)) // beyond which the tail counts for nothing
	tail, _ := p.normalTail(a)
	return p.fnma(p.times(a, tail), p.value(0x1p-64), p.most(p.value(0), x))
}

func (p *program) geluSlope(x *node) *node {
	tail, gauss := p.normalTail(p.magnitude(x))
	scale := p.value(0x1p-64)
	tail = p.times(tail, scale)
	of := p.choose(x, tail, p.minus(p.value(1), tail))
	z := p.least(p.value(14.6), p.most(p.value(-14.6), x))
	return p.fma(p.times(z, p.value(0x1p-64/math.Sqrt(2*math.Pi))), gauss, of)
}

// geluArgument is 2*sqrt(2/pi)*(x + 0.044715*x^3) in two parts, for |x| up to 12, beyond which nothing changes.
func (p *program) geluArgument(x *node) (high, low *node) {
	const first = 2 * 0.79788456080286535587989211986876
	const cubic = first * 0.044715
	firstHigh := float64(float32(first))
	square := p.times(x, x)
	product := p.times(square, p.value(cubic))
	inner := p.plus(product, p.value(firstHigh))
	of := p.minus(inner, p.value(firstHigh))
	rest := p.plus(p.minus(p.value(firstHigh), p.minus(inner, of)), p.minus(product, of))
	rest = p.plus(rest, p.fms(square, p.value(cubic), product))
	rest = p.fma(p.fms(x, x, square), p.value(cubic), rest)
	rest = p.fma(square, p.value(cubic-float64(float32(cubic))), rest)
	rest = p.plus(rest, p.value(first-firstHigh))
	high = p.times(x, inner)
	return high, p.fma(x, rest, p.fms(x, inner, high))
}

// geluTanhDecay is exp(-|u|) of that argument u.
func (p *program) geluTanhDecay(x *node) (first, second *node) {
	z := p.least(p.value(12), p.most(p.value(-12), x))
	high, low := p.geluArgument(z)
	low = p.asNumber(p.xor(p.asInteger(low), p.xor(p.sign(high), p.signBit())))
	return p.expDown(p.asNumber(p.or(p.asInteger(high), p.signBit())), low)
}

func (p *program) geluTanh(x *node) *node {
	first, second := p.geluTanhDecay(x)
	one := p.value(1)
	y := p.over(p.times(x, p.choose(x, first, one)), p.fma(first, second, one))
	return p.times(y, p.lastFactor(x, -12, second))
}

// geluTanhSlope is s + x*s*(1-s)*u', with u' = 2*sqrt(2/pi)*(1 + 3*0.044715*x*x).
func (p *program) geluTanhSlope(x *node) *node {
	w := p.times(p.geluTanhDecay(x))
	s := p.over(p.value(1), p.plus(w, p.value(1)))
	negative := p.compare(less, x, p.value(0))
	z := p.least(p.value(12), p.most(p.value(-12), x))
	const first = 2 * 0.79788456080286535587989211986876
	slope := p.times(z, p.fma(p.times(z, z), p.value(3*first*0.044715), p.value(first)))
	ws := p.times(w, s)
	return p.fma(slope, p.times(ws, s), p.pick(negative, ws, s))
}
