package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// What does not fit would be broadcast into by the next Backward, or added in another type.
func TestParameter_SetGrad_RefusesWhatIsNoGradientOfIt(t *testing.T) {
	r, other := onHost(t), onSim(t)
	w := autograd.NewParameter("w", must(tensor.Ones(r.exec, tensor.Float32, 2, 3)))
	defer w.Release()
	have := must(tensor.Ones(r.exec, tensor.Float32, 2, 3))
	require.NoError(t, w.SetGrad(have))
	var shape *tensor.ShapeError
	for _, wrong := range [][]int{{3}, {3, 2}, {6}, {1, 3}, {}} {
		x := must(tensor.Ones(r.exec, tensor.Float32, wrong...))
		require.ErrorAs(t, w.SetGrad(x), &shape)
		require.False(t, x.Released(), "it stays the caller's")
		x.Release()
	}
	require.ErrorContains(t, shape, `SetGrad of parameter "w"`)
	for _, dt := range []tensor.DType{tensor.Float64, tensor.Float16, tensor.Int64} {
		x := must(tensor.Ones(r.exec, dt, 2, 3))
		var dtype *tensor.DTypeError
		require.ErrorAs(t, w.SetGrad(x), &dtype)
		require.Equal(t, []tensor.DType{dt, tensor.Float32}, dtype.DTypes)
		x.Release()
	}
	far := must(tensor.Ones(other.exec, tensor.Float32, 2, 3))
	var elsewhere *tensor.DeviceError
	require.ErrorAs(t, w.SetGrad(far), &elsewhere)
	require.Equal(t, []device.ID{other.dev.ID(), r.dev.ID()}, elsewhere.Devices)
	far.Release()
	gone := must(tensor.Ones(r.exec, tensor.Float32, 2, 3))
	gone.Release()
	require.ErrorIs(t, w.SetGrad(gone), tensor.ErrReleased)
	require.Same(t, have, w.Grad())
	require.NoError(t, w.SetGrad(have), "what it has already")
	require.False(t, have.Released())
	require.NoError(t, w.SetGrad(nil))
	require.Nil(t, w.Grad())
	require.True(t, have.Released())

	declared := autograd.DeclareParameter("b", nil, 2)
	x := must(tensor.Ones(r.exec, tensor.Float32, 2))
	require.ErrorIs(t, declared.SetGrad(x), autograd.ErrNotMaterialized)
	x.Release()
}
