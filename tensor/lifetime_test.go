package tensor_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func TestRelease_OfTheBaseLeavesItsViewWhole(t *testing.T) {
	b := onHost(t)
	base, err := tensor.FromSlice(b.Exec, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	require.NoError(t, err)
	view, err := base.Select(1, 2)
	require.NoError(t, err)
	require.True(t, view.SharesStorage(base))
	base.Release()
	require.EqualValues(t, 512, b.allocated())
	require.Equal(t, []float64{3, 6}, values(t, view))
	view.Release()
	require.Zero(t, b.allocated())
}

func TestRelease_OfTheViewLeavesItsBaseWhole(t *testing.T) {
	b := onHost(t)
	base := iota(t, b.Exec, 2, 3)
	view, err := base.T()
	require.NoError(t, err)
	view.Release()
	require.Equal(t, []float64{0, 1, 2, 3, 4, 5}, values(t, base))
}

func TestRelease_IsIdempotentForEachHandle(t *testing.T) {
	b := onHost(t)
	base := iota(t, b.Exec, 4)
	again := base.Retain()
	base.Release()
	base.Release()
	base.Release()
	require.True(t, base.Released())
	require.False(t, again.Released())
	require.Equal(t, []float64{0, 1, 2, 3}, values(t, again))
	again.Release()
	require.Zero(t, b.allocated())
	var none *tensor.Tensor
	none.Release()
}

func TestEveryOperation_RefusesReleasedOperands(t *testing.T) {
	b := onHost(t)
	gone := iota(t, b.Exec, 2, 2)
	gone.Release()
	numbers := []any{0.0, 0.0, 1.0, 1.0}
	for name, f := range operations {
		_, err := f(tensors{gone, gone, gone}, numbers)
		require.ErrorIs(t, err, tensor.ErrReleased, name)
		var released *tensor.ReleasedError
		require.ErrorAs(t, err, &released, name)
		_, err = f(tensors{nil, nil, nil}, numbers)
		require.ErrorIs(t, err, tensor.ErrReleased, "%s of nil", name)
	}
	_, err := gone.Item()
	require.ErrorIs(t, err, tensor.ErrReleased)
	_, err = tensor.ToSlice[float32](gone)
	require.ErrorIs(t, err, tensor.ErrReleased)
	require.ErrorIs(t, tensor.CopyFromSlice(gone, []float32{1, 2, 3, 4}), tensor.ErrReleased)
	require.True(t, gone.Retain().Released(), "a handle on a released tensor is released")
	require.True(t, gone.On(b.Exec).Released())
	require.Equal(t, "tensor(released)", gone.String())
}

func TestEveryOperation_RefusesAReleasedSecondOperand(t *testing.T) {
	b := onHost(t)
	x, gone := iota(t, b.Exec, 2, 2), iota(t, b.Exec, 2, 2)
	gone.Release()
	for _, name := range []string{"Add", "Sub", "Mul", "Div", "Pow", "Maximum", "Eq", "And", "MatMul", "Linear", "LinearAct", "ReLUGrad",
		"CopyFrom", "AddInPlace", "Cat", "Stack"} {
		_, err := operations[name](tensors{x, gone}, []any{0.0})
		require.ErrorIs(t, err, tensor.ErrReleased, name)
	}
}

func TestView_OfAReleasedHandleDoesNotBringTheStorageBack(t *testing.T) {
	b := onHost(t)
	base := iota(t, b.Exec, 4)
	keep := base.Retain()
	base.Release()
	_, err := base.View(2, 2)
	require.ErrorIs(t, err, tensor.ErrReleased)
	view := must(t)(keep.View(2, 2))
	require.Equal(t, tensor.Shape{2, 2}, view.Shape())
	keep.Release()
	require.Equal(t, []float64{0, 1, 2, 3}, values(t, view))
}

func TestRelease_ByManyGoroutinesFreesTheBlockOnce(t *testing.T) {
	b := onHost(t)
	for range 50 {
		base := iota(t, b.Exec, 64)
		var wg sync.WaitGroup
		for range 8 {
			own := base.Retain()
			wg.Go(func() {
				view, err := own.View(8, 8)
				if err == nil {
					view.Release()
				}
				own.Release()
			})
			wg.Go(own.Release) // twice, from two goroutines
			wg.Go(base.Release)
		}
		wg.Wait()
		require.Zero(t, b.allocated())
		require.True(t, base.Released())
	}
}

func TestExclusive_IsTrueForTheOnlyHandle(t *testing.T) {
	b := onHost(t)
	x := iota(t, b.Exec, 4)
	require.True(t, x.Exclusive())
	view := must(t)(x.View(2, 2))
	require.False(t, x.Exclusive())
	require.False(t, view.Exclusive())
	view.Release()
	require.True(t, x.Exclusive())
	x.Release()
	require.False(t, x.Exclusive())
}

func TestReleaseLater_FreesAtTheNextAllocation(t *testing.T) {
	b := onHost(t)
	x := iota(t, b.Exec, 4)
	x.ReleaseLater()
	require.True(t, x.Released())
	y := iota(t, b.Exec, 4)
	require.EqualValues(t, 512, b.allocated(), "only the second")
	y.Release()
}

// collect runs the garbage collector until the cleanups of what is unreachable have run: the allocator has then been told
// of count more blocks.
func collect(t *testing.T, until func() bool) {
	t.Helper()
	for range 1000 {
		runtime.GC()
		if until() {
			return
		}
		runtime.Gosched()
	}
	require.Fail(t, "the safety net did not free the tensors")
}

// watched is an allocator that counts what comes back through the safety net.
type watched struct {
	memory.Allocator
	mu    sync.Mutex
	later int
}

func (w *watched) FreeLater(b memory.Block) {
	w.Allocator.FreeLater(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.later++
}

func (w *watched) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.later
}

func watching(t *testing.T) (bench, *watched) {
	t.Helper()
	dev, err := device.Open("host")
	require.NoError(t, err)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	w := &watched{Allocator: alloc}
	return newBench(t, dev, w), w
}

// drain lets the allocator free what the safety net has queued.
func drain(t *testing.T, b bench) {
	t.Helper()
	x, err := tensor.Empty(b.Exec, tensor.Float32, 1)
	require.NoError(t, err)
	x.Release()
}

//go:noinline
func lose(t *testing.T, b bench) {
	x, err := tensor.Zeros(b.Exec, tensor.Float32, 100)
	require.NoError(t, err)
	_, err = x.View(10, 10) // a view that nobody releases holds a reference, but does not keep the block
	require.NoError(t, err)
}

func TestSafetyNet_FreesUnreachableTensorsOnce(t *testing.T) {
	b, w := watching(t)
	for range 10 {
		lose(t, b)
	}
	collect(t, func() bool { return w.count() == 10 })
	drain(t, b)
	require.Zero(t, b.allocated())
}

//go:noinline
func viewOf(t *testing.T, b bench) *tensor.Tensor {
	x, err := tensor.Ones(b.Exec, tensor.Float32, 4)
	require.NoError(t, err)
	v, err := x.View(2, 2)
	require.NoError(t, err)
	return v
}

func TestSafetyNet_KeepsTheStorageOfReachableViews(t *testing.T) {
	b, w := watching(t)
	view := viewOf(t, b)
	lose(t, b)
	collect(t, func() bool { return w.count() == 1 }) // what was lost, not the view's storage
	drain(t, b)
	require.Equal(t, []float64{1, 1, 1, 1}, values(t, view))
	view.Release()
	require.NotZero(t, b.allocated(), "the lost base still holds its reference")
	view = nil
	collect(t, func() bool { return w.count() == 2 })
	drain(t, b)
}

func TestSafetyNet_IsTakenDownByRelease(t *testing.T) {
	b, w := watching(t)
	for range 20 {
		x, err := tensor.Zeros(b.Exec, tensor.Float32, 100)
		require.NoError(t, err)
		x.Release()
	}
	lose(t, b)
	collect(t, func() bool { return w.count() >= 1 })
	runtime.GC()
	drain(t, b)
	require.Equal(t, 1, w.count(), "released tensors came back a second time")
}

func TestSafetyNet_IsNotUnderOwnedResults(t *testing.T) {
	b, w := watching(t)
	owned := b
	owned.Exec = b.Exec.Owned()
	kept := viewOf(t, owned)
	lose(t, b)
	collect(t, func() bool { return w.count() == 1 })
	require.Equal(t, 1, w.count())

	// A handle outside the owner's reach brings the net back.
	out := kept.On(b.Exec)
	require.Equal(t, []float64{1, 1, 1, 1}, values(t, out))
	kept, out = nil, nil
	collect(t, func() bool { return w.count() == 2 })
	drain(t, b)
}
