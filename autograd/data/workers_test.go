package data_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/pinned"
	"github.com/cistern-ml/cistern/tensor"
)

// noWorkers fails the test if a goroutine of package data is left. One that has told its WaitGroup may take a moment to end.
func noWorkers(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return !strings.Contains(string(stacks), "data.(*ahead).work")
	}, time.Minute, time.Millisecond)
}

// inUse are the bytes of pinned memory that are in use, or wait for work that is not done.
func inUse(t *testing.T, p *pinned.Allocator) int64 {
	t.Helper()
	require.NoError(t, p.EmptyCache()) // looks at the events
	return p.Stats().ActiveBytes.Current
}

// source is n examples of three arrays: [i, -i], a number that depends on the random numbers, and the class i.
func source(n int) data.Source {
	return data.Func(n, func(_ context.Context, i int64, r *rand.Rand) (data.Example, error) {
		x, err := data.NewArray([]float32{float32(i), -float32(i)})
		return data.Example{x, data.Scalar(r.Float64()), data.Scalar(i)}, err
	})
}

// turn is what a loop got in one turn.
type turn struct {
	Index, Classes []int64
	Inputs, Random []float64
}

func turns(t *testing.T, l *data.Loader) (all []turn) {
	t.Helper()
	for b, err := range l.All(context.Background()) {
		require.NoError(t, err)
		require.Equal(t, len(all), b.Number)
		var got turn
		got.Index = b.Index
		got.Inputs, err = b.Tensors[0].Float64s()
		require.NoError(t, err)
		got.Random, err = b.Tensors[1].Float64s()
		require.NoError(t, err)
		got.Classes, err = tensor.ToSlice[int64](b.Tensors[2])
		require.NoError(t, err)
		require.Equal(t, got.Index, got.Classes)
		for k, i := range got.Index {
			require.Equal(t, []float64{float64(i), -float64(i)}, got.Inputs[2*k:2*k+2])
		}
		all = append(all, got)
	}
	require.NoError(t, l.Err())
	return all
}

func TestWorkers_ReadTheSameHoweverManyTheyAre(t *testing.T) {
	e, alloc := newExec(t, host.New())
	t.Cleanup(func() { require.NoError(t, memory.Drop(e.Device())) })
	var first, second []turn
	for _, opts := range [][]data.Option{
		{data.Workers(0)}, {data.Workers(1)}, {data.Workers(2)}, {data.Workers(5), data.Prefetch(1)}, {data.Workers(3), data.Prefetch(40)},
		{data.Workers(2), data.PinMemory()}, {data.Workers(0), data.PinMemory()}, {data.Workers(2), data.WithCollate(data.Stack)},
	} {
		opts = append(opts, data.WithAllocator(alloc), data.Shuffle(tensor.NewGenerator(7)))
		l := data.NewSourceLoader(e.Device(), source(37), 4, opts...)
		require.Equal(t, 10, l.Len())
		a, b := turns(t, l), turns(t, l)
		require.NoError(t, l.Close())
		if first == nil {
			first, second = a, b
			require.Len(t, a, 10)
			require.NotEqual(t, a, b, "each loop has an order and numbers of its own")
		}
		require.Equal(t, first, a)
		require.Equal(t, second, b)
		require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
	}
	noWorkers(t)
	pool, err := pinned.For(e.Device())
	require.NoError(t, err)
	require.Positive(t, pool.Stats().NumHostAlloc)
	require.Zero(t, inUse(t, pool))
}

