package main

import "math"

// Logarithms, and what is made of them.

// exponentOf takes a positive number apart: x = 2^e * (1+f), with f from -1/4 to 1/2. Denormal ones are scaled first, if there may be such.
func (p *program) exponentOf(x *node, denormal bool) (e, f *node) {
	var tiny *node
	if denormal {
		tiny = p.compare(less, x, p.value(0x1p-126))
		x = p.pick(tiny, p.times(x, p.value(0x1p23)), x)
	}
	bits := p.asInteger(x)
	k := p.signed(p.minus(bits, p.whole(0x3f400000)), 23)
	e = p.toNumber(k)
	if denormal {
		e = p.minus(e, p.asNumber(p.and(p.asInteger(tiny), p.asInteger(p.value(23)))))
	}
	m := p.asNumber(p.minus(bits, p.left(k, 23)))
	return e, p.minus(m, p.value(1))
}

// logTail is (log(1+f) - f + f*f/2)/f^3.
func (p *program) logTail(f *node) *node {
	return p.polynomial(f, .333334506, -.250000954, .199908614, -.16647312, .144783944, -.131611928, .104630224, -.0450748056)
}

// logOf is e*log(2) + log(1+f).
func (p *program) logOf(e, f *node) *node {
	z := p.times(f, f)
	y := p.times(p.times(z, f), p.logTail(f))
	y = p.fma(e, p.value(log2Low), y)
	y = p.fnma(p.value(0.5), z, y)
	return p.fma(e, p.value(log2High), p.plus(f, y))
}

// ends puts right what a logarithm is at 0, below, at infinity and at NaN; zero is where x is 0.
func (p *program) ends(y, x, zero *node) *node {
	y = p.pick(p.compare(less, x, p.value(math.Inf(1))), y, x)
	y = p.pick(p.compare(less, x, zero), p.value(math.NaN()), y)
	return p.pick(p.compare(equal, x, zero), p.value(math.Inf(-1)), y)
}

func (p *program) log(x *node) *node {
	e, f := p.exponentOf(x, true)
	return p.ends(p.logOf(e, f), x, p.value(0))
}

// logBase is the logarithm to a base, whose inverse of log has two parts: log(1+f) is one number and what it lost, times the inverse, and
// e times the logarithm of 2, of two parts too.
func (p *program) logBase(x *node, inverse, two float64) *node {
	e, f := p.exponentOf(x, true)
	half := p.times(f, p.value(0.5))
	high := p.fnma(half, f, f)
	low := p.fnma(half, f, p.minus(f, high))
	low = p.fma(p.times(p.times(f, f), f), p.logTail(f), low)
	inverseHigh := float64(float32(inverse))
	y := p.fma(low, p.value(inverseHigh), p.times(high, p.value(inverse-inverseHigh)))
	if two == 1 {
		y = p.plus(e, p.fma(high, p.value(inverseHigh), y))
	} else {
		twoHigh := float64(math.Float32frombits(math.Float32bits(float32(two)) &^ 0xfff))
		y = p.fma(e, p.value(two-twoHigh), y)
		y = p.fma(e, p.value(twoHigh), p.fma(high, p.value(inverseHigh), y))
	}
	return p.ends(y, x, p.value(0))
}

// log1pOf is log(1+x) for x from -1 on: of u = 1+x, and what that lost.
func (p *program) log1pOf(x *node) *node {
	one := p.value(1)
	u := p.plus(x, one)
	// What u lost is exact: of the greater of x and 1, taken from u, first.
	lost := p.minus(p.least(x, one), p.minus(u, p.most(x, one)))
	bits := p.asInteger(u)
	k := p.signed(p.minus(bits, p.whole(0x3f400000)), 23)
	shift := p.left(k, 23)
	m := p.asNumber(p.minus(bits, shift))
	scale := p.asNumber(p.minus(p.whole(0x3f800000), shift)) // 2^-e, where what is lost counts
	scale = p.pick(p.compare(less, u, p.value(0x1p26)), scale, p.value(0))
	f := p.fma(lost, scale, p.minus(m, one))
	return p.logOf(p.toNumber(k), f)
}

func (p *program) log1p(x *node) *node {
	y := p.ends(p.log1pOf(x), x, p.value(-1))
	return p.withSign(y, p.sign(x))
}

// log1pDecay is log(1+w) for w from 0 to 1.
func (p *program) log1pDecay(w *node) *node {
	one := p.value(1)
	u := p.plus(w, one)
	lost := p.minus(w, p.minus(u, one))
	k := p.signed(p.minus(p.asInteger(u), p.whole(0x3f400000)), 23)
	shift := p.left(k, 23)
	m := p.asNumber(p.minus(p.asInteger(u), shift))
	scale := p.asNumber(p.minus(p.whole(0x3f800000), shift))
	f := p.fma(lost, scale, p.minus(m, one))
	return p.logOf(p.toNumber(k), f)
}

