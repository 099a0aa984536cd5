package cpu

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/fulltests"
)

// long is a number of about 105 bits, the sum of two: what functions of float64 are compared with. TestLong_IsExact compares it with math/big.
type long struct{ hi, lo float64 }

func longOf(x float64) long { return long{x, 0} }

func sumOf(a, b float64) long {
	s := a + b
	t := s - a
	return long{s, (a - (s - t)) + (b - t)}
}

func (p long) plus(q long) long {
	s := sumOf(p.hi, q.hi)
	t := sumOf(p.lo, q.lo)
	s.lo += t.hi
	s = sumOf(s.hi, s.lo)
	s.lo += t.lo
	return sumOf(s.hi, s.lo)
}

func (p long) minus(q long) long { return p.plus(long{-q.hi, -q.lo}) }

func (p long) times(q long) long {
	h := float64(p.hi * q.hi)
	return sumOf(h, math.FMA(p.hi, q.hi, -h)+(float64(p.hi*q.lo)+float64(p.lo*q.hi)))
}

func (p long) over(q long) long {
	a := p.hi / q.hi
	r := p.minus(q.times(longOf(a)))
	b := r.hi / q.hi
	r = r.minus(q.times(longOf(b)))
	return long{a, b}.plus(longOf(r.hi / q.hi))
}

// scaled is p*2^n.
func (p long) scaled(n int) long { return long{math.Ldexp(p.hi, n), math.Ldexp(p.lo, n)} }

// inverses are 1/k.
var inverses = func() (list [40]long) {
	for k := 1; k < len(list); k++ {
		list[k] = longOf(1).over(longOf(float64(k)))
	}
	return list
}()

// exactExpm1Rest is x as n*log(2) + r, and exp(r)-1 by its series.
func exactExpm1Rest(x long) (n int, y long) {
	n = int(math.RoundToEven(x.hi / math.Ln2))
	f := float64(n) // products with the first two parts of log(2) are exact
	r := longOf(x.hi).minus(longOf(f * 0x1.62e42fefp-1)).plus(longOf(x.lo)).minus(longOf(f * 0x1.473de6afp-34)).minus(longOf(f).times(longOf(0x1.3c7673007e5edp-69)))
	for k := 30; k > 0; k-- {
		y = r.times(inverses[k]).times(y.plus(longOf(1)))
	}
	return n, y
}

// The exact functions are a long times a power of two.

func exactExp(x float64) (long, int) {
	n, y := exactExpm1Rest(longOf(x))
	return y.plus(longOf(1)), n
}

func exactExpm1Of(x long) (long, int) {
	n, y := exactExpm1Rest(x)
	if n == 0 || n > 200 {
		return y.plus(longOf(float64(min(n, 1)))), n
	}
	return y.plus(longOf(1)).minus(longOf(math.Ldexp(1, -n))), n
}

func exactExpm1Long(x float64) (long, int) { return exactExpm1Of(longOf(x)) }

// exactLogPair corrects a logarithm by Halley's method: it has three times its digits then.
func exactLogLong(x float64) (long, int) {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	y := math.Log(m)
	_, rest := exactExpm1Rest(longOf(y)) // exp(y) of |y| up to log(2)/2
	p := rest.plus(longOf(1))
	of := longOf(y).plus(longOf(2).times(longOf(m).minus(p)).over(longOf(m).plus(p)))
	return of.plus(longOf(float64(e)).times(long{math.Ln2, 0x1.abc9e3b39803fp-56})), 0
}

func exactLog1pLong(x float64) (long, int) {
	if x > 0x1p100 {
		return exactLogLong(x)
	}
	y := math.Log1p(x)
	p, n := exactExpm1Of(longOf(y))
	p = p.scaled(n)
	return longOf(y).plus(longOf(2).times(longOf(x).minus(p)).over(sumOf(x, 2).plus(p))), 0
}

func exactTanhLong(x float64) (long, int) {
	if math.Abs(x) > 30 {
		return longOf(math.Copysign(1, x)), 0
	}
	a := math.Abs(x)
	scale := 0
	if a < 0x1p-500 {
		return longOf(x * 0x1p500), -500
	}
	p, n := exactExpm1Of(longOf(2 * a))
	p = p.scaled(n)
	p = p.over(p.plus(longOf(2)))
	return long{math.Copysign(p.hi, x), math.Copysign(1, x) * p.lo}, scale
}