func TestWithGenerator_GivesEachPlaceNumbersOfItsOwn(t *testing.T) {
	e, alloc := newExec(t, host.New())
	load := func(seed uint64) (all []float64) {
		l := data.NewSourceLoader(e.Device(), source(6), 2, data.WithAllocator(alloc), data.WithGenerator(tensor.NewGenerator(seed)))
		for _, got := range turns(t, l) {
			all = append(all, got.Random...)
		}
		return all
	}
	require.Equal(t, load(1), load(1))
	require.NotEqual(t, load(1), load(2))
	seen := map[float64]bool{}
	for _, v := range load(1) {
		require.False(t, seen[v])
		seen[v] = true
	}
	unseeded := func() []turn {
		return turns(t, data.NewSourceLoader(e.Device(), source(6), 6, data.WithAllocator(alloc)))
	}
	require.NotEqual(t, unseeded(), unseeded(), "a program is reproducible only if it seeds")
}

func TestWorkers_OfADatasetReadTheSame(t *testing.T) {
	e, alloc := newExec(t, host.New())
	s, err := e.Device().NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	on, err := tensor.On(e.Device(), tensor.WithAllocator(alloc), tensor.WithStream(s))
	require.NoError(t, err)
	x, err := tensor.FromSlice(on, []float32{0, 0, 1, -1, 2, -2, 3, -3, 4, -4}, 5, 2)
	require.NoError(t, err)
	defer x.Release()
	y, err := tensor.FromSlice(on, []int64{0, 1, 2, 3, 4})
	require.NoError(t, err)
	defer y.Release()
	for _, set := range []data.Dataset{numbers(t, 5), data.Tensors(x, y)} {
		var want [][]int64
		for workers := range 4 {
			l := data.NewLoader(e.Device(), set, 2, data.WithAllocator(alloc), data.Workers(workers), data.WithStream(s),
				data.Shuffle(tensor.NewGenerator(3)))
			got := read(t, l)
			if want == nil {
				want = got
			}
			require.Equal(t, want, got)
			require.NoError(t, l.Close())
		}
	}
}

// late is a data set whose tensor is written only when its first batch has been enqueued.
type late struct {
	data.Dataset
	written chan struct{}
	once    *sync.Once
}

func (l late) Batch(e tensor.Exec, index []int64) (x, y *tensor.Tensor, err error) {
	x, y, err = l.Dataset.Batch(e, index)
	l.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		_ = e.Stream().Synchronize(ctx) // what does not wait for the tensor is done by then, and wrong
		close(l.written)
	})
	return x, y, err
}

// cloned is a data set that leaves it to the loader that its tensor is there.
type cloned struct{ x *tensor.Tensor }

func (cloned) Len() int { return 2 }

func (c cloned) Batch(e tensor.Exec, _ []int64) (x, y *tensor.Tensor, err error) {
	h := c.x.On(e)
	defer h.Release()
	x, err = h.Clone()
	return x, nil, err
}

func TestWorkers_WaitForTheDataSetsTensors(t *testing.T) {
	for _, own := range []bool{false, true} {
		e, alloc := newExec(t, host.New())
		s, err := e.Device().NewStream()
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		written := make(chan struct{})
		require.NoError(t, s.(device.Executor).Submit("wait", func() error { <-written; return nil }))
		on, err := tensor.On(e.Device(), tensor.WithAllocator(alloc), tensor.WithStream(s))
		require.NoError(t, err)
		x, err := tensor.FromSlice(on, []float32{1, 2})
		require.NoError(t, err)
		defer x.Release()
		set := late{data.Tensors(x, nil), written, new(sync.Once)}
		opts := []data.Option{data.WithAllocator(alloc), data.Workers(1)}
		if own { // the tensor is on the loop's stream
			set.Dataset = cloned{x}
			opts = append(opts, data.WithStream(s))
		}
		l := data.NewLoader(e.Device(), set, 2, opts...)
		for got := range l.Batches() {
			v, err := got.Float64s()
			require.NoError(t, err)
			require.Equal(t, []float64{1, 2}, v)
		}
		require.NoError(t, l.Err())
		require.NoError(t, l.Close())
	}
}

