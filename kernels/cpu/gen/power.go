package main

import "math"

// power is |x|^y with the sign and the exceptions of x^y, in float64: y times the logarithm to base 2, whose error must be small, and the
// power of 2. The results are rounded once.
func (p *program) power(x, y *node) *node {
	one, infinite := p.value(1), p.value(math.Inf(1))
	a := p.magnitude(x)
	z := p.times(y, p.log2Wide(a))
	z = p.least(p.value(300), p.most(p.value(-300), z))
	r := p.exp2Wide(z)

	whole := p.compare(equal, p.round(y), y)
	half := p.times(y, p.value(0.5))
	odd := p.compare(unequal, p.round(half), half) // of whole y
	sign := p.and(p.sign(x), p.asInteger(p.and(odd, whole)))
	r = p.asNumber(p.or(p.asInteger(r), sign))
	below := p.and(p.compare(less, x, p.value(0)), p.compare(less, a, infinite))
	r = p.pick(p.andNot(below, whole), p.value(math.NaN()), r)
	// Where y times the logarithm is 0*Inf, and where NaN does not count: 1.
	sure := p.or(p.compare(equal, x, one), p.compare(equal, y, p.value(0)))
	sure = p.or(sure, p.and(p.compare(equal, a, one), p.compare(equal, p.magnitude(y), infinite)))
	return p.pick(sure, one, r)
}

// andNot is a where b is not.
func (p *program) andNot(a, b *node) *node { return p.xor(p.and(a, b), a) }

// log2Wide is the logarithm to base 2 of a float32 in float64, -Inf of 0 and Inf of Inf. Denormal ones are normal there.
func (p *program) log2Wide(a *node) *node {
	bits := p.asInteger(a)
	// The exponent, if the mantissa is to be from sqrt(1/2) to sqrt(2).
	const rootHalf = 0x3fe6a09e00000000
	k := p.right(p.plus(p.minus(bits, p.whole(rootHalf)), p.whole(1024<<52)), 52) // + 1024
	m := p.asNumber(p.minus(bits, p.left(p.minus(k, p.whole(1024)), 52)))
	// An integer below 2^52 becomes a number under the exponent of 2^52.
	e := p.minus(p.asNumber(p.or(k, p.whole(0x433<<52))), p.value(0x1p52+1024))
	s := p.over(p.minus(m, p.value(1)), p.plus(m, p.value(1)))
	z := p.times(s, s)
	y := p.fma(s, p.polynomial(z, 2.885390081790145, .9617966732564995, .5770836026611524, .41167158905242557, .3407521175577688), e)
	y = p.pick(p.compare(less, a, p.value(math.Inf(1))), y, a)
	return p.pick(p.compare(equal, a, p.value(0)), p.value(math.Inf(-1)), y)
}

// exp2Wide is 2^x for |x| up to 300, and NaN for NaN, whatever its bits: a product keeps it, where a sum of bits might be any number.
func (p *program) exp2Wide(x *node) *node {
	t := p.plus(x, p.value(shiftNumber))
	r := p.minus(x, p.minus(t, p.value(shiftNumber)))
	y := p.polynomial(r, 1, .6931472028550835, .2402264791362656, .055503324710992785, .009618437357805067, .0013398874422574439, .00015353361894156897)
	return p.times(y, p.asNumber(p.left(p.plus(p.asInteger(t), p.whole(1023)), 52)))
}
