package main

import "math"

// lgamma is the logarithm of |gamma(x)|, in float64, and rounded once. The coefficients are those of testdata/fitgamma.py.
//
// Of a = |x| it is, from 5 on, by Stirling's series; below, by gamma(a) = (a-1)*gamma(a-1), that of 1+t for a t from 0 to 1 and a logarithm: of the product, or less that of
// a itself where a < 1. The polynomial is a factor of t*(t-1), which is 0 where gamma is 1. Of negative x it is by gamma(x)*gamma(-x) = -pi/(x*sin(pi*x)).
func (p *program) lgamma(x *node) *node {
	a := p.magnitude(x)
	y := p.lgammaPositive(a)
	r := p.minus(a, p.round(a))
	z := p.times(p.times(a, p.magnitude(r)), p.sineOfTurn(r)) // the sine over pi, times a
	negative := p.minus(p.negative(p.logWide(z)), y)
	y = p.pick(p.compare(less, x, p.value(0)), negative, y)
	return p.pick(p.compare(equal, a, p.value(math.Inf(1))), a, y)
}

// sineOfTurn is sin(pi*r)/(pi*r), for |r| up to 1/2.
func (p *program) sineOfTurn(r *node) *node {
	return p.polynomial(p.times(r, r), 0.99999999998291911, -1.6449340619281201, 0.8117421954830587, -0.19074789529025588, 0.026117437633970869, -0.0022371786002147948)
}

// cosineOfTurn is cos(pi*r), likewise.
func (p *program) cosineOfTurn(r *node) *node {
	return p.polynomial(p.times(r, r), 0.99999999999924793, -4.9348022002498499, 4.0587121075374375, -1.3352623152615699, 0.23532543658771121, -0.02577631642731586, 0.0018399894372694043)
}

func (p *program) lgammaPositive(a *node) *node {
	one, two := p.value(1), p.value(2)
	t, product := a, one
	for range 3 {
		above := p.compare(greaterEq, t, two)
		t = p.pick(above, p.minus(t, one), t)
		product = p.pick(above, p.times(product, t), product)
	}
	small, large := p.compare(less, a, one), p.compare(greaterEq, a, p.value(5))
	t = p.pick(small, a, p.minus(t, one))
	rest := p.times(p.times(t, p.minus(t, one)), p.polynomial(t, 0.57721566450190398, -0.24525127145030265, 0.15543030950246334, -0.11508261010745363, 0.091698277243096468, -0.074574804565564382, 0.057687810922698611, -0.038316891285218049, 0.019242068892764884, -0.0061991514735926147, 0.00093493312778642184))

	w := p.over(one, a)
	stirling := p.polynomial(p.times(w, w), 1.0/12, -1.0/360, 1.0/1260, -1.0/1680)
	stirling = p.fma(w, stirling, p.minus(p.value(0.91893853320467274178), a)) // log(2*pi)/2

	of := p.pick(small, a, p.pick(large, a, product))
	times := p.pick(small, p.value(-1), p.pick(large, p.minus(a, p.value(0.5)), one))
	return p.fma(times, p.logWide(of), p.pick(large, stirling, rest))
}

// digamma is the derivative of log(gamma(x)), in float64, and rounded once: of a from 6 on by its asymptotic series, below by that of a+6 less 1/a + ... + 1/(a+5), which
// are added up as one fraction. Of negative x, and of -0, it is that of 1-x less pi*cot(pi*x), and NaN at whole ones.
func (p *program) digamma(x *node) *node {
	zero, one, six := p.value(0), p.value(1), p.value(6)
	a := p.choose(x, p.minus(one, x), x)
	small := p.compare(less, a, six)
	top, bottom := one, a
	for k := 1; k < 6; k++ {
		next := p.plus(a, p.value(float64(k)))
		top = p.fma(top, next, bottom)
		bottom = p.times(bottom, next)
	}
	t := p.pick(small, p.plus(a, six), a)
	w := p.over(one, t)
	e, f, _ := p.exponentDouble(t)
	square := p.times(w, w)
	series := p.fma(square, p.polynomial(square, 1.0/12, -1.0/120, 1.0/252, -1.0/240, 1.0/132, -691.0/32760, 1.0/12, -3617.0/8160), p.times(w, p.value(0.5)))
	y := p.minus(p.logSum(e, f, nil), series)
	y = p.minus(y, p.pick(small, p.over(top, bottom), zero))

	r := p.minus(x, p.round(x))
	whole := p.compare(equal, r, zero)
	r = p.asNumber(p.or(p.asInteger(r), p.and(p.asInteger(whole), p.sign(x)))) // -0 of -0
	cotangent := p.over(p.cosineOfTurn(r), p.times(r, p.sineOfTurn(r)))        // times pi
	negative := p.pick(p.and(whole, p.compare(less, x, zero)), p.value(math.NaN()), p.minus(y, cotangent))
	y = p.choose(x, negative, y)
	return p.pick(p.compare(equal, x, p.value(math.Inf(1))), x, y)
}