func TestWorkers_MakeNoMoreThanPrefetchAllows(t *testing.T) {
	e, alloc := newExec(t, host.New())
	var made atomic.Int64
	src := data.Func(100, func(_ context.Context, i int64, _ *rand.Rand) (data.Example, error) {
		made.Add(1)
		return data.Example{data.Scalar(i)}, nil
	})
	l := data.NewSourceLoader(e.Device(), src, 5, data.WithAllocator(alloc), data.Workers(2), data.Prefetch(3))
	taken := int64(0)
	for _, err := range l.All(context.Background()) {
		require.NoError(t, err)
		taken++
		require.LessOrEqual(t, made.Load(), 5*(taken+3))
	}
	require.EqualValues(t, 100, made.Load())
	require.NoError(t, l.Close())
}

// Two workers are in Example at the same time: each waits for the other.
func TestWorkers_WorkAtTheSameTime(t *testing.T) {
	e, alloc := newExec(t, host.New())
	var both sync.WaitGroup
	both.Add(2)
	src := data.Func(2, func(_ context.Context, i int64, _ *rand.Rand) (data.Example, error) {
		both.Done()
		both.Wait()
		return data.Example{data.Scalar(i)}, nil
	})
	l := data.NewSourceLoader(e.Device(), src, 1, data.WithAllocator(alloc), data.Workers(2))
	n := 0
	for x := range l.Batches() {
		n += x.Len()
	}
	require.NoError(t, l.Err())
	require.Equal(t, 2, n)
	require.NoError(t, l.Close())
}

// breaking is a source whose example 7 does something else.
func breaking(f func(ctx context.Context) (data.Example, error)) data.Source {
	good := source(20)
	return data.Func(20, func(ctx context.Context, i int64, r *rand.Rand) (data.Example, error) {
		if i == 7 {
			return f(ctx)
		}
		return good.Example(ctx, i, r)
	})
}

func eachNumberOfWorkers(t *testing.T, f func(t *testing.T, workers int)) {
	for _, workers := range []int{0, 1, 3} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			f(t, workers)
			noWorkers(t)
		})
	}
}

func TestErrors_CarryTheExampleAndComeAfterTheBatchesBefore(t *testing.T) {
	eachNumberOfWorkers(t, func(t *testing.T, workers int) {
		e, alloc := newExec(t, host.New())
		l := data.NewSourceLoader(e.Device(), breaking(func(context.Context) (data.Example, error) {
			return nil, &fs.PathError{Op: "open", Path: "7.png", Err: fs.ErrNotExist}
		}), 2, data.WithAllocator(alloc), data.Workers(workers))
		good, failures := 0, 0
		for b, err := range l.All(context.Background()) {
			if err != nil {
				failures++
				require.Nil(t, b)
				continue
			}
			good++
		}
		require.Equal(t, 3, good)
		require.Equal(t, 1, failures)
		var ex *data.ExampleError
		require.ErrorAs(t, l.Err(), &ex)
		require.EqualValues(t, 7, ex.Index)
		require.ErrorIs(t, l.Err(), fs.ErrNotExist)
		require.EqualError(t, l.Err(), "data: example 7: open 7.png: file does not exist")
		require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
		require.NoError(t, l.Close())
	})
}

func TestErrors_OfAPanicHaveIndexAndStack(t *testing.T) {
	eachNumberOfWorkers(t, func(t *testing.T, workers int) {
		e, alloc := newExec(t, host.New())
		l := data.NewSourceLoader(e.Device(), breaking(func(context.Context) (data.Example, error) {
			var none []int
			return data.Example{data.Scalar(int64(none[len(none)]))}, nil
		}), 2, data.WithAllocator(alloc), data.Workers(workers))
		for _, err := range l.All(context.Background()) {
			if err == nil {
				continue
			}
			var ex *data.ExampleError
			require.ErrorAs(t, err, &ex)
			require.EqualValues(t, 7, ex.Index)
			var p *data.PanicError
			require.ErrorAs(t, err, &p)
			require.Contains(t, string(p.Stack), "TestErrors_OfAPanicHaveIndexAndStack")
			var cause runtime.Error
			require.ErrorAs(t, err, &cause)
			require.ErrorContains(t, err, "data: example 7: panic: runtime error: index out of range")
		}
		require.Error(t, l.Err())
		require.NoError(t, l.Close())
	})
}

