package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// The types and results are those of torch.where with a Python number.
func TestWhereScalar_HasTheTypeThatTheNumberLeaves(t *testing.T) {
	b := onHost(t)
	cond := must(t)(must(t)(tensor.FromSlice(b.Exec, []int64{1, 0}, 2)).To(tensor.Bool))
	for _, c := range []struct {
		dt, want tensor.DType
		v        float64
		then     []float64 // x where it holds, else v
		other    []float64
	}{
		{tensor.Float16, tensor.Float16, 2, []float64{1, 2}, []float64{2, 0}}, {tensor.BFloat16, tensor.BFloat16, 0.5, []float64{1, 0.5}, []float64{0.5, 0}},
		{tensor.Float64, tensor.Float64, 0.1, []float64{1, 0.1}, []float64{0.1, 0}}, {tensor.Int64, tensor.Int64, 300, []float64{1, 300}, []float64{300, 0}},
		{tensor.Int32, tensor.Float32, 0.5, []float64{1, 0.5}, []float64{0.5, 0}}, {tensor.Uint8, tensor.Uint8, -1, []float64{1, 255}, []float64{255, 0}},
		{tensor.Int64, tensor.Float32, 0x1p70, []float64{1, 0x1p70}, []float64{0x1p70, 0}}, {tensor.Uint8, tensor.Uint8, -255, []float64{1, 1}, []float64{1, 0}},
		{tensor.Float16, tensor.Float16, math.Inf(1), []float64{1, math.Inf(1)}, []float64{math.Inf(1), 0}},
		{tensor.Bool, tensor.Int64, 2, []float64{1, 2}, []float64{2, 0}}, {tensor.Bool, tensor.Float32, 0.5, []float64{1, 0.5}, []float64{0.5, 0}},
	} {
		x := must(t)(must(t)(tensor.FromSlice(b.Exec, []int64{1, 0}, 2)).To(c.dt))
		then := must(t)(tensor.WhereScalar(cond, x, c.v))
		other := must(t)(tensor.RWhereScalar(cond, c.v, x))
		require.Equal(t, c.want, then.DType(), "%v", c)
		require.Equal(t, c.want, other.DType(), "%v", c)
		require.Equal(t, c.then, values(t, then), "%v", c)
		require.Equal(t, c.other, values(t, other), "%v", c)
	}
}

func TestWhereScalar_RefusesNumbersThatIntegersDoNotHold(t *testing.T) {
	b := onHost(t)
	cond := must(t)(must(t)(tensor.FromSlice(b.Exec, []int64{1, 0}, 2)).To(tensor.Bool))
	for _, c := range []struct {
		dt tensor.DType
		v  float64
	}{{tensor.Uint8, 256}, {tensor.Uint8, -256}, {tensor.Int32, 0x1p31}, {tensor.Int32, -0x1p31 - 1}} {
		x := must(t)(must(t)(tensor.FromSlice(b.Exec, []int64{1, 0}, 2)).To(c.dt))
		var bad *tensor.ValueError
		_, err := tensor.WhereScalar(cond, x, c.v)
		require.ErrorAs(t, err, &bad, "%v", c)
		_, err = tensor.RWhereScalar(cond, c.v, x)
		require.ErrorAs(t, err, &bad, "%v", c)
	}
}

func TestLerpInPlace_OfViews(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.FromSlice(b.Exec, []float32{1, 2, 3, 4}, 2, 2))
	row := must(t)(x.Select(0, 0))
	require.NoError(t, x.LerpScalarInPlace(row, 0.5)) // row is part of x, and is read before
	require.Equal(t, []float64{1, 2, 2, 3}, values(t, x))
	require.NoError(t, x.LerpInPlace(must(t)(tensor.FromSlice(b.Exec, []float32{5, 6}, 2)), must(t)(tensor.FromSlice(b.Exec, []float32{0, 1}, 2, 1))))
	require.Equal(t, []float64{1, 2, 5, 6}, values(t, x))
}
