package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// How many rows a cluster has is up to the classes, which a simulated device does not know: zeros would all be in the head.
func TestAdaptiveLogSoftmax_OnASimulatedDevice_IsRefused(t *testing.T) {
	dev := sim.New(64 << 20)
	defer func() { require.NoError(t, dev.Close()) }()
	m := nn.AdaptiveLogSoftmaxWithLoss(8, 20, []int{5, 10})
	require.NoError(t, m.To(dev))
	g := autograd.NewGraph(dev)
	out, _ := m.Forward(g.Zeros(tensor.Float32, 3, 8), g.Zeros(tensor.Int64, 3))
	require.False(t, out.Alive())
	var missing *tensor.ValuesError
	require.ErrorAs(t, g.Err(), &missing)
	require.Equal(t, "AdaptiveLogSoftmaxWithLoss", missing.Op)
	g.Release()
	m.Release()
	require.NoError(t, memory.Drop(dev), "nothing is in use any more")
}