func exactSigmoidLong(x float64) (long, int) {
	p, n := exactExp(-math.Abs(x))
	bottom := longOf(1)
	if n > -300 {
		bottom = p.scaled(n).plus(bottom)
	}
	if x >= 0 {
		return longOf(1).over(bottom), 0
	}
	return p.over(bottom), n
}

// wideAccuracies are what functions of float64 promise, in units in the last place, of numbers of a range.
var wideAccuracies = map[string]struct {
	f        wideFunctionID
	exact    func(x float64) (long, int)
	ulps     float64
	from, to float64
}{
	"exp":     {fnExpFloat64, exactExp, 1, -745.2, 709.782},
	"expm1":   {fnExpm1Float64, exactExpm1Long, 1, -745, 709.782},
	"log":     {fnLogFloat64, exactLogLong, 1, 0x1p-1074, math.MaxFloat64},
	"log1p":   {fnLog1pFloat64, exactLog1pLong, 1, -1 + 0x1p-53, math.MaxFloat64},
	"tanh":    {fnTanhFloat64, exactTanhLong, 1, -700, 700},
	"sigmoid": {fnSigmoidFloat64, exactSigmoidLong, 1, -709.782, 745},
}

// wideUlps is how far off v is from p*2^n.
func wideUlps(v float64, p long, n int) float64 {
	exponent := max(math.Ilogb(p.hi)+n-52, -1074)
	if v == 0 && p.hi == 0 {
		return 0
	}
	// Both over the last place.
	shift := -exponent
	d := math.Ldexp(math.Ldexp(v, shift/2), shift-shift/2)
	q := p.scaled(n + shift)
	return math.Abs((d - q.hi) - q.lo)
}

// wideSamples are numbers of a range: of all exponents, of every place in it, and such as functions meet.
func wideSamples(rng *rand.Rand, v []float64, from, to float64) {
	for i := range v {
		for {
			var x float64
			switch rng.IntN(4) {
			case 0:
				x = math.Float64frombits(rng.Uint64())
			case 1:
				x = max(from, -1000) + rng.Float64()*(min(to, 1000)-max(from, -1000))
			case 2:
				x = 3 * rng.NormFloat64()
			default:
				x = 1 + math.Ldexp(rng.Float64()-0.5, -rng.IntN(50)) // near 1
				if rng.IntN(2) == 0 {
					x -= 1
				}
			}
			if x >= from && x <= to {
				v[i] = x
				break
			}
		}
	}
}

// TestWideFunctions_AreAccurate tries thirty thousand numbers, in full tests two million.
func TestWideFunctions_AreAccurate(t *testing.T) {
	const block = 4096
	for name, c := range wideAccuracies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(c.f), 15))
			x, out := make([]float64, block), make([]float64, block)
			worst, at := 0.0, 0.0
			for range fulltests.Or(512, 8) {
				wideSamples(rng, x, c.from, c.to)
				applyWide(c.f, out, x, nil, nil, nil)
				for i, v := range x {
					p, n := c.exact(v)
					if u := wideUlps(out[i], p, n); !(u <= worst) {
						worst, at = u, v
					}
				}
			}
			t.Logf("%.3f ulp at %g", worst, at)
			require.LessOrEqual(t, worst, c.ulps, "at %g", at)
		})
	}
}

