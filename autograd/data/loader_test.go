package data_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// newExec is a device with an allocator of its own, whose cleanup fails the test if anything was left allocated.
func newExec(t *testing.T, dev device.Device) (tensor.Exec, *memory.Caching) {
	t.Helper()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			require.Zero(t, alloc.Stats().AllocatedBytes.All.Current, "bytes still allocated at the end of the test")
		}
		require.NoError(t, alloc.Close())
		require.NoError(t, dev.Close())
	})
	return e, alloc
}

// numbers is a data set of n examples: [i, -i] with the class i.
func numbers(t *testing.T, n int) data.Dataset {
	t.Helper()
	var x []float32
	var y []int64
	for i := range n {
		x = append(x, float32(i), -float32(i))
		y = append(y, int64(i))
	}
	set, err := data.Slices(x, []int{2}, y, nil)
	require.NoError(t, err)
	return set
}

// read runs a loop to its end and returns the classes of each batch. It checks that inputs and targets belong together.
func read(t *testing.T, l *data.Loader) [][]int64 {
	t.Helper()
	var batches [][]int64
	for x, y := range l.Batches() {
		classes, err := tensor.ToSlice[int64](y)
		require.NoError(t, err)
		inputs, err := x.Float64s()
		require.NoError(t, err)
		require.Equal(t, tensor.Shape{len(classes), 2}, x.Shape())
		for i, c := range classes {
			require.Equal(t, []float64{float64(c), -float64(c)}, inputs[2*i:2*i+2])
		}
		batches = append(batches, classes)
	}
	require.NoError(t, l.Err())
	return batches
}

func TestBatches_InOrder(t *testing.T) {
	e, alloc := newExec(t, host.New())
	l := data.NewLoader(e.Device(), numbers(t, 5), 2, data.WithAllocator(alloc))
	require.Equal(t, 3, l.Len())
	want := [][]int64{{0, 1}, {2, 3}, {4}}
	require.Equal(t, want, read(t, l))
	require.Equal(t, want, read(t, l), "a second loop reads all again")
	require.Equal(t, [][]int64{{0}, {1}}, read(t, data.NewLoader(e.Device(), numbers(t, 2), 1, data.WithAllocator(alloc))))
}

func TestBatches_DropLastLeavesOutWhatIsNotFull(t *testing.T) {
	e, alloc := newExec(t, host.New())
	l := data.NewLoader(e.Device(), numbers(t, 5), 2, data.WithAllocator(alloc), data.DropLast())
	require.Equal(t, 2, l.Len())
	require.Equal(t, [][]int64{{0, 1}, {2, 3}}, read(t, l))
	require.Empty(t, read(t, data.NewLoader(e.Device(), numbers(t, 3), 4, data.WithAllocator(alloc), data.DropLast())))
	none := data.NewLoader(e.Device(), numbers(t, 0), 4, data.WithAllocator(alloc))
	require.Zero(t, none.Len())
	require.Empty(t, read(t, none))
}

func TestBatches_ShuffledReadEachExampleOnceInAnOrderThatTheSeedGives(t *testing.T) {
	e, alloc := newExec(t, host.New())
	order := func(l *data.Loader) (all []int64) {
		for _, b := range read(t, l) {
			all = append(all, b...)
		}
		return all
	}
	loader := func() *data.Loader {
		return data.NewLoader(e.Device(), numbers(t, 50), 8, data.WithAllocator(alloc), data.Shuffle(tensor.NewGenerator(1)))
	}
	l := loader()
	first, second := order(l), order(l)
	var sorted []int64
	for i := range int64(50) {
		sorted = append(sorted, i)
	}
	require.ElementsMatch(t, sorted, first)
	require.ElementsMatch(t, sorted, second)
	require.NotEqual(t, sorted, first)
	require.NotEqual(t, first, second, "each loop has a new order")
	again := loader()
	require.Equal(t, first, order(again))
	require.Equal(t, second, order(again))
}

