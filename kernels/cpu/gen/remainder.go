package main

import "math"

// Remainders and quotients of float32 whose quotient is below quotientLimit, and NaN for all others: a kernel looks for NaN, and computes those one by one.
//
// The quotient is rounded before it is cut off, so it may be the next whole number, never a lower one: then what is left is negative, and exact as well, since
// it is a multiple of what both numbers are multiples of, and not greater than b.

const quotientLimit = 0x1p22

// remains are the whole part of |x/y| and what is left of |x|.
func (p *program) remains(x, y *node) (whole, left *node) {
	a, b := p.magnitude(x), p.magnitude(y)
	whole = p.trunc(p.over(a, b))
	left = p.fnma(whole, b, a)
	over := p.compare(less, left, p.value(0))
	near := p.compare(less, whole, p.value(quotientLimit))
	left = p.pick(over, p.plus(left, b), left)
	whole = p.pick(over, p.minus(whole, p.value(1)), whole)
	return whole, p.pick(near, left, p.value(math.NaN()))
}

// fmod has the sign of x.
func (p *program) fmod(x, y *node) *node {
	_, left := p.remains(x, y)
	return p.withSign(left, p.sign(x))
}

// apart is the sign bit where x and y have different ones.
func (p *program) apart(x, y *node) *node { return p.asNumber(p.xor(p.asInteger(x), p.asInteger(y))) }

// remainder has the sign of y.
func (p *program) remainder(x, y *node) *node {
	r := p.fmod(x, y)
	return p.pick(p.compare(equal, r, p.value(0)), r, p.choose(p.apart(x, y), p.plus(r, y), r))
}

// floorDivide is rounded down.
func (p *program) floorDivide(x, y *node) *node {
	whole, left := p.remains(x, y)
	signs := p.apart(x, y)
	q := p.withSign(whole, p.sign(signs))
	down := p.choose(signs, p.minus(q, p.value(1)), q)
	q = p.pick(p.compare(equal, left, p.value(0)), q, down)
	return p.pick(p.compare(equal, left, left), q, left)
}
