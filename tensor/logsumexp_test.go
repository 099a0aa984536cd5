package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// Along both dimensions: rows are folded, and columns merged.
func TestLogSumExp_OfInfinities(t *testing.T) {
	inf := float32(math.Inf(1))
	rows := [][]float32{{-inf, -inf, -inf}, {-inf, 2, -inf}, {1, inf, -inf}}
	want := []float32{-inf, 2, inf}
	e, err := tensor.On(host.New())
	require.NoError(t, err)
	var flat, turned []float32
	for range 11 { // more than one vector of rows and columns
		for _, r := range rows {
			flat = append(flat, r...)
		}
	}
	for i := range rows[0] {
		for range 11 {
			for _, r := range rows {
				turned = append(turned, r[i])
			}
		}
	}
	for dim, x := range [][]float32{turned, flat} {
		shape := [][]int{{3, 33}, {33, 3}}[dim]
		a, err := tensor.FromSlice(e, x, shape...)
		require.NoError(t, err)
		defer a.Release()
		r, err := a.LogSumExp([]int{dim}, false)
		require.NoError(t, err)
		defer r.Release()
		have, err := tensor.ToSlice[float32](r)
		require.NoError(t, err)
		for i, v := range have {
			require.Equal(t, want[i%3], v, "dimension %d, result %d", dim, i)
		}
	}
}
