package cpu

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// exactPow is x to the power of y by big numbers, for positive x and a result that is neither 0 nor infinite.
func exactPow(x, y float64) *big.Float {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	log := bigLog(m, 1)
	ln2 := bigFloat(0).Add(bigLog(4, 3), bigLog(3, 2))
	log.Add(log, bigFloat(0).Mul(ln2, bigFloat(float64(e))))
	log.Mul(log, bigFloat(y))

	near, _ := bigFloat(0).Quo(log, ln2).Float64()
	k := math.Round(near)
	r := log.Sub(log, bigFloat(0).Mul(ln2, bigFloat(k)))
	sum, term := bigFloat(0), bigFloat(1)
	for n := 1.0; n < 36; n++ {
		sum.Add(sum, term)
		term.Mul(term, r)
		term.Quo(term, bigFloat(n))
	}
	return sum.SetMantExp(sum, int(k))
}

// ulps64 is the distance of got from the exact value in units of its last place.
func ulps64(got float64, exact *big.Float) float64 {
	value, _ := exact.Float64()
	if math.IsInf(value, 0) && got == value {
		return 0
	}
	unit := math.Ldexp(1, max(math.Ilogb(value), -1022)-52)
	d, _ := bigFloat(0).Sub(exact, bigFloat(got)).Float64()
	return math.Abs(d) / unit
}

func TestPow64_IsWithinAnUlp(t *testing.T) {
	cases := [][2]float64{{1e-200, -0.645}, {1e-200, -0.625}, {1e308, 0.99999}, {5e-324, -0.5}, {5e-324, 0.5}, {5e-324, -0.9}, {1 + 0x1p-52, 1e18}, {1 - 0x1p-53, 1e18},
		{0.5, 1074}, {0.5, 1073.5}, {2, 1023.9999}, {math.Sqrt2, 2001}, {10, -308}, {10, 308}, {3, 646}, {0.9999, 7e6}, {math.MaxFloat64, 1}, {math.MaxFloat64, -1}, {7, 1e-320}}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20000 {
		x := math.Float64frombits(rng.Uint64() >> 1)
		if rng.IntN(2) == 0 {
			x = math.Exp(rng.NormFloat64())
		} else if rng.IntN(3) == 0 {
			x = 1 + math.Ldexp(rng.Float64()-0.5, -rng.IntN(50))
		}
		if l := math.Log(x); x < math.Inf(1) && l != 0 { // a result of any size, also a denormal one
			cases = append(cases, [2]float64{x, (rng.Float64()*1450 - 742) / l})
		}
	}
	worst := map[bool]float64{}
	var at [2]float64
	for _, c := range cases {
		x, y := c[0], c[1]
		if math.IsInf(y, 0) {
			continue
		}
		got := pow64(x, y)
		exact := exactPow(x, y)
		denormal := got < 0x1p-1022
		if d := ulps64(got, exact); d > worst[denormal] {
			worst[denormal], at = d, c
		}
	}
	require.LessOrEqual(t, worst[false], 0.6, "%v", at)
	require.LessOrEqual(t, worst[true], 2.0, "%v", at)
}

func TestPow64_OfSpecialNumbersIsMathPow(t *testing.T) {
	list := []float64{0, math.Copysign(0, -1), 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1.5, -1.5, 0x1p53, -0x1p53, 0x1p53 + 2, 0x1p52 + 1, 1e300, -1e300, 5e-324, -5e-324,
		math.MaxFloat64, -math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN()}
	for _, x := range list {
		for _, y := range list {
			want, got := math.Pow(x, y), pow64(x, y)
			if math.Abs(x) == 5e-324 && y != 0 { // math.Pow is wrong there
				want = math.Pow(math.Copysign(0x1p-1000, x), y) * math.Pow(0x1p-74, y)
			}
			if math.IsNaN(want) {
				require.True(t, math.IsNaN(got), "%v^%v is %v", x, y, got)
				continue
			}
			require.Equal(t, math.Signbit(want), math.Signbit(got), "%v^%v", x, y)
			if want == 0 || math.IsInf(want, 0) || math.Abs(want) == 1 {
				require.Equal(t, want, got, "%v^%v", x, y)
				continue
			}
			require.InEpsilon(t, want, got, 1e-13, "%v^%v", x, y)
		}
	}
}

func BenchmarkPow64(b *testing.B) {
	s := 0.0
	for i := range b.N {
		s += pow64(1.5+float64(i&1023), 1.7)
	}
	_ = s
}

func BenchmarkMathPow(b *testing.B) {
	s := 0.0
	for i := range b.N {
		s += math.Pow(1.5+float64(i&1023), 1.7)
	}
	_ = s
}
