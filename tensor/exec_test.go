package tensor_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func TestOn_TakesTheDevicesDefaults(t *testing.T) {
	dev := sim.New(device.GiB)
	t.Cleanup(func() { require.NoError(t, memory.Drop(dev)) })
	e, err := tensor.On(dev)
	require.NoError(t, err)
	alloc, err := memory.For(dev)
	require.NoError(t, err)
	require.Equal(t, alloc, e.Allocator())
	require.Equal(t, device.StreamID(0), e.Stream().ID())
	require.Equal(t, dev.ID(), e.Device().ID())
	again, err := tensor.On(dev)
	require.NoError(t, err)
	require.True(t, e == again, "an Exec is comparable")
	require.False(t, e == e.Owned())
}

func TestOn_RefusesStreamsAndAllocatorsOfAnotherDevice(t *testing.T) {
	here, there := sim.New(device.GiB), sim.New(device.GiB)
	alloc, err := memory.New(there, memory.Config{})
	require.NoError(t, err)
	var wrong *tensor.DeviceError
	_, err = tensor.On(here, tensor.WithAllocator(alloc))
	require.ErrorAs(t, err, &wrong)
	_, err = tensor.On(there, tensor.WithAllocator(alloc), tensor.WithStream(here.DefaultStream()))
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, []device.ID{there.ID(), here.ID()}, wrong.Devices)
	_, err = tensor.On(nil)
	require.ErrorAs(t, err, &wrong)
	_, err = tensor.Zeros(tensor.Exec{}, tensor.Float32, 2)
	require.ErrorAs(t, err, &wrong)
	require.Nil(t, tensor.Exec{}.Device())
}

func TestOperations_RefuseOperandsOnTwoDevices(t *testing.T) {
	b, _ := onSim(t)
	h := onHost(t)
	x, y := iota(t, b.Exec, 2), iota(t, h.Exec, 2)
	var wrong *tensor.DeviceError
	_, err := x.Add(y)
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, []device.ID{b.Device().ID(), h.Device().ID()}, wrong.Devices)
	_, err = tensor.Cat([]*tensor.Tensor{x, y}, 0)
	require.ErrorAs(t, err, &wrong)
	strange := must(t)(y, nil).On(b.Exec)
	t.Cleanup(strange.Release)
	_, err = strange.Exp()
	require.ErrorAs(t, err, &wrong)
	_, err = x.Add(strange)
	require.ErrorAs(t, err, &wrong)
	require.ErrorAs(t, tensor.CopyFromSlice(strange, []float32{1, 2}), &wrong)
	require.Contains(t, strange.String(), "ToDevice")
	nowhere := y.On(tensor.Exec{})
	t.Cleanup(nowhere.Release)
	_, err = nowhere.Exp()
	require.ErrorAs(t, err, &wrong)
	require.Contains(t, nowhere.String(), "On")
}

func TestToDevice_CopiesBetweenDevices(t *testing.T) {
	h := onHost(t)
	small, err := device.Open("host:64MiB")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, small.Close()) })
	alloc, err := memory.New(small, memory.Config{})
	require.NoError(t, err)
	other := newBench(t, small, alloc)
	for _, shape := range [][]int{{3, 4}, {}, {0, 2}, {1100, 1000}} { // the last is more than one piece
		x := iota(t, h.Exec, shape...)
		y := must(t)(x.ToDevice(other.Exec))
		require.Equal(t, small.ID(), y.Device().ID())
		require.Equal(t, x.Shape(), y.Shape())
		require.Equal(t, values(t, x), values(t, y))
	}
	transposed := must(t)(iota(t, h.Exec, 2, 3).T())
	there := must(t)(transposed.ToDevice(other.Exec))
	require.Equal(t, []float64{0, 3, 1, 4, 2, 5}, values(t, there))
	require.NoError(t, there.CopyFrom(must(t)(tensor.FromSlice(h.Exec, []int32{7, 8}))))
	require.Equal(t, []float64{7, 8, 7, 8, 7, 8}, values(t, there))

	same := must(t)(transposed.ToDevice(h.Exec.Owned()))
	require.True(t, same.SharesStorage(transposed), "on the same device nothing is copied")
	_, err = transposed.ToDevice(tensor.Exec{})
	var wrong *tensor.DeviceError
	require.ErrorAs(t, err, &wrong)
}

