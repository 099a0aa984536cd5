package main

import "math"

// Functions whose elements are float64. Their errors are below one unit in the last place, which leaves half of one for all before the last rounding: so what is taken
// off an argument, and what a sum loses, is kept as a second number where it counts. The coefficients are those of testdata/fit64.py.

// doubles are all of them.
func doubles() []function {
	x := func(f func(p *program, x *node) *node) func(*program) {
		return ofFloat64(func(p *program) { p.result(f(p, p.input(0))) })
	}
	return []function{
		{"expFloat64", "e to the power of a", x((*program).expDouble)},
		{"expm1Float64", "exp(a)-1", x((*program).expm1Double)},
		{"logFloat64", "the natural logarithm", x((*program).logDouble)},
		{"log1pFloat64", "log(1+a)", x((*program).log1pDouble)},
		{"tanhFloat64", "the hyperbolic tangent", x((*program).tanhDouble)},
		{"sigmoidFloat64", "1/(1+exp(-a))", x((*program).sigmoidDouble)},
	}
}

// Natural logarithm of 2 in two parts, the first of which has 33 bits: its products with exponents are exact.
const (
	log2HighDouble = 0x1.62e42fefp-1
	log2LowDouble  = 0x1.473de6af278edp-34
)

// powerDouble is 2^n of a whole n from -1022 to 1023.
func (p *program) powerDouble(n *node) *node {
	return p.asNumber(p.left(p.asInteger(p.plus(n, p.value(shiftNumber+1023))), 52))
}

// reducedDouble is exp(x) as 2^n * (1+t), where t is high+low, and high their sum.
func (p *program) reducedDouble(x *node) (n, high, low *node) {
	n = p.round(p.times(x, p.value(math.Log2E)))
	before := p.fnma(n, p.value(log2HighDouble), x)
	r := p.fnma(n, p.value(log2LowDouble), before)
	rest := p.fnma(n, p.value(log2LowDouble), p.minus(before, r))
	tail := p.polynomial(r, 0.5, 0.16666666666666669, 0.04166666666666667, 0.008333333333330048, 0.0013888888888885027, 0.00019841269863120472, 2.4801587322483025e-05, 2.7557268356217503e-06, 2.7557276191382524e-07, 2.510043480954599e-08, 2.0914059220235004e-09)
	v := p.fma(p.times(r, r), tail, rest)
	high = p.plus(r, v)
	return n, high, p.minus(v, p.minus(high, r))
}

// expFactors are two factors of exp(x), of which only the second may be so small that bits are lost, or so large that their product is no number. The first one is a
// sum of two numbers.
func (p *program) expFactors(x *node) (first, low, second *node) {
	n, t, rest := p.reducedDouble(x)
	half := p.floor(p.times(n, p.value(0.5)))
	power := p.powerDouble(half)
	first = p.fma(t, power, power)
	low = p.fma(rest, power, p.fma(t, power, p.minus(power, first)))
	return first, low, p.powerDouble(p.minus(n, half))
}

func (p *program) expDouble(x *node) *node {
	first, _, second := p.expFactors(p.least(p.value(710), p.most(p.value(-746), x)))
	return p.times(first, second)
}

// expm1Double is 2*(2^(n-1)*t + 2^(n-1) - 1/2), as expm1. Of numbers near 0 it is themselves.
func (p *program) expm1Double(x *node) *node {
	n, t, _ := p.reducedDouble(p.least(p.value(710), p.most(p.value(-40), x)))
	power := p.powerDouble(p.minus(n, p.value(1)))
	y := p.fma(t, power, p.minus(power, p.value(0.5)))
	return p.pick(p.compare(less, p.magnitude(x), p.value(0x1p-54)), x, p.plus(y, y))
}

// exponentDouble is a positive normal x taken apart: x = 2^e * (1+f), with f from sqrt(1/2)-1 to sqrt(2)-1. shift is e as bits of a number.
func (p *program) exponentDouble(x *node) (e, f, shift *node) {
	bits := p.asInteger(x)
	k := p.right(p.plus(p.minus(bits, p.whole(0x3fe6a09e667f3bcd)), p.whole(1024<<52)), 52) // + 1024
	shift = p.left(p.minus(k, p.whole(1024)), 52)
	// An integer below 2^52 becomes a number under the exponent of 2^52.
	e = p.minus(p.asNumber(p.or(k, p.whole(0x433<<52))), p.value(0x1p52+1024))
	return e, p.minus(p.asNumber(p.minus(bits, shift)), p.value(1)), shift
}