// softplus is max(x, 0) + log(1+exp(-|x|)).
func (p *program) softplus(x *node) *node {
	return p.plus(p.most(p.value(0), x), p.log1pDecay(p.decayed(x)))
}

// softplusScaled is softplus(beta*x)/beta, and x where beta*x is above the threshold. The scalars are beta in two parts, the lower part over
// the upper one, and the threshold.
func (p *program) softplusScaled(x *node) *node {
	z, low := p.scaled(x)
	signLow := p.asNumber(p.xor(p.asInteger(low), p.xor(p.sign(z), p.signBit())))
	a := p.asNumber(p.or(p.asInteger(z), p.signBit()))
	y := p.plus(p.most(p.value(0), z), p.log1pDecay(p.times(p.expDown(a, signLow))))
	y = p.over(y, p.scalar(0))
	y = p.fnma(y, p.scalar(2), y)
	return p.pick(p.compare(greater, z, p.scalar(3)), x, y)
}

// scaled is beta*x in two parts.
func (p *program) scaled(x *node) (high, low *node) {
	high = p.times(x, p.scalar(0))
	low = p.fma(x, p.scalar(1), p.fms(x, p.scalar(0), high))
	finite := p.compare(less, p.magnitude(high), p.value(math.Inf(1)))
	return high, p.pick(finite, low, p.value(0))
}

// softplusGrad is g*sigmoid(beta*x), and g where beta*x is above the threshold. An infinite g stays infinite.
func (p *program) softplusGrad(g, x *node) *node {
	z, low := p.scaled(x)
	signLow := p.asNumber(p.xor(p.asInteger(low), p.xor(p.sign(z), p.signBit())))
	first, second := p.expDown(p.asNumber(p.or(p.asInteger(z), p.signBit())), signLow)
	one := p.value(1)
	y := p.over(p.times(g, p.choose(z, first, one)), p.fma(first, second, one))
	last := p.pick(p.compare(less, z, p.value(-709.782712893384)), p.value(0), p.choose(z, second, one)) // where exp(-z) is infinite in float64, as in its loop
	return p.pick(p.compare(greater, z, p.scalar(3)), g, p.times(y, last))
}

func (p *program) logSigmoid(x *node) *node {
	return p.minus(p.least(p.value(0), x), p.log1pDecay(p.decayed(x)))
}

// logAddExp is the greater of a and b, and log(1+exp(-|a-b|)) besides. Two infinities alike have no difference.
func (p *program) logAddExp(a, b *node) *node {
	d := p.pick(p.compare(equal, a, b), p.value(0), p.minus(a, b))
	return p.plus(p.most(a, b), p.log1pDecay(p.decayed(d)))
}

// logit is log(q) of q = x/(1-x), and what q lost, over itself: it counts where the logarithm is small. The scalars are the bounds of x
// and what it is below the first and above the second.
func (p *program) logit(x *node) *node {
	one := p.value(1)
	w := p.minus(one, x)
	q := p.over(x, w)
	lost := p.fnma(q, p.minus(p.minus(one, w), x), p.fnma(q, w, x)) // of 1-x and of the quotient
	e, f := p.exponentOf(q, true)
	y := p.ends(p.plus(p.logOf(e, f), p.over(lost, x)), q, p.value(0))
	y = p.pick(p.compare(less, x, p.scalar(0)), p.scalar(2), y)
	return p.pick(p.compare(greater, x, p.scalar(1)), p.scalar(3), y)
}

// xlogy is x*log(y), and 0 where x is 0 unless y is NaN.
func (p *program) xlogy(x, y *node) *node {
	m := p.and(p.compare(equal, x, p.value(0)), p.compare(equal, y, y))
	return p.pick(m, p.value(0), p.times(x, p.log(y)))
}

// logAddExpSlope is g*sigmoid(a-b), as softplusGrad; the difference has two parts.
func (p *program) logAddExpSlope(g, a, b *node) *node {
	z := p.minus(a, b)
	back := p.plus(z, b)
	low := p.plus(p.minus(a, back), p.minus(p.minus(back, z), b)) // what the difference lost
	low = p.pick(p.compare(less, p.magnitude(z), p.value(128)), low, p.value(0))
	signLow := p.asNumber(p.xor(p.asInteger(low), p.xor(p.sign(z), p.signBit())))
	first, second := p.expDown(p.asNumber(p.or(p.asInteger(z), p.signBit())), signLow)
	one := p.value(1)
	y := p.over(p.times(g, p.choose(z, first, one)), p.fma(first, second, one))
	last := p.pick(p.compare(less, z, p.value(-709.782712893384)), p.value(0), p.choose(z, second, one)) // where exp(-z) is infinite in float64, as in its loop
	return p.times(y, last)
}
