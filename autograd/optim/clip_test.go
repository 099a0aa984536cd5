package optim_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/tensor"
)

// withGradients makes parameters with the gradients 3 and 4 (norm 5), and one without.
func withGradients(t *testing.T, e tensor.Exec, dt tensor.DType) params {
	t.Helper()
	ps := params{param(t, e, 0, 1, dt), param(t, e, 1, 1, dt), param(t, e, 2, 1, dt)}
	for i, v := range []float64{3, 4} {
		grad, err := tensor.Full(e, v, dt, 1)
		require.NoError(t, err)
		require.NoError(t, ps[i].SetGrad(grad))
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
	norm, err := optim.ClipGradNorm(ps, 6)
	require.NoError(t, err)
	require.Equal(t, 5.0, norm)
	require.Equal(t, []float64{3, 4}, []float64{gradient(t, ps[0]), gradient(t, ps[1])})
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

func TestClipGradNorm_MeasuresByOtherNorms(t *testing.T) {
	e, _ := newExec(t, host.New())
	for p, want := range map[float64]float64{1: 7, math.Inf(1): 4, 3: math.Cbrt(27 + 64)} {
		ps := withGradients(t, e, tensor.Float64)
		norm, err := optim.ClipGradNorm(ps, 1, optim.NormType(p))
		require.NoError(t, err)
		require.InDelta(t, want, norm, 1e-12)
		require.InDelta(t, 3/(want+1e-6), gradient(t, ps[0]), 1e-12)
	}
	_, err := optim.ClipGradNorm(nil, 1, optim.NormType(0))
	require.ErrorIs(t, err, optim.ErrInvalid)
}

func TestClipGradNorm_WithErrorIfNonFinite_ChangesNothing(t *testing.T) {
	e, _ := newExec(t, host.New())
	ps := withGradients(t, e, tensor.Float32)
	require.NoError(t, ps[0].Grad().FillInPlace(math.NaN()))
	var bad *optim.NonFiniteError
	require.ErrorAs(t, optim.ClipGradNormAsync(ps, 1, optim.ErrorIfNonFinite()), &bad)
	require.True(t, math.IsNaN(bad.Norm))
	require.Equal(t, 4.0, gradient(t, ps[1]))
}

func TestClipGradNorm_OfGradientsOnTwoStreams_IsOneNorm(t *testing.T) {
	dev := host.New()
	e, alloc := newExec(t, dev)
	s, err := dev.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	other, err := tensor.On(dev, tensor.WithStream(s), tensor.WithAllocator(alloc))
	require.NoError(t, err)
	ps := withGradients(t, e, tensor.Float64)
	moved, err := tensor.Full(other, 12, tensor.Float64, 1)
	require.NoError(t, err)
	require.NoError(t, ps[2].SetGrad(moved))
	norm, err := optim.ClipGradNorm(ps, 1.3)
	require.NoError(t, err)
	require.InDelta(t, 13, norm, 1e-12)
	require.InDelta(t, 1.2, gradient(t, ps[2]), 1e-6)
	require.InDelta(t, 0.3, gradient(t, ps[0]), 1e-6)
}

func TestClipGradNormAsync_DoesNotWait(t *testing.T) {
	reads := 0
	e, _ := newExec(t, sim.New(1<<30, sim.OnCall(func(c sim.Call) {
		if c.Kind == sim.CallCopyToHost {
			reads++
		}
	})))
	ps := withGradients(t, e, tensor.Float32)
	require.NoError(t, optim.ClipGradNormAsync(ps, 1))
	require.NoError(t, optim.ClipGradValue(ps, 1))
	require.Zero(t, reads)
	_, err := optim.ClipGradNorm(ps, 1)
	require.NoError(t, err)
	require.Equal(t, 1, reads)
}

func TestClipGradValue_LimitsEachElement(t *testing.T) {
	e, _ := newExec(t, host.New())
	ps := withGradients(t, e, tensor.BFloat16)
	require.NoError(t, optim.ClipGradValue(ps, 3.5))
	require.Equal(t, []float64{3, 3.5}, []float64{gradient(t, ps[0]), gradient(t, ps[1])})
	require.ErrorIs(t, optim.ClipGradValue(ps, math.NaN()), optim.ErrInvalid)
}

// The error counts the gradients beside the first, of which there may be none.
func TestClipGradNorm_OfAGradientThatIsGone_SaysWhose(t *testing.T) {
	e, _ := newExec(t, host.New())
	ps := withGradients(t, e, tensor.Float32)
	ps[0].Grad().Release()
	first := excerpt.Quote(ps[0].Name())
	for n, whose := range map[int]string{1: "the gradient of " + first, 2: "the gradients of " + first + " and 1 other"} {
		_, err := optim.ClipGradNorm(ps[:n], 1)
		require.ErrorContains(t, err, "optim: ClipGradNorm: "+whose+": ")
		require.ErrorIs(t, err, tensor.ErrReleased)
	}
}
