package cpu

import (
	"math"
	"math/bits"
)

// Sine, cosine and tangent in float64, within 1 ulp for every argument. Package math takes multiples of pi/4 off in three parts, of which 2^-106 of pi/4 is left: near a multiple of pi/2 the
// result has nothing but that error. Here what is left of an argument is a sum of two numbers (Cody and Waite; Payne and Hanek for large ones), and what the series makes of the
// first is corrected by the second. Words and parts of the constants are printed by testdata/trigonometric.py.

// sin64 is the sine of x in radians.
func sin64(x float64) float64 {
	if math.Abs(x) < 0x1p-27 {
		return x // -0 too
	}
	q, r, low := quarters(x)
	return quarterSine(q, r, low)
}

// cos64 is the cosine of x in radians: the sine a quarter of a turn ahead.
func cos64(x float64) float64 {
	q, r, low := quarters(x)
	return quarterSine(q+1, r, low)
}

// quarterSine is the sine of q quarters of a turn and r+low.
func quarterSine(q int, r, low float64) float64 {
	var hi, lo float64
	if q&1 == 0 {
		hi, lo = sinePair(r, low)
	} else {
		hi, lo = cosinePair(r, low)
	}
	if q&2 != 0 {
		return -(hi + lo)
	}
	return hi + lo
}

// tan64 is the tangent of x in radians: a quotient of sums of two numbers.
func tan64(x float64) float64 {
	if math.Abs(x) < 0x1p-27 {
		return x
	}
	q, r, low := quarters(x)
	s, sLow := fastSum(sinePair(r, low))
	c, cLow := fastSum(cosinePair(r, low))
	if q&1 != 0 {
		s, sLow, c, cLow = -c, -cLow, s, sLow
	}
	t := s / c
	rest := math.FMA(-t, c, s) + (sLow - float64(t*cLow)) // of the division, which has rounded
	return t + rest/c
}

// fastSum is a+b, rounded, and what rounding takes of it; a is the greater one.
func fastSum(a, b float64) (sum, low float64) {
	sum = a + b
	return sum, b - (sum - a)
}

// sinePair is the sine of r+low, for |r| up to pi/4, as a number and a smaller one: by the series, which has nothing to add beyond r^17.
func sinePair(r, low float64) (hi, lo float64) {
	z := float64(r * r)
	p := float64(z*(1.0/355687428096000)) - 1.0/1307674368000
	p = float64(p*z) + 1.0/6227020800
	p = float64(p*z) - 1.0/39916800
	p = float64(p*z) + 1.0/362880
	p = float64(p*z) - 1.0/5040
	p = float64(p*z) + 1.0/120
	p = float64(p*z) - 1.0/6
	// The derivative is 1-z/2 and less.
	return r, float64(float64(p*z)*r) + (low - float64(float64(0.5*z)*low))
}

// cosinePair is the cosine of r+low, likewise.
func cosinePair(r, low float64) (hi, lo float64) {
	z := float64(r * r)
	zLow := math.FMA(r, r, -z)
	p := float64(z*(-1.0/6402373705728000)) + 1.0/20922789888000
	p = float64(p*z) - 1.0/87178291200
	p = float64(p*z) + 1.0/479001600
	p = float64(p*z) - 1.0/3628800
	p = float64(p*z) + 1.0/40320
	p = float64(p*z) - 1.0/720
	p = float64(p*z) + 1.0/24
	half := float64(0.5 * z)
	hi = 1 - half
	return hi, ((1 - hi) - half) + (float64(float64(p*z)*z) - (float64(r*low) + float64(0.5*zLow)))
}

// halfPi is pi/2 in parts of 33 bits, whose products with whole numbers below 2^20 are exact, and what is left of it.
var halfPi = [4]float64{0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2ep-69, 0x1.b839a252049c1p-104}

// quarters is the nearest number of quarters of a turn, or one that leaves the same of a whole turn, and what is left of x as a sum of two numbers. Of
// infinities and NaN that is NaN.
func quarters(x float64) (q int, r, low float64) {
	if !(math.Abs(x) < 0x1p20) {
		return manyQuarters(x)
	}
	const shift = 0x1.8p52 // adding it rounds to an integer
	k := float64(x*(2/math.Pi)) + shift - shift
	if k == 0 {
		return 0, x, 0
	}
	// All products but the last are exact, and so is the first difference: both are within a factor of two.
	a := x - float64(k*halfPi[0])
	b := float64(k * halfPi[1])
	r = a - b
	d := r - a
	low = (a - (r - d)) - (b + d)
	a, b = r, float64(k*halfPi[2])
	r = a - b
	d = r - a
	low += (a - (r - d)) - (b + d)
	low -= float64(k * halfPi[3])
	sum := r + low
	d = sum - r
	return int(k), sum, (r - (sum - d)) + (low - d)
}

// twoOverPi is 2/pi: a word of zeros before the point, and 20 behind it.
var twoOverPi = [21]uint64{
	0,
	0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
	0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
	0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
	0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d,
}

// manyQuarters is quarters of a large x: of the product with 2/pi what is left of whole turns, to 2^-200, whatever the size of x.
func manyQuarters(x float64) (q int, r, low float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, math.NaN(), 0
	}
	b := math.Float64bits(x)
	m, e := b&(1<<52-1)|1<<52, int(b>>52&0x7ff)-1075 // x is m*2^e
	// The 256 bits of 2/pi from that on whose product with 2^e counts 2: those before it make whole turns.
	at := e - 2 + 64
	var w [5]uint64 // the lowest word last
	for i := range 4 {
		k := at/64 + i
		w[i] = twoOverPi[k]<<(at%64) | twoOverPi[k+1]>>1>>(63-at%64)
	}
	var carry uint64
	for i := 3; i >= 0; i-- { // times m, without what overflows
		hi, lo := bits.Mul64(w[i], m)
		var c uint64
		w[i], c = bits.Add64(lo, carry, 0)
		carry = hi + c
	}
	q = int(w[0] >> 62)
	w[0] &= 1<<62 - 1
	negative := w[0]>>61 != 0
	if negative { // more than half a quarter: less than none of the next
		q++
		c := uint64(0)
		for i := 3; i >= 0; i-- {
			w[i], c = bits.Sub64(0, w[i], c)
		}
		w[0] &= 1<<62 - 1
	}
	weight := -254 + 255 // of the highest bit, when it is 2
	for w[0] == 0 {
		copy(w[:4], w[1:])
		weight -= 64
	}
	if n := bits.LeadingZeros64(w[0]); n > 0 {
		for i := range 3 {
			w[i] = w[i]<<n | w[i+1]>>(64-n)
		}
		weight -= n
	}
	first := math.Ldexp(float64(w[0]>>11), weight-52)
	second := math.Ldexp(float64(w[0]&(1<<11-1)<<42|w[1]>>22), weight-105)
	const low2 = 0x1.1a62633145c07p-54 // of pi/2
	r = float64(first * (math.Pi / 2))
	low = math.FMA(first, math.Pi/2, -r) + (float64(first*low2) + float64(second*(math.Pi/2)))
	r, low = fastSum(r, low)
	if negative {
		r, low = -r, -low
	}
	if x < 0 {
		return -q, -r, -low
	}
	return q, r, low
}