func TestBatches_AreReleasedWhenTheLoopGoesOnOrEnds(t *testing.T) {
	e, alloc := newExec(t, host.New())
	l := data.NewLoader(e.Device(), numbers(t, 6), 2, data.WithAllocator(alloc))
	allocated := func() int64 { return alloc.Stats().AllocatedBytes.All.Current }
	var kept, last *tensor.Tensor
	for x, y := range l.Batches() {
		require.EqualValues(t, 2*512, allocated()-heldBy(kept), "one batch lives at a time")
		if last != nil {
			require.True(t, last.Released())
			kept = y.Retain()
			break
		}
		last = x
	}
	require.NoError(t, l.Err())
	require.EqualValues(t, 512, allocated())
	got, err := tensor.ToSlice[int64](kept)
	require.NoError(t, err)
	require.Equal(t, []int64{2, 3}, got)
	kept.Release()

	require.Panics(t, func() {
		for range l.Batches() {
			panic("a mistake of the program")
		}
	})
	require.Zero(t, allocated())
}

func heldBy(x *tensor.Tensor) int64 {
	if x == nil {
		return 0
	}
	return int64(x.StorageBytes())
}

func TestBatches_ComeFromTheCacheAfterTheFirst(t *testing.T) {
	dev := sim.New(1 << 30)
	e, alloc := newExec(t, dev)
	x, err := tensor.Zeros(e, tensor.Float32, 640, 1000)
	require.NoError(t, err)
	defer x.Release()
	y, err := tensor.Zeros(e, tensor.Int64, 640)
	require.NoError(t, err)
	defer y.Release()
	l := data.NewLoader(dev, data.Tensors(x, y), 64, data.WithAllocator(alloc), data.Shuffle(tensor.NewGenerator(1)))
	var calls []int64
	var places []uint64
	for bx := range l.Batches() {
		calls = append(calls, alloc.Stats().NumDeviceAlloc)
		places = append(places, bx.StorageBytes())
	}
	require.NoError(t, l.Err())
	require.Len(t, calls, 10)
	for i := range calls {
		require.Equal(t, calls[0], calls[i])
		require.Equal(t, places[0], places[i])
	}
}

func TestTensors_OfAnotherDevice_AreBroughtOver(t *testing.T) {
	from, _ := newExec(t, host.New())
	to, alloc := newExec(t, host.New())
	x, err := tensor.FromSlice(from, []float64{1, 2, 3, 4, 5, 6}, 3, 2)
	require.NoError(t, err)
	defer x.Release()
	l := data.NewLoader(to.Device(), data.Tensors(x, nil), 2, data.WithAllocator(alloc))
	var got [][]float64
	for bx, by := range l.Batches() {
		require.Nil(t, by)
		require.Equal(t, to, bx.Exec())
		v, err := bx.Float64s()
		require.NoError(t, err)
		got = append(got, v)
	}
	require.NoError(t, l.Err())
	require.Equal(t, [][]float64{{1, 2, 3, 4}, {5, 6}}, got)
}

func TestOnStream_MakesTheBatchesThere(t *testing.T) {
	e, alloc := newExec(t, host.New())
	s, err := e.Device().NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	l := data.NewLoader(e.Device(), numbers(t, 3), 2, data.WithAllocator(alloc), data.WithStream(s))
	for x, y := range l.Batches() {
		require.Equal(t, s.ID(), x.Exec().Stream().ID())
		require.Equal(t, s.ID(), y.Exec().Stream().ID())
		require.Same(t, alloc, x.Exec().Allocator(), "one option leaves the other")
	}
	require.NoError(t, l.Err())
}

// failing is a data set that fails at its second batch.
type failing struct {
	data.Dataset
	batches int
}

var errDisk = errors.New("the disk is gone")

func (f *failing) Batch(e tensor.Exec, index []int64) (*tensor.Tensor, *tensor.Tensor, error) {
	if f.batches++; f.batches == 2 {
		return nil, nil, errDisk
	}
	return f.Dataset.Batch(e, index)
}

func TestErr_IsWhatEndedTheLastLoop(t *testing.T) {
	e, alloc := newExec(t, host.New())
	l := data.NewLoader(e.Device(), &failing{Dataset: numbers(t, 6)}, 2, data.WithAllocator(alloc))
	count := 0
	for range l.Batches() {
		count++
	}
	require.Equal(t, 1, count)
	require.ErrorIs(t, l.Err(), errDisk)
	require.Len(t, read(t, l), 3, "the next loop starts anew")
}

