package main

// Sines, cosines and tangents, and normal random numbers, which are made of them.

// sineOf and cosineOf are those of r, for |r| up to pi/4.
func (p *program) sineOf(r, z *node) *node {
	return p.fma(p.times(r, z), p.polynomial(z, -.166666552, .0083321603, -.000195152839), r)
}

func (p *program) cosineOf(z *node) *node {
	y := p.times(p.times(z, z), p.polynomial(z, .0416666456, -.00138873165, 2.44331568e-5))
	return p.plus(p.fnma(p.value(0.5), z, p.value(1)), y)
}

// sine is the sine of x + further*pi/2, for |x| up to sineLimit of package cpu; beyond, numbers are computed in Go.
func (p *program) sine(x *node, further uint64) *node {
	k, r := p.quadrant(p.magnitude(x))
	if further > 0 {
		k = p.plus(k, p.whole(further))
	}
	z := p.times(r, r)
	odd := p.asNumber(p.left(p.and(k, p.whole(1)), 31))
	sign := p.left(p.and(k, p.whole(2)), 30)
	s, c := p.sineOf(r, z), p.cosineOf(z)
	y := p.choose(odd, c, s)
	if further == 0 {
		sign = p.xor(sign, p.sign(x))
	}
	return p.asNumber(p.xor(p.asInteger(y), sign))
}

// tangent is that of what is left of a quadrant, or minus its reciprocal in odd ones, for the same |x|. Where the quadrant of a great one is the
// next, |r| is up to 0.85. Coefficients by testdata/fit32.py.
func (p *program) tangent(x *node) *node {
	k, r := p.quadrant(p.magnitude(x))
	z := p.times(r, r)
	q := p.polynomial(z, .333333951, .133311863, .0542180467, .0205112251, .0127221396, -.00216764616, .00542752825)
	t := p.fma(p.times(r, z), q, r)
	odd := p.asNumber(p.left(k, 31))
	y := p.choose(odd, p.over(p.value(-1), t), t)
	return p.asNumber(p.xor(p.asInteger(y), p.sign(x)))
}

// normals turns two random words into two normal numbers by the method of Box and Muller: mean + deviation*r*cos(t) and that of sin(t), with
// r = sqrt(-2*log(1-u)) of the first word's u and t = 2*pi*u of the second's. The angle is a quadrant and what is left of it, exactly.
func (p *program) normals() {
	uniform := func(i int) *node {
		return p.times(p.toNumber(p.right(p.words(i), 8)), p.value(0x1p-24))
	}
	e, f := p.exponentOf(p.minus(p.value(1), uniform(0)), false)
	radius := p.root(p.times(p.logOf(e, f), p.value(-2)))
	radius = p.times(radius, p.scalar(1))

	turns := p.times(uniform(1), p.value(4))
	n := p.round(turns)
	k := p.toInteger(n)
	g := p.minus(turns, n) // exactly
	z := p.times(g, g)
	s := p.times(g, p.polynomial(z, 1.57079637, -.64596349, .079680033, -.00460165925))
	c := p.polynomial(z, 1, -1.23370051, .253669173, -.0208599363, .000903363165)

	odd := p.asNumber(p.left(k, 31))
	sine := p.choose(odd, c, s)
	cosine := p.choose(odd, s, c)
	two := p.whole(2)
	sine = p.asNumber(p.xor(p.asInteger(sine), p.left(p.and(k, two), 30)))
	cosine = p.asNumber(p.xor(p.asInteger(cosine), p.left(p.and(p.plus(k, p.whole(1)), two), 30)))
	p.result(p.fma(radius, cosine, p.scalar(0)), p.fma(radius, sine, p.scalar(0)))
}
