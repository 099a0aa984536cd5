package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// rig is a device with an allocator of its own. Its cleanup fails the test if anything was left allocated.
type rig struct {
	t     *testing.T
	dev   device.Device
	alloc memory.Allocator
	exec  tensor.Exec
}

// onHost is a rig that computes.
func onHost(t *testing.T) *rig { return newRig(t, host.New()) }

// onSim is a rig that only counts memory.
func onSim(t *testing.T) *rig { return newRig(t, sim.New(1<<30)) }

func newRig(t *testing.T, dev device.Device) *rig {
	t.Helper()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	r := &rig{t: t, dev: dev, alloc: alloc, exec: e}
	t.Cleanup(func() {
		if !t.Failed() {
			require.Zero(t, r.allocated(), "bytes still allocated at the end of the test")
		}
		require.NoError(t, alloc.Close())
		require.NoError(t, dev.Close())
	})
	return r
}

// graph makes a graph on the rig, which the test releases.
func (r *rig) graph(opts ...autograd.Option) *autograd.Graph {
	return autograd.NewGraph(r.dev, append([]autograd.Option{autograd.WithAllocator(r.alloc)}, opts...)...)
}

func (r *rig) allocated() int64 { return r.alloc.Stats().AllocatedBytes.All.Current }

// tensor makes a float64 tensor that lives until the end of the test.
func (r *rig) tensor(values []float64, shape ...int) *tensor.Tensor {
	r.t.Helper()
	return keep(r.t)(tensor.FromSlice(r.exec, values, shape...))
}

func (r *rig) ints(values []int64, shape ...int) *tensor.Tensor {
	r.t.Helper()
	return keep(r.t)(tensor.FromSlice(r.exec, values, shape...))
}

// random makes a float64 tensor of standard normal numbers that lives until the end of the test.
func (r *rig) random(seed uint64, shape ...int) *tensor.Tensor {
	r.t.Helper()
	return keep(r.t)(tensor.RandN(r.exec, tensor.NewGenerator(seed), tensor.Float64, shape...))
}

// zeros makes a tensor of any type that lives until the end of the test.
func (r *rig) zeros(dt tensor.DType, shape ...int) *tensor.Tensor {
	r.t.Helper()
	return keep(r.t)(tensor.Zeros(r.exec, dt, shape...))
}

// keep releases a tensor at the end of the test.
func keep(t *testing.T) func(x *tensor.Tensor, err error) *tensor.Tensor {
	return func(x *tensor.Tensor, err error) *tensor.Tensor {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(x.Release)
		return x
	}
}

func values(t *testing.T, x *tensor.Tensor) []float64 {
	t.Helper()
	require.NotNil(t, x)
	v, err := x.Float64s()
	require.NoError(t, err)
	return v
}

func valuesOf(t *testing.T, v *autograd.Variable) []float64 {
	t.Helper()
	f, err := v.Float64s()
	require.NoError(t, err)
	return f
}

// resetPeak starts measuring the peak anew.
func (r *rig) resetPeak() {
	r.t.Helper()
	a, ok := r.alloc.(interface{ ResetPeakStats() })
	require.True(r.t, ok, "the allocator cannot reset its peaks")
	a.ResetPeakStats()
}

func (r *rig) peak() int64 { return r.alloc.Stats().AllocatedBytes.All.Peak }

// must is for tensors whose shape and device are known to be good.
func must(x *tensor.Tensor, err error) *tensor.Tensor {
	if err != nil {
		panic(err)
	}
	return x
}
