package soak

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// world is two devices with allocators of their own, and a parameter on the first.
type world struct {
	t     *testing.T
	dev   device.Device
	alloc memory.Allocator
	exec  tensor.Exec
	far   tensor.Exec // of another device
	input *tensor.Tensor
	w     *autograd.Parameter
	other *autograd.Graph // nobody's

	kept       []*autograd.Variable // what functions of the user kept for later
	goroutines int
	bytes      int64 // on both devices, before the user's functions are called
}

func newWorld(t *testing.T) *world {
	t.Helper()
	goroutines := runtime.NumGoroutine()
	w := &world{t: t, dev: host.New(), goroutines: goroutines}
	w.alloc, w.exec = open(t, w.dev)
	_, w.far = open(t, sim.New(1<<30))
	var err error
	w.input, err = tensor.FromSlice(w.exec, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	require.NoError(t, err)
	w.parameter()
	w.bytes = w.allocated()
	return w
}

func open(t *testing.T, dev device.Device) (memory.Allocator, tensor.Exec) {
	t.Helper()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = alloc.Close() // its blocks were counted
		require.NoError(t, dev.Close())
	})
	return alloc, e
}

// parameter gives the world a new parameter [3, 2].
func (w *world) parameter() {
	w.w.Release()
	v, err := tensor.FromSlice(w.exec, []float32{1, 0, 0, 1, 1, 1}, 3, 2)
	require.NoError(w.t, err)
	w.w = autograd.NewParameter("w", v)
}

func (w *world) graph(opts ...autograd.Option) *autograd.Graph {
	return autograd.NewGraph(w.dev, append([]autograd.Option{autograd.WithAllocator(w.alloc)}, opts...)...)
}

func (w *world) allocated() int64 {
	return w.alloc.Stats().AllocatedBytes.All.Current + w.far.Allocator().Stats().AllocatedBytes.All.Current
}

// requireWhole asserts that nothing was lost, nobody runs, and that all still works.
func (w *world) requireWhole() {
	w.t.Helper()
	for _, v := range w.kept {
		require.Error(w.t, v.MulScalar(2).Backward(), "a variable of a released graph")
	}
	w.kept = nil
	w.other.Release()
	w.w.ZeroGrad()
	if w.w.Tensor() == nil || w.input.Released() {
		w.bytes = -1 // the user's function has released it
	}
	if w.bytes >= 0 {
		require.Equal(w.t, w.bytes, w.allocated(), "bytes were lost")
	}
	w.requireTrains()
	w.w.Release()
	w.input.Release()
	require.Zero(w.t, w.allocated(), "bytes were lost")
	for end := time.Now().Add(2 * time.Second); runtime.NumGoroutine() > w.goroutines && time.Now().Before(end); {
		runtime.Gosched() // those that have ended count for a moment more
	}
	require.LessOrEqual(w.t, runtime.NumGoroutine(), w.goroutines, "goroutines")
}

// requireTrains asserts that a step has the right gradient.
func (w *world) requireTrains() {
	w.t.Helper()
	if w.input.Released() {
		var err error
		w.input, err = tensor.FromSlice(w.exec, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
		require.NoError(w.t, err)
	}
	w.parameter()
	g := w.graph()
	require.NoError(w.t, g.Input(w.input).MatMul(g.Param(w.w)).Sum(nil, false).Backward())
	g.Release()
	got, err := w.w.Grad().Float64s()
	require.NoError(w.t, err)
	require.Equal(w.t, []float64{5, 5, 7, 7, 9, 9}, got)
	w.w.ZeroGrad()
}
