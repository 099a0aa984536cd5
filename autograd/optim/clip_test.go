package optim_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// withGradients makes parameters with the gradients 3 and 4 (norm 5), and one without.
func withGradients(t *testing.T, e tensor.Exec, dt tensor.DType) params {
	t.Helper()
	ps := params{param(t, e, 0, 1, dt), param(t, e, 1, 1, dt), param(t, e, 2, 1, dt)}
	for i, v := range []float64{3, 4} {
		grad, err := tensor.Full(e, v, dt, 1)
		require.NoError(t, err)
		ps[i].SetGrad(grad)
	}
	return ps
}

func gradient(t *testing.T, p *autograd.Parameter) float64 {
	t.Helper()
	v, err := p.Grad().Item()
	require.NoError(t, err)
	return v
}

func TestClipGradNorm_ScalesAllGradientsTogether(t *testing.T) {
	e, _ := newExec(t, host.New())
	ps := withGradients(t, e, tensor.Float64)
	norm, err := optim.ClipGradNorm(ps, 1)
	require.NoError(t, err)
	require.Equal(t, 5.0, norm)
	factor := 1 / (5 + 1e-6) // PyTorch's
	require.InDelta(t, 3*factor, gradient(t, ps[0]), 1e-15)
	require.InDelta(t, 4*factor, gradient(t, ps[1]), 1e-15)
	require.Nil(t, ps[2].Grad())
}

func TestClipGradNorm_LeavesSmallGradientsAlone(t *testing.T) {
	e, _ := newExec(t, host.New())
	ps := withGradients(t, e, tensor.Float32)
	version := ps[0].Grad().Version()
	norm, err := optim.ClipGradNorm(ps, 6)
	require.NoError(t, err)
	require.Equal(t, 5.0, norm)
	require.Equal(t, version, ps[0].Grad().Version())
}

func TestClipGradNorm_OfHalfPrecisionDoesNotOverflow(t *testing.T) {
	e, _ := newExec(t, host.New())
	ps := withGradients(t, e, tensor.Float16)
	require.NoError(t, ps[0].Grad().FillInPlace(3000))
	require.NoError(t, ps[1].Grad().FillInPlace(4000))
	norm, err := optim.ClipGradNorm(ps, 5)
	require.NoError(t, err)
	require.Equal(t, 5000.0, norm)
	require.InDelta(t, 3, gradient(t, ps[0]), 0.01)
}

func TestClipGradNorm_LeavesGradientsThatAreNotFiniteToTheScaler(t *testing.T) {
	e, _ := newExec(t, host.New())
	ps := withGradients(t, e, tensor.Float32)
	require.NoError(t, ps[0].Grad().FillInPlace(math.Inf(1)))
	norm, err := optim.ClipGradNorm(ps, 1)
	require.NoError(t, err)
	require.Equal(t, math.Inf(1), norm)
	require.Equal(t, 4.0, gradient(t, ps[1]))
	_, err = optim.ClipGradNorm(ps, -1)
	require.ErrorIs(t, err, optim.ErrInvalid)
}
