package main

import "math"

// The exponential function and what is made of it.

// Natural logarithm of 2 in two parts, the first of which has few bits: its products with small integers are exact.
const (
	log2High = 0.693359375
	log2Low  = -2.12194440e-4
)

// powersOfTwo are 2^n as two factors, each of which is a number where their product is not.
func (p *program) powersOfTwo(n *node) (first, second *node) {
	k := p.toInteger(n)
	half := p.signed(k, 1)
	return p.powerOfTwo(half), p.powerOfTwo(p.minus(k, half))
}

// powerOfTwo is 2^k, of exponents that numbers have.
func (p *program) powerOfTwo(k *node) *node { return p.asNumber(p.left(p.plus(k, p.whole(127)), 23)) }

// reduced is x as n*log(2) + r, with |r| about log(2)/2 at most.
func (p *program) reduced(x *node) (n, r *node) {
	n = p.round(p.times(x, p.value(math.Log2E)))
	r = p.fnma(n, p.value(log2High), x)
	return n, p.fnma(n, p.value(log2Low), r)
}

// expTail is (exp(r)-1-r)/r/r.
func (p *program) expTail(r *node) *node {
	return p.polynomial(r, .49999994, .166665211, .041668389, .00836874545, .00138145406)
}

// exp is exp(x), for all x.
func (p *program) exp(x *node) *node {
	x = p.least(p.value(89), p.most(p.value(-104), x))
	n, r := p.reduced(x)
	t := p.fma(p.times(r, r), p.expTail(r), r)
	first, second := p.powersOfTwo(n)
	return p.times(p.fma(t, first, first), second)
}

// expParts are n and e with exp(x+low) = 2^n*e; low may be nil.
func (p *program) expParts(x, low *node) (n, e *node) {
	n = p.round(p.times(x, p.value(math.Log2E)))
	before := p.fnma(n, p.value(log2High), x)
	r := p.fnma(n, p.value(log2Low), before)
	rest := p.fnma(n, p.value(log2Low), p.minus(before, r))
	tail := p.polynomial(r, .5, .1666666567325592, .041666459292173386, .00833358895033598, .0013935472816228867, .0001973291509784758)
	t := p.fma(p.times(r, r), tail, rest)
	one := p.value(1)
	high := p.plus(r, one)
	if low != nil {
		t = p.fma(low, p.plus(high, t), t)
	}
	lost := p.plus(p.minus(one, high), r)
	return n, p.plus(high, p.plus(lost, t))
}

// expSmall is exp(x) for x from -87 to 88.
func (p *program) expSmall(x *node) *node {
	n, r := p.reduced(x)
	t := p.fma(p.times(r, r), p.expTail(r), r)
	power := p.powerOfTwo(p.toInteger(n))
	return p.fma(t, power, power)
}

// decay is exp(-|x|), with a small error: the product of both, of which the first is no denormal number.
func (p *program) decay(x *node) (first, second *node) {
	return p.expDown(p.asNumber(p.or(p.asInteger(x), p.signBit())), nil)
}

// expDown is exp(a+low) for an a that is not positive, as decay; low may be nil.
func (p *program) expDown(a, low *node) (first, second *node) {
	n, e := p.expParts(p.most(p.value(-170), a), low)
	half, other := p.powersOfTwo(n)
	return p.times(e, half), other
}

// scaledDecay is 2^64*exp(-|x|), which is no denormal number, and 0 from where even that times 2^64 would be none.
func (p *program) scaledDecay(x *node) *node {
	a := p.most(p.value(-200), p.asNumber(p.or(p.asInteger(x), p.signBit())))
	n, e := p.expParts(a, nil)
	return p.times(e, p.asNumber(p.left(p.positive(p.plus(p.toInteger(n), p.whole(64+127))), 23)))
}

// scaledExp is 2^64*exp(a+low) for a from -110 to 0, with an error of one unit.
func (p *program) scaledExp(a, low *node) *node {
	n, r := p.reduced(a)
	r = p.plus(r, low)
	e := p.plus(p.fma(p.times(r, r), p.expTail(r), r), p.value(1))
	return p.asNumber(p.plus(p.asInteger(e), p.left(p.plus(p.toInteger(n), p.whole(64)), 23))) // times 2^(n+64): sums have ports of their own
}

// decayed is exp(-|x|) as one number.
func (p *program) decayed(x *node) *node { return p.times(p.decay(x)) }

var exp2Coefficients = []float64{.6931471824645996, .24022647738456726, .05550359562039375, .009618517942726612, .0013390958774834871, .00015324314881581813}

func (p *program) exp2(x *node) *node {
	x = p.least(p.value(129), p.most(p.value(-151), x))
	n := p.round(x)
	r := p.minus(x, n)
	q := p.polynomial(r, exp2Coefficients...)
	t := p.times(r, q)
	first, second := p.powersOfTwo(n)
	return p.times(p.fma(t, first, first), second)
}

// expm1 is exp(x)-1: 2*(2^(n-1)*(exp(r)-1) + 2^(n-1) - 1/2), where 2^n may not be a number.
func (p *program) expm1(x *node) *node {
	z := p.least(p.value(89), p.most(p.value(-20), x))
	n, r := p.reduced(z)
	t := p.fma(p.times(r, r), p.expTail(r), r)
	power := p.powerOfTwo(p.plus(p.toInteger(n), p.whole(math.MaxUint32)))
	y := p.fma(t, power, p.minus(power, p.value(0.5)))
	return p.withSign(p.plus(y, y), p.sign(x))
}

