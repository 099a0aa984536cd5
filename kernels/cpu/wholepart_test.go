package cpu

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// What no int64 is has one answer on all processors.
func TestCasts_OfNumbersBeyondIntegers(t *testing.T) {
	in := []float64{1e19, math.Inf(1), math.Inf(-1), math.NaN(), -1e19, 0x1p63, -0x1p63, 0x1p32 + 5, -1, 300}
	const low = math.MinInt64
	out := make([]int64, len(in))
	convertInt(out, in, nil)
	require.Equal(t, []int64{low, low, low, low, low, low, low, 1<<32 + 5, -1, 300}, out)
	narrow, bytes := make([]int32, len(in)), make([]uint8, len(in))
	convertInt(narrow, in, nil)
	require.Equal(t, []int32{0, 0, 0, 0, 0, 0, 0, 5, -1, 300}, narrow)
	convertInt(bytes, in, nil)
	require.Equal(t, []uint8{0, 0, 0, 0, 0, 0, 0, 5, 255, 44}, bytes)
}