func TestErrors_OfAWorkerThatExits(t *testing.T) {
	e, alloc := newExec(t, host.New())
	l := data.NewSourceLoader(e.Device(), breaking(func(context.Context) (data.Example, error) {
		runtime.Goexit()
		return nil, nil
	}), 2, data.WithAllocator(alloc), data.Workers(1))
	for range l.All(context.Background()) {
	}
	require.ErrorContains(t, l.Err(), "Goexit")
	require.NoError(t, l.Close())
	noWorkers(t)
}

// A program that is told to stop closes the loader from where it is told.
func TestClose_WhileAnotherGoroutineIsInTheLoop(t *testing.T) {
	for range 20 {
		e, alloc := newExec(t, host.New())
		l := data.NewSourceLoader(e.Device(), source(64), 2, data.WithAllocator(alloc), data.Workers(3))
		begun, done := make(chan bool), make(chan error)
		go func() {
			n := 0
			for range l.All(context.Background()) {
				if n++; n == 2 {
					close(begun)
				}
			}
			done <- l.Err()
		}()
		<-begun
		require.NoError(t, l.Close())
		if err := <-done; err != nil { // unless the loop was over before
			require.ErrorContains(t, err, "closed")
		}
		require.NoError(t, l.Close())
		noWorkers(t)
	}
}

func TestErrors_OfExamplesThatDoNotFitNameThem(t *testing.T) {
	e, alloc := newExec(t, host.New())
	two, err := data.NewArray([]float32{1, 2})
	require.NoError(t, err)
	for want, ex := range map[string]data.Example{
		"has not the shape": {data.Scalar(float32(1)), data.Scalar(1.0), data.Scalar(int64(7))},
		"of the type":       {two, data.Scalar(float32(1)), data.Scalar(int64(7))},
		"it has 2 arrays":   {two, data.Scalar(1.0)},
		"the zero Array":    {two, data.Array{}, data.Scalar(int64(7))},
	} {
		l := data.NewSourceLoader(e.Device(), breaking(func(context.Context) (data.Example, error) { return ex, nil }), 4, data.WithAllocator(alloc))
		for range l.All(context.Background()) {
		}
		var at *data.ExampleError
		require.ErrorAs(t, l.Err(), &at, want)
		require.EqualValues(t, 7, at.Index)
		require.ErrorContains(t, l.Err(), want)
	}
}

func TestErrors_OfBatchesNameThem(t *testing.T) {
	e, alloc := newExec(t, host.New())
	for workers := range 2 {
		for want, c := range map[string]data.Collate{
			"the disk is gone": func([]data.Example) (data.Example, error) { return nil, errDisk },
			"panic: oh":        func([]data.Example) (data.Example, error) { panic("oh") },
			"no arrays":        func([]data.Example) (data.Example, error) { return nil, nil },
			"zero Array":       func([]data.Example) (data.Example, error) { return data.Example{data.Scalar(1.0), {}}, nil },
		} {
			l := data.NewSourceLoader(e.Device(), source(20), 4, data.WithAllocator(alloc), data.WithCollate(c), data.Workers(workers))
			for range l.All(context.Background()) {
			}
			var b *data.BatchError
			require.ErrorAs(t, l.Err(), &b)
			require.Equal(t, []int64{0, 1, 2, 3}, b.Index)
			require.ErrorContains(t, l.Err(), want)
			require.NoError(t, l.Close())
		}
	}
	l := data.NewLoader(e.Device(), panicking{numbers(t, 9)}, 6, data.WithAllocator(alloc), data.Workers(1))
	for range l.Batches() {
	}
	require.EqualError(t, l.Err(), "data: batch 0 (examples 0, 1, 2, 3, ...): panic: no")
	require.NoError(t, l.Close())
}