func TestResults_RunUnderTheReceiversExec(t *testing.T) {
	b := onHost(t)
	stream, err := b.Device().NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stream.Close()) })
	e, err := tensor.On(b.Device(), tensor.WithAllocator(b.alloc), tensor.WithStream(stream))
	require.NoError(t, err)
	x := iota(t, b.Exec, 3)
	y := x.On(e)
	t.Cleanup(y.Release)
	require.Equal(t, e, y.Exec())
	require.Equal(t, e, must(t)(y.Add(x)).Exec())
	require.Equal(t, b.Exec, must(t)(x.Add(y)).Exec())
	require.Equal(t, e, must(t)(y.View(3, 1)).Exec())
	require.NoError(t, y.Synchronize(context.Background()))
}

// recorder notes which blocks were recorded on which stream.
type recorder struct {
	memory.Allocator
	streams map[memory.Block][]device.StreamID
}

func (r *recorder) RecordStream(b memory.Block, s device.Stream) error {
	r.streams[b] = append(r.streams[b], s.ID())
	return r.Allocator.RecordStream(b, s)
}

func TestOperations_RecordStorageOfOtherStreams(t *testing.T) {
	dev := sim.New(device.GiB, sim.ManualStreams())
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	r := &recorder{Allocator: alloc, streams: map[memory.Block][]device.StreamID{}}
	b := newBench(t, dev, r)
	side, err := tensor.On(dev, tensor.WithAllocator(r), tensor.WithStream(dev.Stream(7)))
	require.NoError(t, err)
	x, err := tensor.Zeros(b.Exec, tensor.Float32, 100)
	require.NoError(t, err)

	same := must(t)(x.Add(x))
	require.Empty(t, r.streams, "nothing is recorded on the stream of the allocation")

	moved := x.On(side)
	_ = must(t)(moved.Exp())
	require.Len(t, r.streams, 1)
	for _, ids := range r.streams {
		require.Equal(t, []device.StreamID{7}, ids)
	}
	clone := must(t)(moved.Clone()) // a copy of bytes is a use as well
	require.NoError(t, clone.CopyFrom(same))
	require.NoError(t, moved.ZeroInPlace())
	require.Len(t, r.streams, 2)

	// The block of x is not handed out again before the work on stream 7 has finished.
	moved.Release()
	x.Release()
	active := alloc.Stats().ActiveBytes.All.Current
	require.Greater(t, active, alloc.Stats().AllocatedBytes.All.Current)
	dev.Complete(7)
	_ = must(t)(tensor.Empty(b.Exec, tensor.Float32, 1))
	require.Equal(t, alloc.Stats().AllocatedBytes.All.Current, alloc.Stats().ActiveBytes.All.Current)
}

func TestAsynchronousErrors_AreToldByTheNextWait(t *testing.T) {
	b := setting{async: true}.bench(t)
	x := iota(t, b.Exec, 3, 2)
	idx := must(t)(tensor.FromSlice(b.Exec, []int64{0, 5}))
	out := must(t)(x.IndexSelect(0, idx))
	_, err := out.Float64s()
	require.ErrorIs(t, err, op.ErrIndex)
	require.ErrorContains(t, err, "tensor: ")
}

func TestErrorsOfTheWork_AreReturnedAtOnceOnTheInlineStream(t *testing.T) {
	b := onHost(t)
	before := b.allocated()
	x := iota(t, b.Exec, 3, 2)
	idx := must(t)(tensor.FromSlice(b.Exec, []int64{0, 5}))
	_, err := x.IndexSelect(0, idx)
	require.ErrorIs(t, err, op.ErrIndex)
	require.ErrorContains(t, err, "tensor: IndexSelect: ")
	logp := must(t)(x.LogSoftmax(1))
	target := must(t)(tensor.FromSlice(b.Exec, []int64{0, 2, 0}))
	_, err = tensor.NLL(logp, target, -100)
	require.ErrorIs(t, err, op.ErrIndex)
	require.EqualValues(t, before+4*512, b.allocated())
}
