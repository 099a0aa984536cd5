package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/tensor"
)

func TestGradNorm_JoinsAllTensorsOfAllTypes(t *testing.T) {
	b := onHost(t)
	three := must(t)(tensor.Full(b.Exec, 3, tensor.Float32, 1))
	four := must(t)(tensor.Full(b.Exec, -4, tensor.BFloat16, 1, 1))
	wide := must(t)(must(t)(tensor.Full(b.Exec, 6, tensor.Float64, 1)).Expand(4))
	before := b.allocated()
	for p, want := range map[float64]float64{
		1: 31, 2: 13, 3: math.Cbrt(27 + 64 + 4*216), math.Inf(1): 6, 0.5: math.Pow(math.Sqrt(3)+2+4*math.Sqrt(6), 2),
	} {
		norm, err := steps.GradNorm(b.Exec, tensors{three, nil, four, wide}, p)
		require.NoError(t, err)
		require.InDelta(t, want, values(t, norm)[0], 1e-12, "p = %v", p)
		require.Equal(t, tensor.Float64, norm.DType())
		norm.Release()
	}
	none := must(t)(steps.GradNorm(b.Exec, nil, 2))
	require.Equal(t, []float64{0}, values(t, none))
	require.Equal(t, before+512, b.allocated())
}

func TestGradNorm_OfHalfPrecisionDoesNotOverflow(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.Full(b.Exec, 60000, tensor.Float16, 16))
	require.Equal(t, []float64{240000}, values(t, must(t)(steps.GradNorm(b.Exec, tensors{x}, 2))))
}

func TestClipGradNorm_ScalesInPlaceAlsoThroughGaps(t *testing.T) {
	b := onHost(t)
	matrix := iota(t, b.Exec, 2, 2) // 0 1 2 3
	column := must(t)(matrix.Select(1, 1))
	norm := must(t)(tensor.Full(b.Exec, 10, tensor.Float64))
	require.NoError(t, steps.ClipGradNorm(tensors{nil, column}, norm, 5, false))
	factor := 5 / (10 + 1e-6)
	requireClose(t, []float64{0, factor, 2, 3 * factor}, values(t, matrix), 1e-6)
	require.EqualValues(t, 1, matrix.Version())
}

func TestClipGradNorm_OfANormThatIsNotFinite(t *testing.T) {
	b := onHost(t)
	for _, bad := range []float64{math.Inf(1), math.NaN()} {
		norm := must(t)(tensor.Full(b.Exec, bad, tensor.Float64))
		x := iota(t, b.Exec, 2)
		require.NoError(t, steps.ClipGradNorm(tensors{x}, norm, 1, false))
		require.Equal(t, []float64{0, 1}, values(t, x))
		require.NoError(t, steps.ClipGradNorm(tensors{x}, norm, 1, true))
		require.Equal(t, math.IsNaN(bad), math.IsNaN(values(t, x)[1]), "as PyTorch: x/inf is 0")
	}
}

func TestClipGradValue_LimitsElementsAndLeavesNaN(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.FromSlice(b.Exec, []float64{-3, -0.5, 0, 2, math.Inf(1), math.NaN()}))
	require.NoError(t, steps.ClipGradValue(b.Exec, tensors{x}, 1))
	got := values(t, x)
	require.Equal(t, []float64{-1, -0.5, 0, 1, 1}, got[:5])
	require.True(t, math.IsNaN(got[5]))
}

func TestClipping_IsOneLaunchForEachTypeAndDoesNotWait(t *testing.T) {
	launches, waits := 0, 0
	b, _ := onSim(t, sim.OnCall(func(c sim.Call) {
		switch c.Kind {
		case sim.CallSubmit:
			launches++
		case sim.CallCopyToHost:
			waits++
		}
	}))
	var grads tensors
	for range 10 {
		grads = append(grads, must(t)(tensor.Zeros(b.Exec, tensor.Float32, 5)), must(t)(tensor.Zeros(b.Exec, tensor.BFloat16, 5)))
	}
	launches = 0
	norm := must(t)(steps.GradNorm(b.Exec, grads, 2))
	require.Equal(t, 3, launches, "a sum for each type, and the root")
	require.NoError(t, steps.ClipGradNorm(grads, norm, 1, false))
	require.Equal(t, 5, launches)
	require.NoError(t, steps.ClipGradValue(b.Exec, grads, 1))
	require.Equal(t, 7, launches)
	require.Zero(t, waits)
}

func TestClipping_RefusesWhatItCannotDo(t *testing.T) {
	b := onHost(t)
	other := onHost(t)
	good := iota(t, b.Exec, 2)
	ints := must(t)(tensor.Zeros(b.Exec, tensor.Int64, 2))
	wide := must(t)(iota(t, b.Exec, 1).Expand(2))
	norm := must(t)(tensor.Full(b.Exec, 1, tensor.Float64))
	gone := iota(t, b.Exec, 2)
	gone.Release()
	of := func(x *tensor.Tensor, err error) refusal {
		if err == nil {
			x.Release()
		}
		return kindOf(err)
	}
	require.Equal(t, refusal("value"), of(steps.GradNorm(b.Exec, tensors{good}, 0)))
	require.Equal(t, refusal("value"), of(steps.GradNorm(b.Exec, tensors{good}, math.NaN())))
	require.Equal(t, refusal("dtype"), of(steps.GradNorm(b.Exec, tensors{good, ints}, 2)))
	require.Equal(t, refusal("dtype"), kindOf(steps.ClipGradNorm(tensors{good}, good, 1, false)))
	require.Equal(t, refusal("value"), kindOf(steps.ClipGradNorm(tensors{good}, norm, -1, false)))
	require.Equal(t, refusal("shape"), kindOf(steps.ClipGradNorm(tensors{good, wide}, norm, 1, false)))
	require.Equal(t, refusal("value"), kindOf(steps.ClipGradValue(b.Exec, tensors{good}, math.NaN())))
	_, err := steps.GradNorm(b.Exec, tensors{gone}, 2)
	require.ErrorIs(t, err, tensor.ErrReleased)
	var device *tensor.DeviceError
	_, err = steps.GradNorm(tensor.Exec{}, tensors{good}, 2)
	require.ErrorAs(t, err, &device)
	if other.Exec.Device().ID() != b.Exec.Device().ID() {
		_, err = steps.GradNorm(other.Exec, tensors{good}, 2)
		require.ErrorAs(t, err, &device)
	}
}