type panicking struct{ data.Dataset }

func (panicking) Batch(tensor.Exec, []int64) (x, y *tensor.Tensor, err error) { panic("no") }

// A worker waits in Example for the end of its context. The loop leaves in every way that there is.
func TestLoop_LeavesNothingBehindHoweverItIsLeft(t *testing.T) {
	eachNumberOfWorkers(t, func(t *testing.T, workers int) {
		e, alloc := newExec(t, host.New())
		t.Cleanup(func() { require.NoError(t, memory.Drop(e.Device())) })
		pool, err := pinned.For(e.Device())
		require.NoError(t, err)
		loader := func(opts ...data.Option) *data.Loader {
			return data.NewSourceLoader(e.Device(), breaking(func(ctx context.Context) (data.Example, error) {
				if workers > 0 {
					<-ctx.Done()
				}
				return nil, errDisk
			}), 2, append(opts, data.WithAllocator(alloc), data.Workers(workers), data.PinMemory())...)
		}
		loop := func(ctx context.Context, l *data.Loader, body func(b *data.Batch) bool) (errs []error) {
			for b, err := range l.All(ctx) {
				if err != nil {
					errs = append(errs, err)
					continue
				}
				if !body(b) {
					break
				}
			}
			return errs
		}
		clean := func(l *data.Loader) {
			t.Helper()
			require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
			require.NoError(t, l.Close())
			require.NoError(t, l.Close())
			noWorkers(t)
			require.Zero(t, inUse(t, pool))
		}

		l := loader()
		require.Empty(t, loop(context.Background(), l, func(b *data.Batch) bool { return b.Number < 1 }), "break")
		require.NoError(t, l.Err())
		clean(l)

		l = loader()
		require.PanicsWithValue(t, "a mistake", func() { loop(context.Background(), l, func(*data.Batch) bool { panic("a mistake") }) })
		clean(l)

		l = loader()
		ctx, cancel := context.WithCancel(context.Background())
		errs := loop(ctx, l, func(b *data.Batch) bool {
			if b.Number == 1 {
				cancel()
			}
			return true
		})
		require.Equal(t, []error{context.Canceled}, errs, "cancelled in the loop's body")
		require.ErrorIs(t, l.Err(), context.Canceled)
		clean(l)

		l = loader()
		ctx, cancel = context.WithCancel(context.Background())
		cancel()
		require.Equal(t, []error{context.Canceled}, loop(ctx, l, func(*data.Batch) bool { t.Error("a batch"); return true }), "cancelled before")
		clean(l)

		l = loader()
		errs = loop(context.Background(), l, func(b *data.Batch) bool {
			require.NoError(t, l.Close())
			_, err := b.Tensors[0].Float64s()
			require.NoError(t, err, "the batch is the loop's until the next turn")
			return true
		})
		require.Len(t, errs, 1)
		require.ErrorIs(t, errs[0], device.ErrClosed)
		clean(l)
		require.Len(t, loop(context.Background(), l, nil), 1)
		require.ErrorIs(t, l.Err(), device.ErrClosed)
		require.Contains(t, l.String(), ", closed")
	})
}

// The loop waits for a worker when the context ends.
func TestLoop_EndsWithItsContextWhileItWaits(t *testing.T) {
	e, alloc := newExec(t, host.New())
	ctx, cancel := context.WithCancel(context.Background())
	l := data.NewSourceLoader(e.Device(), breaking(func(inner context.Context) (data.Example, error) {
		cancel()
		<-inner.Done()
		return nil, inner.Err()
	}), 2, data.WithAllocator(alloc), data.Workers(2))
	n := 0
	for _, err := range l.All(ctx) {
		if err == nil {
			n++
		}
	}
	require.LessOrEqual(t, n, 3)
	require.Equal(t, context.Canceled, l.Err(), "not an error of the example")
	require.NoError(t, l.Close())
	noWorkers(t)
}

