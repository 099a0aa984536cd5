package main

import "math"

// Losses of a prediction x and a target y.

// floor is what logarithms of probabilities are at least.
func (p *program) bce(x, y *node) *node {
	least := p.value(-100)
	a := p.most(least, p.log(x))
	minus := p.negative(x)
	b := p.most(least, p.ends(p.log1pOf(minus), minus, p.value(-1)))
	return p.negative(p.fma(y, a, p.times(p.minus(p.value(1), y), b)))
}

func (p *program) bceSlope(x, y *node) *node {
	v := p.times(p.minus(p.value(1), x), x)
	return p.over(p.minus(x, y), p.most(p.value(9.999999960041972e-13), v))
}

// bceLogits is max(x, 0) - x*y + log(1+exp(-|x|)), of which nothing cancels where the target is met. At infinities it is PyTorch's
// max(-x, 0) + log(1+exp(-|x|)) + (1-y)*x.
func (p *program) bceLogits(x, y *node) *node {
	decay := p.log1pDecay(p.decayed(x))
	finite := p.plus(p.fnma(x, y, p.most(p.value(0), x)), decay)
	infinite := p.fma(p.minus(p.value(1), y), x, p.plus(p.most(p.value(0), p.negative(x)), decay))
	return p.pick(p.compare(greater, p.magnitude(x), p.value(math.MaxFloat32)), infinite, finite)
}

func (p *program) klDiv(x, y *node) *node {
	v := p.times(y, p.minus(p.log(y), x))
	return p.pick(p.compare(equal, y, p.value(0)), p.value(0), v)
}

// smoothL1 is weight*d*d/(2*beta) where d = |x-y| is less than beta, else weight*(d - beta/2); the scalars are beta, weight, weight/(2*beta)
// and beta/2.
func (p *program) smoothL1(x, y *node) *node {
	d := p.magnitude(p.minus(x, y))
	inner := p.times(p.times(p.scalar(2), d), d)
	return p.pick(p.compare(less, d, p.scalar(0)), inner, p.times(p.scalar(1), p.minus(d, p.scalar(3))))
}

// smoothL1Slope is weight/beta*d where |d| is less than beta, else the weight with the sign of d; d itself where that is 0 or NaN. The scalars
// are beta, weight and weight/beta.
func (p *program) smoothL1Slope(x, y *node) *node {
	d := p.minus(x, y)
	a := p.magnitude(d)
	outer := p.pick(p.compare(greater, a, p.value(0)), p.withSign(p.scalar(1), p.sign(d)), d)
	return p.pick(p.compare(less, a, p.scalar(0)), p.times(p.scalar(2), d), outer)
}