// TestLong_IsExact compares what functions are compared with with series of a thousand bits.
func TestLong_IsExact(t *testing.T) {
	number := func(x float64) *big.Float { return new(big.Float).SetPrec(1200).SetFloat64(x) }
	expOf := func(x *big.Float) *big.Float { // of x/2^20, squared
		r := new(big.Float).SetMantExp(x, -20)
		y, term := number(1), number(1)
		for k := 1; k < 60; k++ {
			term.Quo(term.Mul(term, r), number(float64(k)))
			y.Add(y, term)
		}
		for range 20 {
			y.Mul(y, y)
		}
		return y
	}
	near := func(p long, n int, want *big.Float) {
		t.Helper()
		got := new(big.Float).Add(number(p.hi), number(p.lo))
		got.SetMantExp(got, n)
		off, _ := got.Quo(got.Sub(got, want), want).Float64()
		require.Less(t, math.Abs(off), 0x1p-90)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	one := number(1)
	for range 50 {
		for _, x := range []float64{20 * rng.NormFloat64(), math.Ldexp(rng.NormFloat64(), -rng.IntN(60)), 700 * rng.Float64()} {
			p, n := exactExp(x)
			e := expOf(number(x))
			near(p, n, e)
			p, n = exactExpm1Long(x)
			less := new(big.Float).Sub(e, one)
			near(p, n, less)
			if math.Abs(x) < 30 {
				p, n = exactTanhLong(x)
				square := new(big.Float).Mul(e, e)
				near(p, n, new(big.Float).Quo(new(big.Float).Sub(square, one), new(big.Float).Add(square, one)))
			}
			p, n = exactSigmoidLong(x)
			near(p, n, new(big.Float).Quo(e, new(big.Float).Add(e, one)))

			// A logarithm is right if the exponential of it is: the error of that one is relative.
			for y, of := range map[float64]func(float64) (long, int){math.Abs(x): exactLogLong, 1 + math.Abs(x)/1000: exactLogLong} {
				p, _ = of(y)
				near(longOf(y), 0, expOf(new(big.Float).Add(number(p.hi), number(p.lo))))
			}
			p, _ = exactLog1pLong(math.Abs(x))
			near(longOf(math.Abs(x)), 0, new(big.Float).Sub(expOf(new(big.Float).Add(number(p.hi), number(p.lo))), one))
		}
	}
}

// TestWideFunctions_KnowTheirEnds: values at 0, at infinity and beyond, with signs.
func TestWideFunctions_KnowTheirEnds(t *testing.T) { forFunctionSets(t, testWideEnds) }

func testWideEnds(t *testing.T) {
	inf, nan, zero, least := math.Inf(1), math.NaN(), math.Copysign(0, -1), 0x1p-1074
	for f, x := range map[wideFunctionID][]float64{ // arguments and values in turn
		fnExpFloat64:     {0, 1, zero, 1, inf, inf, -inf, 0, nan, nan, 709.782712893384, 0x1.fffffffffff2ap+1023, 709.7827128933841, inf, 1e300, inf, -746, 0, -745.1332191019411, least, -745.1332191019412, 0, -1e300, 0, least, 1},
		fnExpm1Float64:   {0, 0, zero, zero, inf, inf, -inf, -1, nan, nan, least, least, -least, -least, 3 * least, 3 * least, 1e-300, 1e-300, -1e300, -1, 709.782712893384, 0x1.fffffffffff2ap+1023, 709.7827128933841, inf},
		fnLogFloat64:     {1, 0, 0, -inf, zero, -inf, inf, inf, -inf, nan, -1, nan, -least, nan, nan, nan, least, -744.4400719213812, math.MaxFloat64, 709.782712893384, math.E, 1},
		fnLog1pFloat64:   {0, 0, zero, zero, -1, -inf, inf, inf, -2, nan, -inf, nan, nan, nan, least, least, -least, -least, math.MaxFloat64, 709.782712893384, -1 + 0x1p-53, -53 * math.Ln2},
		fnTanhFloat64:    {0, 0, zero, zero, inf, 1, -inf, -1, nan, nan, least, least, -3 * least, -3 * least, 20, 1, -1e300, -1},
		fnSigmoidFloat64: {0, 0.5, zero, 0.5, inf, 1, -inf, 0, nan, nan, -709.782712893384, 0x1.000000000006cp-1024, -709.7827128933841, 0, -746, 0, -1e300, 0, 40, 1, 1e300, 1},
	} {
		for i := 0; i < len(x); i += 2 {
			var got [1]float64
			applyWide(f, got[:], x[i:i+1], nil, nil, nil)
			if want := x[i+1]; want != want {
				require.True(t, got[0] != got[0], "%s of %g is %g", wideFunctionNames[f], x[i], got[0])
			} else {
				require.Equal(t, math.Float64bits(want), math.Float64bits(got[0]), "%s of %g is %g, want %g", wideFunctionNames[f], x[i], got[0], want)
			}
		}
	}
}
