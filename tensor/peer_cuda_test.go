package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// onTwo is two emulated GPUs, with streams and allocators of their own, that end with nothing left.
func onTwo(t *testing.T) (*cudatest.Rig, [2]tensor.Exec, [2]*memory.Caching) {
	rig := cudatest.New(t, 2)
	var on [2]tensor.Exec
	var allocs [2]*memory.Caching
	for i, dev := range rig.Devices {
		alloc, err := memory.New(dev, memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, alloc.Close()) })
		on[i], err = tensor.On(dev, tensor.WithAllocator(alloc), tensor.WithStream(rig.Stream(dev)))
		require.NoError(t, err)
		allocs[i] = alloc
	}
	return rig, on, allocs
}

func TestToDevice_HasTheDriverCopyBetweenGPUs(t *testing.T) {
	rig, on, allocs := onTwo(t)
	data := make([]float32, 5000)
	for i := range data {
		data[i] = float32(i)
	}
	for round := range 20 { // what is released is the next one's memory on both sides
		data[0] = float32(round)
		x, err := tensor.FromSlice(on[0], data, 50, 100)
		require.NoError(t, err)
		before := rig.Calls()
		y, err := x.ToDevice(on[1])
		require.NoError(t, err)
		x.Release()
		z, err := y.ToDevice(on[0])
		require.NoError(t, err)
		y.Release()
		after := rig.Calls()
		require.Equal(t, 2, after["cuMemcpyPeerAsync"]-before["cuMemcpyPeerAsync"])
		for _, call := range []string{"cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuStreamSynchronize"} {
			require.Equal(t, before[call], after[call], call)
		}
		got, err := tensor.ToSlice[float32](z)
		require.NoError(t, err)
		require.Equal(t, data, got)
		z.Release()
	}
	for _, a := range allocs {
		require.Zero(t, a.Stats().AllocatedBytes.All.Current)
	}
}

func TestToDevice_LosesNothingWhenACallFails(t *testing.T) {
	rig, on, allocs := onTwo(t)
	x, err := tensor.FromSlice(on[0], []float32{1, 2, 3, 4}, 4)
	require.NoError(t, err)
	held := allocs[0].Stats().AllocatedBytes.All.Current
	y, err := x.ToDevice(on[1]) // caches are filled
	require.NoError(t, err)
	y.Release()
	for call, times := range map[string]int{"cuEventCreate": 2, "cuEventRecord": 2, "cuStreamWaitEvent": 2, "cuMemcpyPeerAsync": 1} {
		for n := 1; n <= times; n++ {
			rig.Fail(call, n, 2)
			_, err := x.ToDevice(on[1])
			require.ErrorIs(t, err, device.ErrOutOfMemory, "%s %d", call, n)
			require.Equal(t, held, allocs[0].Stats().AllocatedBytes.All.Current, call)
			require.Zero(t, allocs[1].Stats().AllocatedBytes.All.Current, call)
		}
	}
	got, err := tensor.ToSlice[float32](x)
	require.NoError(t, err)
	require.Equal(t, []float32{1, 2, 3, 4}, got)
	x.Release()
}
