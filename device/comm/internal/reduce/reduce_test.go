package reduce

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/stretchr/testify/require"
	"github.com/x448/float16"
)

func floats32(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func ints(v ...int64) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	return b
}

func TestCombine_MaxAndMinKeepNaN(t *testing.T) {
	nan := float32(math.NaN())
	for _, kind := range []Kind{Max, Min} {
		got := floats32(0, 0)
		Combine(got, [][]byte{floats32(nan, 1), floats32(2, 1), floats32(3, nan)}, kind, dtype.Float32)
		for _, v := range slice[float32](got) {
			require.True(t, math.IsNaN(float64(v)))
		}
	}
}

func TestCombine_MeanOfIntegersDropsTheRest(t *testing.T) {
	got := ints(0, 0)
	Combine(got, [][]byte{ints(-1, 4), ints(-2, 1), ints(-2, 3)}, Mean, dtype.Int64)
	require.Equal(t, ints(-5/3, 8/3), got)
	Divide(got, 2, dtype.Int64)
	require.Equal(t, ints(0, 1), got)
}

func TestCombine_SumsInTheOrderOfTheRanks(t *testing.T) {
	got := floats32(0)
	Combine(got, [][]byte{floats32(1e8), floats32(-1e8), floats32(1)}, Sum, dtype.Float32)
	require.Equal(t, floats32(1), got)
	Combine(got, [][]byte{floats32(1), floats32(1e8), floats32(-1e8)}, Sum, dtype.Float32)
	require.Equal(t, floats32(0), got)
}

// The nearest of 2^16 values, found by looking at both neighbours, ties to the one whose last bit is 0.
func TestBfloat16Bits_IsTheNearest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	check := func(v float32) {
		got := bfloat16Bits(v)
		distance := math.Abs(float64(bfloat16Value(got)) - float64(v))
		for _, other := range []uint16{got - 1, got + 1} {
			o := float64(bfloat16Value(other))
			if math.IsNaN(o) || math.IsInf(o, 0) {
				continue
			}
			d := math.Abs(o - float64(v))
			require.True(t, distance < d || distance == d && got&1 == 0, "%v: %#x", v, got)
		}
	}
	for range 20_000 {
		if bits := r.Uint32(); bits&0x7f800000 < 0x7e800000 {
			check(math.Float32frombits(bits))
			check(math.Float32frombits(bits &^ 0x7fff)) // also ties
		}
	}
	require.Equal(t, uint16(0x7f80), bfloat16Bits(math.MaxFloat32), "beyond the largest is infinity")
	require.True(t, math.IsNaN(float64(bfloat16Value(bfloat16Bits(math.Float32frombits(0x7f800001))))))
}

func TestFloat16_ConvertsAsTheLibrary(t *testing.T) {
	for v := range 1 << 16 {
		want := float16.Frombits(uint16(v)).Float32()
		got := float16Value(uint16(v))
		require.True(t, got == want || want != want && got != got, "%#x", v)
		for _, bits := range []uint32{math.Float32bits(want), math.Float32bits(want) + 0x1000, math.Float32bits(want) + 0xfff, math.Float32bits(want) + 0x1001} {
			f := math.Float32frombits(bits)
			a, b := float16Bits(f), float16.Fromfloat32(f).Bits()
			require.True(t, a == b || f != f && a&0x7fff > 0x7c00, "%v: %#x, not %#x", f, a, b)
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		f := math.Float32frombits(r.Uint32())
		require.True(t, float16Bits(f) == float16.Fromfloat32(f).Bits() || f != f, "%v", f)
	}
}
