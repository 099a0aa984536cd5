package cpu

import (
	"math"
	"math/big"
	"sync"
)

// pow64 is x to the power of y, within 0.6 ulps (2 where the result is denormal). math.Pow raises a rounded number to a whole power and
// the rest to a fraction, and is off by 80 ulps at large exponents.
//
// The logarithm of x has some 68 bits, as a sum of two numbers: an error of it counts as often as y is large. Then x^y = 2^(j/128) *
// exp(r), with a small r.
func pow64(x, y float64) float64 {
	size := math.Abs(x)
	if x == 1 || y == 0 || !(size > 0 && size <= math.MaxFloat64 && math.Abs(y) <= math.MaxFloat64) {
		return math.Pow(x, y)
	}
	sign := 1.0
	if x < 0 {
		if y != math.Trunc(y) {
			return math.NaN()
		}
		if math.Abs(y) < 0x1p53 && int64(y)&1 != 0 {
			sign = -1
		}
	}
	t := powTables()
	high, low := t.log(size)
	z := float64(high * y)
	switch {
	case z > 710:
		return sign * math.Inf(1)
	case z < -746:
		return sign * 0
	}
	return sign * t.exp(z, math.FMA(high, y, -z)+float64(low*y))
}

// pair is a number as a sum of two, the second of which is what rounding took of the first.
type pair struct{ high, low float64 }

func pairOf(x *big.Float) pair {
	high, _ := x.Float64()
	low, _ := new(big.Float).Sub(x, big.NewFloat(high)).Float64()
	return pair{high, low}
}

const (
	leastCenter = 90  // of 128, below sqrt(1/2)
	mostCenter  = 182 // above sqrt(2)
	ln2High     = 0x1.62e42feep-1
	ln2Low      = 0x1.a39ef35793c76p-33 // ln2High ends in zeros: its products with exponents are exact
)

// powTable holds, for c = i/128, a reciprocal of few bits and the logarithm of what that is the reciprocal of; and 2^(j/128).
type powTable struct {
	inverse [mostCenter + 1 - leastCenter]float64
	logs    [mostCenter + 1 - leastCenter]pair
	powers  [128]pair
}

// powTables makes the tables when they are first used.
var powTables = sync.OnceValue(func() *powTable {
	t := new(powTable)
	for i := range t.inverse {
		t.inverse[i] = math.Round(512*128/float64(leastCenter+i)) / 512
		t.logs[i] = pairOf(bigLog(1, t.inverse[i]))
	}
	root := bigFloat(2)
	for range 7 {
		root.Sqrt(root)
	}
	power := bigFloat(1)
	for j := range t.powers {
		t.powers[j] = pairOf(power)
		power.Mul(power, root)
	}
	return t
})

func bigFloat(x float64) *big.Float { return new(big.Float).SetPrec(160).SetFloat64(x) }

// bigLog is log(a/b) = 2*(s + s^3/3 + s^5/5 + ...) with s = (a-b)/(a+b), for a and b near each other.
func bigLog(a, b float64) *big.Float {
	s := bigFloat(0).Sub(bigFloat(a), bigFloat(b))
	s.Quo(s, bigFloat(0).Add(bigFloat(a), bigFloat(b)))
	square := bigFloat(0).Mul(s, s)
	sum := bigFloat(0)
	for k := 1.0; k < 50; k += 2 {
		sum.Add(sum, bigFloat(0).Quo(s, bigFloat(k/2)))
		s.Mul(s, square)
	}
	return sum
}

// log is the logarithm of a positive finite x = 2^k * m: k*log(2) + log(c) + log(1+r) with m = c*(1+r) and |r| < 0.0067.
func (t *powTable) log(x float64) (high, low float64) {
	k := 0.0
	if x < 0x1p-1022 {
		x, k = x*0x1p54, -54
	}
	const rootHalf = 0x3fe6a09e667f3bcd
	bits := math.Float64bits(x)
	e := (int64(bits) - rootHalf) >> 52
	k += float64(e)
	m := math.Float64frombits(bits - uint64(e)<<52)
	i := int(float64(m*128)+0.5) - leastCenter

	p := float64(m * t.inverse[i])
	rest := math.FMA(m, t.inverse[i], -p)
	r := p - 1 // exactly
	half := float64(-0.5 * r)
	square := float64(half * r)

	high, low = twoSum(float64(k*ln2High), t.logs[i].high)
	high, e1 := twoSum(high, r)
	high, e2 := twoSum(high, square)
	low += float64(k*ln2Low) + t.logs[i].low
	low += e1 + e2 + math.FMA(half, r, -square) + float64(rest*(1-r+float64(r*r))) + log1pTail(r)
	return twoSum(high, low)
}

// log1pTail is log(1+r) - r + r*r/2, for small r.
func log1pTail(r float64) float64 {
	p := float64(r*(1./9)) - 1./8
	p = float64(p*r) + 1./7
	p = float64(p*r) - 1./6
	p = float64(p*r) + 1./5
	p = float64(p*r) - 1./4
	p = float64(p*r) + 1./3
	return float64(float64(r*r)*r) * p
}

func twoSum(a, b float64) (sum, lost float64) {
	sum = a + b
	c := sum - a
	return sum, (a - (sum - c)) + (b - c)
}

// exp is exp(x + low) for x between -746 and 710.
func (t *powTable) exp(x, low float64) float64 {
	j := math.RoundToEven(float64(x * (128 / math.Ln2)))
	r := x - float64(j*(ln2High/128)) // exactly
	r += low - float64(j*(ln2Low/128))

	p := float64(r*(1./720)) + 1./120
	p = float64(p*r) + 1./24
	p = float64(p*r) + 1./6
	p = float64(p*r) + 1./2
	p = float64(float64(r*r)*p) + r

	k, power := int(j)>>7, t.powers[int(j)&127]
	y := power.high + (power.low + float64(power.high*p))
	first := k >> 1 // 2^k itself may not be a number
	return y * powerOf2(first) * powerOf2(k-first)
}

func powerOf2(k int) float64 { return math.Float64frombits(uint64(k+1023) << 52) }
