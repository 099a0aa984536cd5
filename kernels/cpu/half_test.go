package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// interesting has every value of a 16-bit type as float32, its neighbours, the middles between values, and random bits.
func interesting(from func([]float32, []uint16)) []float32 {
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	values := make([]float32, len(all))
	from(values, all)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 1 << 16 {
		b := math.Float32bits(values[i])
		for _, v := range []uint32{b + 1, b - 1, b + 1<<12, b + 1<<12 + 1, b + 1<<12 - 1, b + 1<<15, b + 1<<15 + 1, b + 1<<15 - 1, rng.Uint32()} {
			values = append(values, math.Float32frombits(v))
		}
	}
	return values
}

func TestHalf_EveryValueSurvivesTheRoundTrip(t *testing.T) {
	for name, c := range map[string]struct {
		from func([]float32, []uint16)
		to   func([]uint16, []float32)
		nan  uint16 // exponent bits
	}{"float16": {fromHalf, toHalf, 0x7c00}, "bfloat16": {fromBrain, toBrain, 0x7f80}} {
		values, back, again := make([]float32, 1<<16), make([]uint16, 1<<16), make([]uint16, 1<<16)
		for i := range back {
			back[i] = uint16(i)
		}
		c.from(values, back)
		c.to(again, values)
		for i, b := range back {
			if b&0x7fff > c.nan {
				require.NotEqual(t, values[i], values[i], "%s %#x", name, b)
				require.Greater(t, again[i]&0x7fff, c.nan, "%s %#x", name, b)
				continue
			}
			require.Equal(t, b, again[i], name)
		}
	}
}

func TestHalf_VectorsAgreeWithGo(t *testing.T) {
	values := append(interesting(fromHalf), interesting(fromBrain)...)
	values = values[:len(values)-3] // not a multiple of a vector
	got, want := make([]uint16, len(values)), make([]uint16, len(values))
	toHalf(got, values)
	toHalfGo(want, values)
	require.Equal(t, want, got)
	toBrain(got, values)
	toBrainGo(want, values)
	require.Equal(t, want, got)

	bits := make([]uint16, 1<<16)
	for i := range bits {
		bits[i] = uint16(i)
	}
	a, b := make([]float32, len(bits)), make([]float32, len(bits))
	for name, c := range map[string][2]func([]float32, []uint16){"float16": {fromHalf, fromHalfGo}, "bfloat16": {fromBrain, fromBrainGo}} {
		c[0](a, bits)
		c[1](b, bits)
		for i := range a {
			require.Equal(t, math.Float32bits(b[i]), math.Float32bits(a[i]), "%s %#x", name, i)
		}
	}
}

func TestHalf_RoundsToTheNearestEven(t *testing.T) {
	src := []float32{1 + 0x1p-11, 1 + 3*0x1p-11, 1 + 0x1p-11 + 0x1p-20, 65519.996, 65520, 0x1p-25, 0x1.8p-25, -0x1p-24}
	dst := make([]uint16, len(src))
	toHalf(dst, src)
	require.Equal(t, []uint16{0x3c00, 0x3c02, 0x3c01, 0x7bff, 0x7c00, 0, 1, 0x8001}, dst)

	src = []float32{1 + 0x1p-8, 1 + 3*0x1p-8, 1 + 0x1p-8 + 0x1p-20, math.MaxFloat32, -0x1p-133, float32(math.Inf(-1)), 1, 1}
	toBrain(dst, src)
	require.Equal(t, []uint16{0x3f80, 0x3f82, 0x3f81, 0x7f80, 0x8001, 0xff80, 0x3f80, 0x3f80}, dst)
}
