package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// A mistake that is seen before anything is computed leaves the graph as it was.
func TestWithGradient_OfAnotherDeviceLeavesTheGraph(t *testing.T) {
	dev, other := host.New(), host.New(host.Capacity(1<<30))
	e, err := tensor.On(dev)
	require.NoError(t, err)
	far, err := tensor.On(other)
	require.NoError(t, err)
	x, err := tensor.Ones(e, tensor.Float32, 3)
	require.NoError(t, err)
	defer x.Release()
	wrong, err := tensor.Ones(far, tensor.Float32, 3)
	require.NoError(t, err)
	defer wrong.Release()
	g := autograd.NewGraph(dev)
	defer g.Release()
	v := g.Input(x, autograd.RequiresGrad())
	w := v.MulScalar(2)
	var elsewhere *tensor.DeviceError
	require.ErrorAs(t, w.Backward(autograd.WithGradient(wrong)), &elsewhere)
	require.NoError(t, w.Backward(autograd.WithGradient(x)))
	got, err := tensor.ToSlice[float32](v.Grad())
	require.NoError(t, err)
	require.Equal(t, []float32{2, 2, 2}, got)
}
