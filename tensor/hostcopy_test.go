package tensor_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/pinned"
	"github.com/cistern-ml/cistern/tensor"
)

func TestHostCopy_MakesTheTensorAgain(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		t.Run(fmt.Sprintf("pinned %v", pinned), func(t *testing.T) {
			b := onHost(t)
			t.Cleanup(func() { require.NoError(t, memory.Drop(b.Device())) })
			for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.BFloat16, tensor.Int64, tensor.Bool} {
				x := must(t)(iota(t, b.Exec, 3, 4).To(dt))
				transposed := must(t)(x.T())
				none := must(t)(x.Narrow(0, 1, 0))
				for _, from := range []*tensor.Tensor{x, transposed, none} {
					before := b.allocated()
					h, err := from.CopyToHost(pinned)
					require.NoError(t, err)
					require.Equal(t, before, b.allocated())
					require.EqualValues(t, from.Len()*dt.Size(), h.Bytes())
					again, err := h.Tensor(b.Exec)
					require.NoError(t, err)
					require.NoError(t, again.Synchronize(context.Background()))
					require.Equal(t, dt, again.DType())
					require.Equal(t, from.Shape(), again.Shape())
					require.Equal(t, values(t, from), values(t, again))
					again.Release()
					h.Release()
					h.Release()
				}
			}
		})
	}
}

func TestHostCopy_FromPinnedMemoryDoesNotWait_AndGivesItBackAfterTheCopies(t *testing.T) {
	dev := sim.New(1<<30, sim.ManualStreams())
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	x, err := tensor.Zeros(e, tensor.Float32, 1024)
	require.NoError(t, err)
	h, err := x.CopyToHost(true)
	require.NoError(t, err, "nothing has run yet")
	x.Release()
	pool, err := pinned.For(dev)
	require.NoError(t, err)
	require.EqualValues(t, 4096, pool.Stats().ActiveBytes.Current)
	y, err := h.Tensor(e)
	require.NoError(t, err)
	h.Release()
	require.EqualValues(t, 4096, pool.Stats().ActiveBytes.Current, "the copies are still to come")
	dev.Complete(dev.DefaultStream().ID())
	one, err := pool.Alloc(1) // looks at the events
	require.NoError(t, err)
	require.EqualValues(t, one.Size(), pool.Stats().ActiveBytes.Current)
	y.Release()
}

func TestHostCopy_KeepsNoMemoryWhenItFails(t *testing.T) {
	b, f, dev := onFaulty(t)
	t.Cleanup(func() { require.NoError(t, memory.Drop(b.Device())) })
	x := must(t)(must(t)(tensor.Zeros(b.Exec, tensor.Float32, 2, 3)).T())
	before := b.allocated()
	f.calls, f.failAt = 0, 1
	_, err := x.CopyToHost(false)
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	f.failAt = 0
	dev.FailNext(sim.CallAllocPinned, 1, errInjected)
	_, err = x.CopyToHost(true)
	require.ErrorIs(t, err, errInjected)
	dev.FailNext(sim.CallCopyToHost, 1, errInjected)
	_, err = x.CopyToHost(false)
	require.ErrorIs(t, err, errInjected)
	require.Equal(t, before, b.allocated())
	gone := iota(t, b.Exec, 2)
	gone.Release()
	_, err = gone.CopyToHost(false)
	require.ErrorIs(t, err, tensor.ErrReleased)
}

func TestNewHostCopy_UploadsWhatWasWrittenIntoIt(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		b := onHost(t)
		t.Cleanup(func() { require.NoError(t, memory.Drop(b.Device())) })
		h, err := tensor.NewHostCopy(b.Device(), tensor.Uint8, pinned, 2, 3)
		require.NoError(t, err)
		require.Len(t, h.Data(), 6)
		copy(h.Data(), []byte{1, 2, 3, 4, 5, 6})
		x := must(t)(h.Tensor(b.Exec))
		h.Release()
		require.Nil(t, h.Data())
		require.Equal(t, tensor.Shape{2, 3}, x.Shape())
		require.Equal(t, []float64{1, 2, 3, 4, 5, 6}, values(t, x))
		_, err = h.Tensor(b.Exec)
		require.ErrorIs(t, err, tensor.ErrReleased, "pinned %v", pinned)

		unused, err := tensor.NewHostCopy(b.Device(), tensor.Float32, pinned, 5)
		require.NoError(t, err)
		unused.Release()
		empty, err := tensor.NewHostCopy(b.Device(), tensor.Bool, pinned, 0, 7)
		require.NoError(t, err)
		require.Equal(t, tensor.Shape{0, 7}, must(t)(empty.Tensor(b.Exec)).Shape())
		empty.Release()
	}
}

func TestNewHostCopy_GivesPinnedMemoryBack(t *testing.T) {
	b := onHost(t)
	t.Cleanup(func() { require.NoError(t, memory.Drop(b.Device())) })
	pool, err := pinned.For(b.Device())
	require.NoError(t, err)
	h, err := tensor.NewHostCopy(b.Device(), tensor.Float32, true, 1024)
	require.NoError(t, err)
	require.EqualValues(t, 4096, pool.Stats().ActiveBytes.Current)
	h.Release()
	require.Zero(t, pool.Stats().ActiveBytes.Current, "no stream has used it")
}

func TestNewHostCopy_RefusesWhatCannotBe(t *testing.T) {
	b, dev := onSim(t)
	var shape *tensor.ShapeError
	_, err := tensor.NewHostCopy(dev, tensor.Float32, false, -1)
	require.ErrorAs(t, err, &shape)
	_, err = tensor.NewHostCopy(dev, tensor.Float32, false, 1<<40)
	require.ErrorAs(t, err, &shape)
	require.ErrorContains(t, err, "the device has")
	var dtype *tensor.DTypeError
	_, err = tensor.NewHostCopy(dev, 0, false, 1)
	require.ErrorAs(t, err, &dtype)
	var none *tensor.DeviceError
	_, err = tensor.NewHostCopy(nil, tensor.Float32, false, 1)
	require.ErrorAs(t, err, &none)
	_, err = new(tensor.HostCopy).Tensor(b.Exec)
	require.ErrorIs(t, err, tensor.ErrReleased)
	require.Nil(t, (*tensor.HostCopy)(nil).Data())
}