// sigmoidParts are sigmoid(|x|) and exp(-|x|), and where x is negative.
func (p *program) sigmoidParts(x *node) (s, w, negative *node) {
	w = p.decayed(x)
	return p.over(p.value(1), p.plus(w, p.value(1))), w, p.compare(less, x, p.value(0))
}

// sigmoid is 1/(1+w) with w = exp(-|x|), or w/(1+w) of a negative x: the factor that may make a denormal number comes last.
func (p *program) sigmoid(x *node) *node {
	w := p.scaledDecay(x)
	one, scale := p.value(1), p.value(0x1p-64)
	y := p.over(p.choose(x, w, one), p.fma(w, scale, one))
	return p.times(y, p.choose(x, scale, one))
}

// silu is x times that.
func (p *program) silu(x *node) *node {
	w := p.scaledDecay(x)
	one, scale := p.value(1), p.value(0x1p-64)
	y := p.over(p.times(x, p.choose(x, w, one)), p.fma(w, scale, one))
	return p.times(y, p.choose(x, scale, one))
}

// lastFactor is the second factor of decay where x is negative, and 0 beyond limit, where the first one is not small enough for all x.
func (p *program) lastFactor(x *node, limit float64, second *node) *node {
	f := p.choose(x, second, p.value(1))
	return p.pick(p.compare(less, x, p.value(limit)), p.value(0), f)
}

// siluSlope is s + x*s*(1-s), where s*(1-s) is w*s*s of the sigmoid s of |x|.
func (p *program) siluSlope(x *node) *node {
	s, w, negative := p.sigmoidParts(x)
	ws := p.times(w, s)
	of := p.pick(negative, ws, s)
	return p.fma(x, p.times(ws, s), of)
}

func (p *program) tanh(x *node) *node {
	a := p.magnitude(x)
	z := p.times(a, a)
	small := p.fma(p.times(a, z), p.polynomial(z, -.333333164, .13332586, -.0538523085, .0210716799, -.00627424102), a)
	b := p.least(p.value(10), a)
	e := p.expSmall(p.plus(b, b))
	large := p.minus(p.value(1), p.over(p.value(2), p.plus(e, p.value(1))))
	return p.withSign(p.pick(p.compare(less, a, p.value(0.55)), small, large), p.sign(x))
}

// halfExp is exp(a)/2 for an a that is not negative.
func (p *program) halfExp(a *node) *node {
	n, r := p.reduced(p.least(p.value(90), a))
	t := p.fma(p.times(r, r), p.expTail(r), r)
	first, second := p.powersOfTwo(p.minus(n, p.value(1)))
	return p.times(p.fma(t, first, first), second)
}

// sinh is exp(|x|)/2 less its inverse over 4, and a polynomial (testdata/fit32.py) up to 1.
func (p *program) sinh(x *node) *node {
	a := p.magnitude(x)
	z := p.times(a, a)
	small := p.fma(p.times(a, z), p.polynomial(z, .166666665, .00833335006, .000198361598, 2.81695124e-06), a)
	e := p.halfExp(a)
	large := p.minus(e, p.over(p.value(0.25), e))
	return p.withSign(p.pick(p.compare(less, a, p.value(1)), small, large), p.sign(x))
}

func (p *program) cosh(x *node) *node {
	e := p.halfExp(p.magnitude(x))
	return p.plus(e, p.over(p.value(0.25), e))
}

// mish is x*n/(n+2) with n = e*(e+2) and e = exp(x): both are multiplied by exp(-2x) where x is positive.
func (p *program) mish(x *node) *node {
	first, second := p.decay(x)
	w, one, two := p.times(first, second), p.value(1), p.value(2)
	n := p.choose(x, p.times(w, p.plus(w, two)), p.fma(w, two, one))
	bottom := p.plus(n, p.choose(x, two, p.times(p.times(w, w), two)))
	top := p.choose(x, p.times(first, p.plus(w, two)), n)
	return p.times(p.over(p.times(x, top), bottom), p.lastFactor(x, -110, second))
}

// mishParts are n and n+2, times w*w where x is positive, with w = exp(-|x|).
func (p *program) mishParts(x *node) (top, bottom, w *node) {
	w = p.decayed(x)
	two := p.value(2)
	negative := p.compare(less, x, p.value(0))
	top = p.pick(negative, p.times(w, p.plus(w, two)), p.fma(w, two, p.value(1)))
	more := p.pick(negative, two, p.times(p.times(w, w), two))
	return top, p.plus(top, more), w
}

// mishSlope is n/(n+2) + x*4*e*(1+e)/(n+2)^2; of the last factor, 4*e*(1+e) becomes 4*w*(1+w)*w*w*... by w^4: w*(w+1)*w*w/w.
func (p *program) mishSlope(x *node) *node {
	top, bottom, w := p.mishParts(x)
	negative := p.compare(less, x, p.value(0))
	b := p.fma(w, w, w) // e*(1+e) for negative x; (1+e)*e*w^4 = w^2*(1+w) else
	b = p.pick(negative, b, p.times(b, w))
	by := p.over(p.value(1), bottom)
	q := p.times(top, by)
	z := p.least(p.value(120), p.most(p.value(-120), x))
	r := p.times(p.times(p.times(b, p.value(4)), by), by)
	return p.fma(z, r, q)
}
