package reduce

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/stretchr/testify/require"
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
