package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// On a GPU's driver, here the emulated one: pinned memory, asynchronous copies, and events that say when they are done.
func TestHostCopy_OnACUDADevice(t *testing.T) {
	rig := cudatest.New(t, 1)
	dev := rig.Devices[0]
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, alloc.Close()); require.NoError(t, memory.Drop(dev)) }()
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	data := make([]float32, 5000)
	for i := range data {
		data[i] = float32(i)
	}
	for _, pinned := range []bool{true, false} {
		for range 3 {
			x, err := tensor.FromSlice(e, data, 50, 100)
			require.NoError(t, err)
			h, err := x.CopyToHost(pinned)
			require.NoError(t, err)
			x.Release()
			again, err := h.Tensor(e)
			require.NoError(t, err)
			h.Release()
			got, err := tensor.ToSlice[float32](again)
			require.NoError(t, err)
			require.Equal(t, data, got)
			again.Release()
		}
	}
	require.Positive(t, rig.Calls()["cuMemcpyDtoHAsync_v2"])
}