func TestLoop_RefusesAnotherInItself(t *testing.T) {
	e, alloc := newExec(t, host.New())
	l := data.NewLoader(e.Device(), numbers(t, 4), 2, data.WithAllocator(alloc), data.Workers(1))
	n := 0
	for range l.Batches() {
		n++
		for range l.Batches() {
			t.Error("a batch")
		}
		require.ErrorContains(t, l.Err(), "another loop")
	}
	require.Equal(t, 2, n)
	require.NoError(t, l.Close())
}

// What the loop's stream still reads is not reused, though the loop has gone on and the batch is released.
func TestWorkers_MemoryIsReusedOnlyAfterTheLoopsStreamHasReadIt(t *testing.T) {
	dev := sim.New(1<<30, sim.ManualStreams())
	e, alloc := newExec(t, dev)
	l := data.NewSourceLoader(dev, source(8), 2, data.WithAllocator(alloc), data.Workers(1), data.Prefetch(1))
	side := device.StreamID(1)
	for b := range l.All(context.Background()) {
		require.Equal(t, e.Stream().ID(), b.Tensors[0].Exec().Stream().ID())
		sum, err := b.Tensors[0].AddScalar(1)
		require.NoError(t, err)
		sum.Release()
		dev.Complete(side)
	}
	require.NoError(t, l.Err())
	stats := alloc.Stats()
	require.Zero(t, stats.AllocatedBytes.All.Current)
	require.EqualValues(t, 4*512, stats.ActiveBytes.All.Current, "the inputs of each batch wait for the loop's stream")
	dev.Complete(e.Stream().ID())
	require.NoError(t, alloc.EmptyCache())
	require.Zero(t, alloc.Stats().ActiveBytes.All.Current)
	require.NoError(t, l.Close())
}

func TestWorkers_TakeNoMoreFromTheDriverInLaterLoops(t *testing.T) {
	dev := sim.New(1 << 30)
	_, alloc := newExec(t, dev)
	t.Cleanup(func() { require.NoError(t, memory.Drop(dev)) })
	big := make([]float32, 1<<20)
	src := data.Func(40, func(context.Context, int64, *rand.Rand) (data.Example, error) {
		x, err := data.NewArray(big)
		return data.Example{x}, err
	})
	l := data.NewSourceLoader(dev, src, 2, data.WithAllocator(alloc), data.Workers(2), data.PinMemory())
	for range 5 {
		for range l.Batches() {
		}
		require.NoError(t, l.Err())
	}
	require.LessOrEqual(t, alloc.Stats().NumDeviceAlloc, int64(6), "five batches at a time")
	pool, err := pinned.For(dev)
	require.NoError(t, err)
	require.LessOrEqual(t, pool.Stats().NumHostAlloc, int64(6))
	require.NoError(t, l.Close())
}

// Every driver call that a loop makes fails once.
func TestWorkers_KeepNothingWhenTheDeviceFails(t *testing.T) {
	for _, workers := range []int{0, 2} {
		for _, kind := range []sim.CallKind{sim.CallMalloc, sim.CallStreamCreate, sim.CallEventCreate, sim.CallEventRecord, sim.CallStreamWait,
			sim.CallCopyToDevice, sim.CallAllocPinned} {
			for nth := 1; nth < 12; nth++ {
				dev := sim.New(1 << 30)
				alloc := memory.NewDirect(dev)
				l := data.NewSourceLoader(dev, source(8), 2, data.WithAllocator(alloc), data.Workers(workers), data.PinMemory())
				dev.FailNext(kind, nth, errDisk)
				for range l.All(context.Background()) {
				}
				require.True(t, l.Err() == nil || errors.Is(l.Err(), errDisk), "%v", l.Err())
				require.Zero(t, alloc.Stats().AllocatedBytes.All.Current, "call %d of %v", nth, kind)
				if p, err := pinned.For(dev); err == nil {
					require.Zero(t, inUse(t, p), "call %d of %v", nth, kind)
				}
				require.NoError(t, l.Close())
				require.NoError(t, memory.Drop(dev))
				live := dev.Live()
				require.Zero(t, live.Streams+live.Events+live.Pinned, "call %d of %v: %+v", nth, kind, live)
				require.NoError(t, dev.Close())
			}
		}
	}
	noWorkers(t)
}

