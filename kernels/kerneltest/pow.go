package kerneltest

import (
	"math"
	"math/big"
)

// powOf is x to the power of y, rounded once: math.Pow is off by up to 80 ulps at large exponents, and wrong for denormal numbers. It
// is by big numbers, exp(y*log(x)), where the result is neither special nor far from what float64 holds.
func powOf(x, y float64) float64 {
	rough := math.Log(math.Abs(x)) * y
	if x == 0 || math.IsNaN(rough) || math.IsInf(x, 0) || math.IsInf(y, 0) || x < 0 && y != math.Trunc(y) || math.Abs(x) == 1 || y == 0 {
		return math.Pow(x, y)
	}
	sign := 1.0
	if x < 0 && math.Mod(y, 2) != 0 {
		sign = -1
	}
	if logOf(math.Abs(x))*y > 800 {
		return sign * math.Inf(1)
	} else if logOf(math.Abs(x))*y < -800 {
		return sign * 0
	}
	log := bigLog(math.Abs(x))
	f, _ := bigExp(log.Mul(log, bigOf(y))).Float64()
	return sign * f
}

func bigOf(x float64) *big.Float { return new(big.Float).SetPrec(160).SetFloat64(x) }

// reciprocals are those of the numbers from 1 on.
var reciprocals = func() (r [50]*big.Float) {
	for k := 1; k < len(r); k++ {
		r[k] = bigOf(0).Quo(bigOf(1), bigOf(float64(k)))
	}
	return r
}()

// counts reports whether a term of a series changes its sum where float64 might see it, with 60 bits to spare.
func counts(term, sum *big.Float) bool {
	return term.Sign() != 0 && (sum.Sign() == 0 || term.MantExp(nil) > sum.MantExp(nil)-113)
}

// ln2 is log(4/3) + log(3/2).
var ln2 = bigOf(0).Add(bigRatioLog(bigOf(4), bigOf(3)), bigRatioLog(bigOf(3), bigOf(2)))

func bigLog(x float64) *big.Float {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	log := bigRatioLog(bigOf(m), bigOf(1))
	return log.Add(log, bigOf(0).Mul(ln2, bigOf(float64(e))))
}

// bigRatioLog is log(a/b) = 2*(s + s^3/3 + s^5/5 + ...) with s = (a-b)/(a+b), for a and b near each other.
func bigRatioLog(a, b *big.Float) *big.Float {
	s := bigOf(0).Sub(a, b)
	s.Quo(s, bigOf(0).Add(a, b))
	square, sum := bigOf(0).Mul(s, s), bigOf(0)
	s.Mul(s, bigOf(2))
	for k := 1; k < len(reciprocals) && counts(s, sum); k += 2 {
		sum.Add(sum, bigOf(0).Mul(s, reciprocals[k]))
		s.Mul(s, square)
	}
	return sum
}

// bigExp is 2^k * exp(x - k*log(2)).
func bigExp(x *big.Float) *big.Float {
	near, _ := bigOf(0).Quo(x, ln2).Float64()
	k := math.Round(near)
	x.Sub(x, bigOf(0).Mul(ln2, bigOf(k)))
	sum, term := bigOf(0), bigOf(1)
	for n := 1; n < len(reciprocals) && counts(term, sum); n++ {
		sum.Add(sum, term)
		term.Mul(term.Mul(term, x), reciprocals[n])
	}
	return sum.SetMantExp(sum, int(k))
}
