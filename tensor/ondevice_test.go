package tensor_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func TestToDevice_OfTheSameDeviceWaitsForTheOtherStream(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, alloc.Close()) }()
	var on [2]tensor.Exec
	var streams [2]device.Stream
	for i := range on {
		streams[i], err = dev.NewStream()
		require.NoError(t, err)
		on[i], err = tensor.On(dev, tensor.WithAllocator(alloc), tensor.WithStream(streams[i]))
		require.NoError(t, err)
	}
	x, err := tensor.Zeros(on[0], tensor.Float32, 4)
	require.NoError(t, err)
	begun, gate := make(chan struct{}), make(chan struct{})
	require.NoError(t, streams[0].(device.Executor).Submit("hold", func() error { close(begun); <-gate; return nil }))
	<-begun
	require.NoError(t, x.AddScalarInPlace(3)) // behind the gate
	y, err := x.ToDevice(on[1])
	require.NoError(t, err)
	z, err := y.MulScalar(2)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- streams[1].Synchronize(context.Background()) }()
	early := false
	select {
	case <-done:
		early = true
	case <-time.After(50 * time.Millisecond): // which it does not take without waiting
	}
	close(gate)
	require.False(t, early, "the second stream did not wait")
	require.NoError(t, <-done)
	got, err := tensor.ToSlice[float32](z)
	require.NoError(t, err)
	require.Equal(t, []float32{6, 6, 6, 6}, got)
	for _, h := range []*tensor.Tensor{x, y, z} {
		h.Release()
	}
}

func TestToDevice_NeedsValuesWhereTheyAreComputedWith(t *testing.T) {
	computing, err := tensor.On(host.New())
	require.NoError(t, err)
	simulated, err := tensor.On(sim.New(1 << 30))
	require.NoError(t, err)
	other, err := tensor.On(sim.New(1 << 30))
	require.NoError(t, err)
	x, err := tensor.Full(simulated, 5, tensor.Float32, 3)
	require.NoError(t, err)
	defer x.Release()
	_, err = x.ToDevice(computing)
	var values *tensor.ValuesError
	require.ErrorAs(t, err, &values)
	require.EqualError(t, err, "tensor: ToDevice: "+x.Device().ID().String()+" computes no values that "+computing.Device().ID().String()+" could go on with")
	y, err := tensor.Zeros(computing, tensor.Float32, 3)
	require.NoError(t, err)
	defer y.Release()
	require.ErrorAs(t, y.CopyFrom(x), &values)
	z, err := x.ToDevice(other)
	require.NoError(t, err)
	z.Release()
	z, err = y.ToDevice(simulated)
	require.NoError(t, err)
	z.Release()
}
