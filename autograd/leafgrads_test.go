package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

func TestBackward_LeavesHaveGradientsOfTheirOwn(t *testing.T) {
	r := newRig(t, host.New())
	g := r.graph()
	defer g.Release()
	x, y, seed := r.tensor([]float64{1, 2}, 2), r.tensor([]float64{3, 4}, 2), r.tensor([]float64{1, 1}, 2)
	v, w := g.Input(x, autograd.RequiresGrad()), g.Input(y, autograd.RequiresGrad())
	require.NoError(t, v.Add(w).Backward(autograd.WithGradient(seed)))
	require.NoError(t, v.Grad().MulScalarInPlace(10))
	for want, have := range map[float64]*tensor.Tensor{10: v.Grad(), 1: w.Grad()} {
		values, err := have.Float64s()
		require.NoError(t, err)
		require.Equal(t, []float64{want, want}, values)
	}
	values, err := seed.Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{1, 1}, values)
}
