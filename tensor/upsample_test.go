package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

func TestUpsampleNearest2d_TakesTheElementsThatPyTorchTakes(t *testing.T) {
	var cases []struct {
		N, Size int
		Scale   float64
		Want    []float64
	}
	readGolden(t, "nearest.json", &cases)
	require.Greater(t, len(cases), 300)
	b := onHost(t)
	for _, c := range cases {
		x := must(t)(must(t)(tensor.Arange(b.Exec, 0, float64(c.N), 1, tensor.Float32)).View(1, 1, 1, c.N))
		u := tensor.Upsample{Size: []int{1, c.Size}}
		if c.Size == 0 {
			u = tensor.Upsample{Scale: []float64{1, c.Scale}}
		}
		require.Equal(t, c.Want, values(t, must(t)(x.UpsampleNearest2d(u))), "%d elements to %d, or by %v", c.N, c.Size, c.Scale)
	}
}
