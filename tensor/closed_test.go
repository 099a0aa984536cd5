package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func TestClosedDevice_RefusesTensors(t *testing.T) {
	for name, dev := range map[string]device.Device{"host": host.New(), "sim": sim.New(1 << 30)} {
		queue, err := dev.NewStream()
		require.NoError(t, err)
		var execs []tensor.Exec
		var kept []*tensor.Tensor
		for _, s := range []device.Stream{dev.DefaultStream(), queue} {
			e, err := tensor.On(dev, tensor.WithStream(s))
			require.NoError(t, err)
			cached, err := tensor.Ones(e, tensor.Float32, 4)
			require.NoError(t, err)
			x, err := tensor.Ones(e, tensor.Float32, 4)
			require.NoError(t, err)
			cached.Release() // its memory is handed out without asking the device
			execs, kept = append(execs, e), append(kept, x)
		}
		require.NoError(t, dev.Close())
		for i, e := range execs {
			x := kept[i]
			_, err := tensor.Ones(e, tensor.Float32, 4)
			require.ErrorIs(t, err, device.ErrClosed, name)
			_, err = x.Add(x)
			require.ErrorIs(t, err, device.ErrClosed, name)
			_, err = x.MatMul(x)
			require.ErrorIs(t, err, device.ErrClosed, name)
			require.ErrorIs(t, x.FillInPlace(2), device.ErrClosed, name)
			_, err = x.Float64s()
			require.ErrorIs(t, err, device.ErrClosed, name)
			_, err = tensor.FromSlice(e, []float32{1, 2, 3, 4})
			require.ErrorIs(t, err, device.ErrClosed, name)
			x.Release()
		}
		_ = memory.Drop(dev)
	}
}

func TestClosedAllocator_RefusesItsTensors(t *testing.T) {
	dev := host.New()
	defer dev.Close()
	allocators := map[string]memory.Allocator{"direct": memory.NewDirect(dev)}
	var err error
	allocators["caching"], err = memory.New(dev, memory.Config{})
	require.NoError(t, err)
	allocators["of the registry"], err = memory.For(dev)
	require.NoError(t, err)
	queue, err := dev.NewStream()
	require.NoError(t, err)
	for name, a := range allocators {
		var tensors []*tensor.Tensor
		for _, s := range []device.Stream{dev.DefaultStream(), queue} {
			e, err := tensor.On(dev, tensor.WithAllocator(a), tensor.WithStream(s))
			require.NoError(t, err)
			x, err := tensor.Ones(e, tensor.Float32, 2, 2)
			require.NoError(t, err)
			other, err := tensor.On(dev, tensor.WithAllocator(a), tensor.WithStream(queue))
			require.NoError(t, err)
			tensors = append(tensors, x, x.On(other))
		}
		if name == "of the registry" {
			require.ErrorIs(t, memory.Drop(dev), memory.ErrLeak)
		} else {
			require.ErrorIs(t, a.Close(), memory.ErrLeak)
		}
		for _, x := range tensors {
			refuseClosed(t, name, x)
			x.Release()
		}
	}
}

// refuseClosed uses a tensor whose memory is gone.
func refuseClosed(t *testing.T, name string, x *tensor.Tensor) {
	t.Helper()
	_, err := x.Float64s()
	require.ErrorIs(t, err, memory.ErrUseAfterFree, name)
	_, err = x.CopyToHost(false)
	require.ErrorIs(t, err, memory.ErrUseAfterFree, name)
	require.ErrorIs(t, x.FillInPlace(3), memory.ErrUseAfterFree, name)
	require.ErrorIs(t, x.FillInPlace(0), memory.ErrUseAfterFree, name)
	require.ErrorIs(t, tensor.CopyFromSlice(x, []float32{1, 2, 3, 4}), memory.ErrUseAfterFree, name)
	far, err := tensor.On(sim.New(1 << 30))
	require.NoError(t, err)
	_, err = x.ToDevice(far)
	require.ErrorIs(t, err, memory.ErrUseAfterFree, name)
	_, err = x.Add(x)
	require.ErrorIs(t, err, device.ErrClosed, name)
	require.NotEmpty(t, x.String())
}

func TestClosedAllocator_RefusesPinnedCopies(t *testing.T) {
	dev := host.New()
	defer dev.Close()
	e, err := tensor.On(dev)
	require.NoError(t, err)
	x, err := tensor.Ones(e, tensor.Float32, 4)
	require.NoError(t, err)
	c, err := x.CopyToHost(true)
	require.NoError(t, err)
	x.Release()
	require.ErrorIs(t, memory.Drop(dev), memory.ErrLeak)
	e, err = tensor.On(dev)
	require.NoError(t, err)
	_, err = c.Tensor(e)
	require.ErrorIs(t, err, memory.ErrUseAfterFree)
	c.Release()
	require.NoError(t, memory.Drop(dev))
}
