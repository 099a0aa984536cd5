package cpu

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// format is a 16-bit type, described so that a reference can be exact: the values of its non-negative numbers, computed from
// the fields of their patterns in float64, which holds them all.
type format struct {
	name     string
	mantissa int // bits
	bias     int
	from     func([]float32, []uint16)
	to       func([]uint16, []float32)
	numbers  []float64 // by pattern, infinity last
}

func formats() []*format {
	list := []*format{
		{name: "float16", mantissa: 10, bias: 15, from: fromHalf, to: toHalf},
		{name: "bfloat16", mantissa: 7, bias: 127, from: fromBrain, to: toBrain},
	}
	for _, f := range list {
		infinity := 0x7fff >> f.mantissa << f.mantissa
		for b := 0; b < infinity; b++ {
			f.numbers = append(f.numbers, f.value(b))
		}
		f.numbers = append(f.numbers, math.Inf(1))
	}
	return list
}

// value is the number of a non-negative pattern: subnormal if the exponent's bits are 0.
func (f *format) value(b int) float64 {
	fraction, exponent := float64(b&(1<<f.mantissa-1)), b>>f.mantissa
	if exponent == 0 {
		return math.Ldexp(fraction, 1-f.bias-f.mantissa)
	}
	return math.Ldexp(fraction+float64(int(1)<<f.mantissa), exponent-f.bias-f.mantissa)
}

// round is IEEE 754's rounding to the nearest, ties to the even pattern; beyond the largest number, the step goes on as if
// there were one more.
func (f *format) round(x float64) uint16 {
	var sign uint16
	if math.Signbit(x) {
		sign, x = 0x8000, -x
	}
	i, exact := slices.BinarySearch(f.numbers, x)
	if exact {
		return sign | uint16(i)
	}
	below, above := f.numbers[i-1], f.numbers[i]
	if math.IsInf(above, 1) {
		above = below + (below - f.numbers[i-2])
	}
	if up, down := above-x, x-below; up < down || up == down && i%2 == 0 {
		return sign | uint16(i)
	}
	return sign | uint16(i-1)
}

func TestHalf_ReadsEveryPatternExactly(t *testing.T) {
	for _, f := range formats() {
		for b, want := range f.numbers {
			got := make([]float32, 2)
			f.from(got, []uint16{uint16(b), uint16(b) | 0x8000})
			require.Equal(t, []float32{float32(want), float32(math.Copysign(want, -1))}, got, "%s %#x", f.name, b)
			require.Equal(t, want, float64(got[0]), "float32 holds it exactly")
		}
	}
}

func FuzzHalf_RoundsAsTheReferenceDoes(f *testing.F) {
	all := formats()
	for _, b := range []uint32{0, 1, 0x33000000, 0x33000001, 0x387fe000, 0x477fefff, 0x477ff000, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0x7f800001, 0x80000000} {
		f.Add(b, b^0x80000000)
	}
	f.Fuzz(func(t *testing.T, a, b uint32) {
		// Enough elements for the vectors, so that both ways of computing are tried.
		src := make([]float32, 17)
		for i := range src {
			src[i] = math.Float32frombits(a + uint32(i)*b)
		}
		for _, f := range all {
			got := make([]uint16, len(src))
			f.to(got, src)
			for i, x := range src {
				if x != x {
					require.Greater(t, got[i]&0x7fff, uint16(len(f.numbers)-1), "%s of NaN %#x", f.name, math.Float32bits(x))
					continue
				}
				require.Equal(t, f.round(float64(x)), got[i], "%s of %x", f.name, x)
			}
		}
	})
}
