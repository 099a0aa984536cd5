package kernels_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
)

// vector is a view of n elements in new memory of a device.
func vector(t testing.TB, dev device.Device, d dtype.DType, n int) op.View {
	p, err := dev.Malloc(uint64(n * d.Size()))
	require.NoError(t, err)
	v := op.View{Ptr: p, DType: d, NDim: 1}
	v.Shape[0], v.Strides[0] = n, 1
	return v
}

func fill(s device.Stream, v op.View, value float64) *op.Call {
	return &op.Call{Op: op.Fill, Stream: s, Out: []op.View{v}, F: [8]float64{value}, I: [8]int64{int64(value)}}
}

func read(t testing.TB, s device.Stream, v op.View) []byte {
	b := make([]byte, v.Len()*v.DType.Size())
	require.NoError(t, s.CopyToHost(b, v.Ptr))
	return b
}

func closing(t testing.TB, dev device.Device) {
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
}

func TestLaunch_InlineWorkIsDoneWhenItReturns(t *testing.T) {
	dev := host.New()
	closing(t, dev)
	v := vector(t, dev, dtype.Uint8, 5)
	require.NoError(t, kernels.Launch(fill(dev.DefaultStream(), v, 7)))
	require.Equal(t, []byte{7, 7, 7, 7, 7}, host.Bytes(v.Ptr, 5))
}

func TestLaunch_InlineDoesNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector changes what is allocated")
	}
	dev := host.New()
	closing(t, dev)
	a, b, c := vector(t, dev, dtype.Float32, 100), vector(t, dev, dtype.Float32, 100), vector(t, dev, dtype.Float32, 100)
	call := &op.Call{Op: op.Add, Stream: dev.DefaultStream(), Out: []op.View{c}, In: []op.View{a, b}, F: [8]float64{1}}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if err := kernels.Launch(call); err != nil {
			t.Fatal(err)
		}
	}))
}

func TestLaunch_QueuedWorkRunsLaterAndInOrderOnACopyOfTheCall(t *testing.T) {
	dev := host.New()
	closing(t, dev)
	s, err := dev.NewStream()
	require.NoError(t, err)
	v := vector(t, dev, dtype.Uint8, 3)
	require.NoError(t, kernels.Launch(fill(dev.DefaultStream(), v, 1)))

	var gate sync.Mutex
	gate.Lock()
	require.NoError(t, s.(device.Executor).Submit("gate", func() error {
		gate.Lock()
		return nil
	}))
	call := fill(s, v, 2)
	require.NoError(t, kernels.Launch(call))
	require.Equal(t, []byte{1, 1, 1}, host.Bytes(v.Ptr, 3), "the work must wait for the stream")
	call.Out[0].Ptr, call.I[0] = 0, 9 // the caller may use its Call again
	gate.Unlock()
	require.Equal(t, []byte{2, 2, 2}, read(t, s, v))
}

func TestLaunch_ErrorsOfQueuedWorkComeOutOfTheWaitWithTheOperation(t *testing.T) {
	dev := host.New()
	closing(t, dev)
	s, err := dev.NewStream()
	require.NoError(t, err)
	a, index, dst := vector(t, dev, dtype.Float32, 4), vector(t, dev, dtype.Int64, 2), vector(t, dev, dtype.Float32, 2)
	call := func(s device.Stream) *op.Call {
		return &op.Call{Op: op.IndexSelect, Stream: s, Out: []op.View{dst}, In: []op.View{a, index}}
	}
	require.NoError(t, kernels.Launch(fill(dev.DefaultStream(), index, 4)))

	require.NoError(t, kernels.Launch(call(s)))
	err = s.Synchronize(context.Background())
	require.ErrorIs(t, err, op.ErrIndex)
	require.ErrorContains(t, err, "index_select")

	err = kernels.Launch(call(dev.DefaultStream()))
	var e *op.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, op.IndexSelect, e.Op)
	require.EqualError(t, err, "index_select: index out of range: index 4 at 0 is not in 0..3")
}

func TestLaunch_SimulatedDevicesCountAndDoNotCompute(t *testing.T) {
	dev := sim.New(1 << 20)
	closing(t, dev)
	v := vector(t, dev, dtype.Float32, 5)
	before := dev.Calls().Count[sim.CallSubmit]
	require.NoError(t, kernels.Launch(fill(dev.DefaultStream(), v, 1)))
	require.Equal(t, before+1, dev.Calls().Count[sim.CallSubmit])
	require.Equal(t, make([]byte, 20), read(t, dev.DefaultStream(), v))

	bad := &op.Call{Op: op.Exp, Stream: dev.DefaultStream(), Out: []op.View{v}, In: []op.View{v}}
	bad.Out[0].DType, bad.In[0].DType = dtype.Int64, dtype.Int64
	err := kernels.Launch(bad)
	require.Error(t, err, "a missing kernel must be noticed without storage too")
	require.Equal(t, before+1, dev.Calls().Count[sim.CallSubmit])
}

func TestLaunch_MissingKernelsNameOperationTypeAndDevice(t *testing.T) {
	dev := host.New()
	closing(t, dev)
	v := vector(t, dev, dtype.Int64, 5)
	err := kernels.Launch(&op.Call{Op: op.Invalid, Stream: dev.DefaultStream(), Out: []op.View{v}})
	require.Error(t, err)
	var missing *kernels.MissingError
	if errors.As(err, &missing) { // builds with invariants refuse the call before
		require.Equal(t, dev.ID(), missing.Device)
	}
	require.EqualError(t, &kernels.MissingError{Op: op.Exp, DType: dtype.Int64, Device: device.ID{Kind: device.Host}}, "exp: no kernel for int64 on host")
}

func TestLaunch_OptimizersWithoutTensorsDoNothing(t *testing.T) {
	dev := host.New()
	closing(t, dev)
	require.NoError(t, kernels.Launch(&op.Call{Op: op.SGDStep, Stream: dev.DefaultStream()}))
}

func TestWorkspace_ProcessorKernelsNeedNone(t *testing.T) {
	dev := host.New()
	closing(t, dev)
	v := vector(t, dev, dtype.Float32, 5)
	require.Zero(t, kernels.Workspace(fill(dev.DefaultStream(), v, 1)))
}

func TestLaunch_OnAClosedDeviceIsErrClosed(t *testing.T) {
	for name, dev := range map[string]device.Device{"host": host.New(), "sim": sim.New(1 << 30)} {
		queue, err := dev.NewStream()
		require.NoError(t, err)
		v := vector(t, dev, dtype.Float32, 4)
		require.NoError(t, dev.Close())
		for _, s := range []device.Stream{dev.DefaultStream(), queue} {
			err = kernels.Launch(fill(s, v, 1))
			require.ErrorIs(t, err, device.ErrClosed, "%s, stream %d", name, s.ID())
		}
	}
}
