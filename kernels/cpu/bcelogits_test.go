package cpu

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where the target is met the loss is exp(-|x|): it must not be what is left of two numbers as large as x.
func TestBCEWithLogits_DoesNotCancel(t *testing.T) {
	inf := float32(math.Inf(1))
	x := []float32{-10.265625, -12, 12, 30, -80, 5, inf}
	y := []float32{0, 0, 1, 1, 0, 0, 0}
	got := make([]float32, len(x))
	apply(fnBceLogits, got, x, y, nil, nil)
	for i, v := range x[:6] {
		far := float64(v)
		if y[i] == 1 {
			far = -far
		}
		want := math.Log1p(math.Exp(far))
		require.InEpsilon(t, want, got[i], 1e-6, "%v of %v", y[i], v)
	}
	require.Equal(t, inf, got[6])
}
