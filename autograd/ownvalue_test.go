package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// A parameter whose gradient is said to be its value keeps that when the gradient goes.
func TestParameter_SetGradOfItsOwnValue_LeavesIt(t *testing.T) {
	dev := host.New()
	defer func() {
		require.NoError(t, memory.Drop(dev))
		require.NoError(t, dev.Close())
	}()
	e, err := tensor.On(dev)
	require.NoError(t, err)
	x, err := tensor.Ones(e, tensor.Float32, 3)
	require.NoError(t, err)
	p := autograd.NewParameter("weight", x)
	for range 2 {
		require.NoError(t, p.SetGrad(p.Tensor()))
		require.True(t, p.Grad().SharesStorage(p.Tensor()))
		p.ZeroGrad()
		require.Nil(t, p.Grad())
		require.NotNil(t, p.Tensor())
	}
	p.Release()
	require.Zero(t, memory.Allocated(dev))

	require.NoError(t, p.SetGrad(p.Tensor())) // there is none: nil is ZeroGrad
	require.Nil(t, p.Grad())
}
