package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

func TestZeroNorms_SayThatNoConstructorMadeThem(t *testing.T) {
	for _, m := range []nn.Layer{new(nn.BatchNormLayer), new(nn.InstanceNormLayer)} {
		dev := host.New()
		g := autograd.NewGraph(dev)
		x, err := tensor.FromSlice(g.Exec(), []float32{1, 2, 3, 4, 5, 6}, 2, 3)
		require.NoError(t, err)
		m.Forward(g.Input(x))
		var bad *nn.ArgumentError
		require.ErrorAs(t, g.Err(), &bad, "%T", m)
		require.ErrorContains(t, g.Err(), "constructor", "%T", m)
		x.Release()
		g.Release()
		require.NoError(t, dev.Close())
	}
}