func TestErr_OfOutOfMemory_LeaksNothing(t *testing.T) {
	dev := sim.New(1 << 30)
	alloc := memory.NewDirect(dev)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	x, err := tensor.Zeros(e, tensor.Float32, 4)
	require.NoError(t, err)
	defer x.Release()
	before := alloc.Stats().AllocatedBytes.All.Current
	for name, c := range map[string]struct {
		set    data.Dataset
		allocs int // for a batch
	}{
		"slices":  {numbers(t, 4), 2},
		"tensors": {data.Tensors(x, x), 4}, // the numbers and the examples
	} {
		for nth := 1; nth <= c.allocs; nth++ {
			l := data.NewLoader(dev, c.set, 4, data.WithAllocator(alloc))
			dev.FailNext(sim.CallMalloc, nth, device.ErrOutOfMemory)
			for range l.Batches() {
				t.Fatal("there is no memory for a batch")
			}
			require.ErrorIs(t, l.Err(), memory.ErrOutOfMemory, "%s, allocation %d", name, nth)
			require.Equal(t, before, alloc.Stats().AllocatedBytes.All.Current, "%s, allocation %d", name, nth)
		}
	}
}

// given is a data set of three examples whose batches are all the same.
type given struct{ x, y *tensor.Tensor }

func (given) Len() int { return 3 }

func (g given) Batch(tensor.Exec, []int64) (x, y *tensor.Tensor, err error) {
	if g.x != nil {
		x = g.x.Retain()
	}
	if g.y != nil {
		y = g.y.Retain()
	}
	return x, y, nil
}

func TestLoader_RefusesWhatCannotBe(t *testing.T) {
	e, alloc := newExec(t, host.New())
	other, _ := newExec(t, host.New())
	far, err := tensor.Zeros(other, tensor.Float32, 3)
	require.NoError(t, err)
	defer far.Release()
	gone := far.Retain()
	gone.Release()
	x, err := tensor.Zeros(e, tensor.Float32, 3)
	require.NoError(t, err)
	defer x.Release()
	y, err := tensor.Zeros(e, tensor.Float32, 4)
	require.NoError(t, err)
	defer y.Release()
	scalar, err := tensor.Scalar(e, 1, tensor.Float32)
	require.NoError(t, err)
	defer scalar.Release()
	load := func(set data.Dataset, batch int) *data.Loader {
		return data.NewLoader(e.Device(), set, batch, data.WithAllocator(alloc))
	}
	for want, l := range map[string]*data.Loader{
		"there is no data set":   load(nil, 1),
		"batches of 0 examples":  load(numbers(t, 3), 0),
		"batches of -1 examples": load(numbers(t, 3), -1),
		"device":                 data.NewLoader(nil, numbers(t, 3), 1),
		"3 inputs and 4 targets": load(data.Tensors(x, y), 1),
		"inputs that are nil":    load(given{}, 1),
		"targets that are nil":   load(given{x: x, y: gone}, 1),
		"the inputs must be on":  load(given{x: far}, 1),
		"the targets must be on": load(given{x: x, y: far}, 1),
	} {
		for range l.Batches() {
			t.Error(want)
		}
		require.ErrorContains(t, l.Err(), want)
	}
	_, _, err = data.Tensors(x, scalar).Batch(e, []int64{0})
	require.ErrorContains(t, err, "a tensor without dimensions")
	_, _, err = data.Tensors(scalar, nil).Batch(e, []int64{0})
	require.ErrorContains(t, err, "scalar")
	_, _, err = numbers(t, 3).Batch(e, []int64{3})
	require.ErrorContains(t, err, "example 3 of 3")
	_, err = data.Slices([]float32{1, 2, 3}, []int{2}, []int64{1}, nil)
	require.ErrorContains(t, err, "3 elements")
	_, err = data.Slices([]float32{1, 2, 3}, nil, []int64{1, 2, 3}, []int{2})
	require.ErrorContains(t, err, "3 elements")
	_, err = data.Slices([]float32{1, 2}, nil, []int64{1}, nil)
	require.ErrorContains(t, err, "2 inputs and 1 targets")
}

func TestLoader_NilOrZeroHasNoBatches(t *testing.T) {
	for _, l := range []*data.Loader{nil, {}} {
		require.Zero(t, l.Len())
		for range l.Batches() {
			t.Error("a batch of nothing")
		}
		var bad *data.ArgumentError
		require.ErrorAs(t, l.Err(), &bad)
	}
}