func TestProgress_CountsBatchesAndTime(t *testing.T) {
	e, alloc := newExec(t, host.New())
	for _, workers := range []int{0, 2} {
		var seen []data.Progress
		l := data.NewSourceLoader(e.Device(), source(7), 3, data.WithAllocator(alloc), data.Workers(workers),
			data.WithProgress(func(p data.Progress) { seen = append(seen, p) }))
		for range l.All(context.Background()) {
		}
		require.NoError(t, l.Close())
		require.Len(t, seen, 3)
		for i, p := range seen {
			require.Equal(t, 3, p.Batches)
			require.Equal(t, i+1, p.Batch)
			require.Equal(t, []int{3, 6, 7}[i], p.Examples)
			require.Positive(t, p.Waiting)
			require.GreaterOrEqual(t, p.Working, time.Duration(0))
			if i > 0 {
				require.GreaterOrEqual(t, p.Waiting, seen[i-1].Waiting)
			}
		}
	}
}

func TestOptions_RefuseWhatCannotBe(t *testing.T) {
	e, alloc := newExec(t, host.New())
	gen := tensor.NewGenerator(1)
	for want, opts := range map[string][]data.Option{
		"Workers(-1)":                   {data.Workers(-1)},
		"Prefetch(0)":                   {data.Prefetch(0)},
		"Prefetch(65537)":               {data.Prefetch(1<<16 + 1)},
		"WithSampler was given":         {data.WithSampler(nil)},
		"WithBatchSampler was given":    {data.WithBatchSampler(nil)},
		"WithGenerator was given":       {data.WithGenerator(nil)},
		"WithCollate was given":         {data.WithCollate(nil)},
		"WithSampler and Shuffle":       {data.WithSampler(data.SequentialSampler(3)), data.Shuffle(gen)},
		"WithBatchSampler stands":       {data.WithBatchSampler(data.NewBatchSampler(data.SequentialSampler(3), 1, false)), data.DropLast()},
		"example 3 of 3":                {data.WithSampler(data.SequentialSampler(4))},
		"the sampler's Order":           {data.WithSampler(noSequence{})},
		"RandPerm: the generator is ni": {data.WithSampler(data.RandomSampler(nil, 3))},
	} {
		l := data.NewSourceLoader(e.Device(), source(3), 2, append(opts, data.WithAllocator(alloc))...)
		for range l.All(context.Background()) {
		}
		require.ErrorContains(t, l.Err(), want)
	}
	l := data.NewLoader(e.Device(), numbers(t, 3), 2, data.PinMemory())
	for range l.Batches() {
	}
	require.ErrorContains(t, l.Err(), "for a Source")
	l = data.NewSourceLoader(e.Device(), source(3), 2, data.WithAllocator(alloc))
	for range l.Batches() {
		t.Error("three tensors")
	}
	require.ErrorContains(t, l.Err(), "batches of 3 tensors")
	var none context.Context
	for range l.All(none) {
	}
	require.ErrorContains(t, l.Err(), "the context is nil")
	l = data.NewSourceLoader(e.Device(), nil, 2)
	for range l.All(context.Background()) {
	}
	require.ErrorContains(t, l.Err(), "there is no data set")
	require.NoError(t, (*data.Loader)(nil).Close())
	require.NoError(t, new(data.Loader).Close())
}
