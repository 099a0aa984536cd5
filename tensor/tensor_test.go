package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	_ "github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// bench is an Exec with an allocator of its own. When the test ends, nothing may be allocated from it.
type bench struct {
	tensor.Exec
	alloc memory.Allocator
}

// allocated is the number of bytes that tensors hold.
func (b bench) allocated() int64 { return b.alloc.Stats().AllocatedBytes.All.Current }

func newBench(t testing.TB, dev device.Device, alloc memory.Allocator, opts ...tensor.ExecOption) bench {
	t.Helper()
	e, err := tensor.On(dev, append(opts, tensor.WithAllocator(alloc))...)
	require.NoError(t, err)
	b := bench{Exec: e, alloc: alloc}
	t.Cleanup(func() {
		require.Zero(t, b.allocated(), "bytes still allocated at the end of the test")
		require.NoError(t, alloc.EmptyCache())
	})
	return b
}

// onHost is a bench on the host's default stream, with a caching allocator.
func onHost(t testing.TB) bench {
	t.Helper()
	dev, err := device.Open("host")
	require.NoError(t, err)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	return newBench(t, dev, alloc)
}

// onSim is a bench on a simulated device of 1 GiB.
func onSim(t testing.TB, opts ...sim.Option) (bench, *sim.Device) {
	t.Helper()
	dev := sim.New(device.GiB, opts...)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	return newBench(t, dev, alloc), dev
}

// must returns a result and releases it when the test ends.
func must(t testing.TB) func(*tensor.Tensor, error) *tensor.Tensor {
	return func(x *tensor.Tensor, err error) *tensor.Tensor {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(x.Release)
		return x
	}
}

// values are the elements of x as float64.
func values(t testing.TB, x *tensor.Tensor) []float64 {
	t.Helper()
	v, err := x.Float64s()
	require.NoError(t, err)
	return v
}

// iota makes 0, 1, 2, ... as float32 of a shape.
func iota(t testing.TB, e tensor.Exec, shape ...int) *tensor.Tensor {
	t.Helper()
	data := make([]float32, tensor.Shape(shape).Len())
	for i := range data {
		data[i] = float32(i)
	}
	if shape == nil {
		shape = []int{}
	}
	return must(t)(tensor.FromSlice(e, data, shape...))
}
