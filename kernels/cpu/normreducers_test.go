package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each fourth element has a sum of its own: ones are lost in the sum that a large number is in, and in no other.
func TestFourSums_KeepFourSums(t *testing.T) {
	const large = 1 << 53 // the next number is large+2
	same := func(x float64) float64 { return x }
	for lane := range 4 {
		v := make([]float64, 64)
		for i := range v {
			v[i] = 1
		}
		v[lane] = large
		require.Equal(t, large+48.0, fourSums(v, same), "lane %d", lane)
	}
	require.Equal(t, float64(large), fourSums([]float64{large, 0, 0, 0, 1, 1}, same), "what is left over is added to the first")
}