// logSum is e*log(2) + log(1+f) + more, with s = f/(2+f) and log(1+f) = f - f*f/2 + s*(f*f/2 + tail). What is small is added up first.
func (p *program) logSum(e, f, more *node) *node {
	s := p.over(f, p.plus(f, p.value(2)))
	z := p.times(s, s)
	tail := p.times(z, p.polynomial(z, 0.6666666666666666, 0.4000000000001234, 0.2857142856464474, 0.2222222363518872, 0.18181675875851955, 0.15392168791213612, 0.1312307714908229, 0.14494223373664225))
	square := p.times(p.times(f, f), p.value(0.5))
	y := p.fma(s, p.plus(square, tail), p.times(e, p.value(log2LowDouble)))
	if more != nil {
		y = p.plus(y, more)
	}
	y = p.minus(y, square)
	whole := p.times(e, p.value(log2HighDouble)) // 0, or greater than f
	sum := p.plus(whole, f)
	lost := p.minus(f, p.minus(sum, whole))
	return p.plus(sum, p.plus(lost, y))
}

func (p *program) logDouble(x *node) *node {
	tiny := p.compare(less, x, p.value(0x1p-1022))
	normal := p.pick(tiny, p.times(x, p.value(0x1p54)), x)
	e, f, _ := p.exponentDouble(normal)
	e = p.minus(e, p.bitsWhere(tiny, 54))
	return p.ends(p.logSum(e, f, nil), x, p.value(0))
}

// log1pDouble is the logarithm of u = 1+x, and of what that lost. Both over the power of two are f and what f lost, times its derivative, about 1-f.
func (p *program) log1pDouble(x *node) *node {
	one := p.value(1)
	u := p.plus(x, one)
	lost := p.minus(p.least(x, one), p.minus(u, p.most(x, one)))
	e, g, shift := p.exponentDouble(u)
	scale := p.asNumber(p.minus(p.whole(1023<<52), shift)) // 2^-e, where what is lost counts
	scale = p.pick(p.compare(less, u, p.value(0x1p60)), scale, p.value(0))
	f := p.fma(lost, scale, g)
	more := p.fma(lost, scale, p.minus(g, f))
	more = p.fnma(more, f, more)
	return p.withSign(p.ends(p.logSum(e, f, more), x, p.value(-1)), p.sign(x))
}

// tanhDouble is E/(E+2) with E = exp(2*|x|)-1, of which both are sums of two numbers.
func (p *program) tanhDouble(x *node) *node {
	a := p.least(p.value(22), p.magnitude(x))
	n, t, low := p.reducedDouble(p.plus(a, a))
	one, two := p.value(1), p.value(2)
	power := p.powerDouble(n)
	before := p.minus(power, one) // 0, or greater than t*power
	high := p.fma(t, power, before)
	low = p.fma(low, power, p.fma(t, power, p.minus(before, high)))

	least, most := p.least(high, two), p.most(two, high)
	bottom := p.plus(most, least)
	lost := p.minus(least, p.minus(bottom, most))
	return p.withSign(p.quotient(high, low, bottom, p.plus(lost, low)), p.sign(x))
}

// quotient is a/b of sums of two numbers: what the quotient of the greater ones lacks is the rest of their division, over b.
func (p *program) quotient(a, aLow, b, bLow *node) *node {
	by := p.over(p.value(1), b)
	q := p.times(a, by)
	rest := p.fnma(q, bLow, p.plus(p.fnma(q, b, a), aLow))
	return p.fma(rest, by, q)
}

// sigmoidDouble is 1/(1+w) with w = exp(-|x|), or w/(1+w) of a negative x, as sigmoid. Where exp(-x) is infinite it is 0, as on GPUs and in PyTorch.
func (p *program) sigmoidDouble(x *node) *node {
	first, low, second := p.expFactors(p.most(p.value(-746), p.asNumber(p.or(p.asInteger(x), p.signBit()))))
	one := p.value(1)
	bottom := p.fma(first, second, one)
	lost := p.fma(low, second, p.fma(first, second, p.minus(one, bottom)))
	y := p.quotient(p.choose(x, first, one), p.choose(x, low, p.value(0)), bottom, lost)
	last := p.pick(p.compare(less, x, p.value(-709.782712893384)), p.value(0), p.choose(x, second, one))
	return p.times(y, last)
}
