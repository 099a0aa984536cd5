package amp_test

import (
	"encoding/json"
	"os"
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
	t     testing.TB
	dev   device.Device
	alloc *memory.Caching
	exec  tensor.Exec
}

// onHost is a rig that computes, onSim one that only counts memory.
func onHost(t testing.TB) *rig { return newRig(t, host.New()) }
func onSim(t testing.TB) *rig  { return newRig(t, sim.New(1<<30)) }

func newRig(t testing.TB, dev device.Device) *rig {
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

func (r *rig) allocated() int64 { return r.alloc.Stats().AllocatedBytes.All.Current }

// graph makes a graph on the rig, which is released at the end of the test at the latest.
func (r *rig) graph(opts ...autograd.Option) *autograd.Graph {
	g := autograd.NewGraph(r.dev, append([]autograd.Option{autograd.WithAllocator(r.alloc)}, opts...)...)
	r.t.Cleanup(g.Release)
	return g
}

// random makes standard normal numbers that live until the end of the test.
func (r *rig) random(seed uint64, dt tensor.DType, shape ...int) *tensor.Tensor {
	r.t.Helper()
	wide := r.keep(tensor.RandN(r.exec, tensor.NewGenerator(seed), tensor.Float32, shape...))
	return r.keep(wide.To(dt))
}

// full makes copies of v that live until the end of the test.
func (r *rig) full(v float64, dt tensor.DType, shape ...int) *tensor.Tensor {
	r.t.Helper()
	return r.keep(tensor.Full(r.exec, v, dt, shape...))
}

// param makes a float32 parameter of copies of v that lives until the end of the test.
func (r *rig) param(v float64, shape ...int) *autograd.Parameter {
	r.t.Helper()
	t, err := tensor.Full(r.exec, v, tensor.Float32, shape...)
	require.NoError(r.t, err)
	p := autograd.NewParameter("p", t)
	r.t.Cleanup(p.Release)
	return p
}

// keep releases a tensor at the end of the test.
func (r *rig) keep(x *tensor.Tensor, err error) *tensor.Tensor {
	r.t.Helper()
	require.NoError(r.t, err)
	r.t.Cleanup(x.Release)
	return x
}

func values(t testing.TB, x *tensor.Tensor) []float64 {
	t.Helper()
	require.NotNil(t, x)
	v, err := x.Float64s()
	require.NoError(t, err)
	return v
}

func item(t testing.TB, x *tensor.Tensor) float64 {
	t.Helper()
	require.NotNil(t, x)
	v, err := x.Item()
	require.NoError(t, err)
	return v
}

// valueOf is the tensor of a variable.
func valueOf(t testing.TB, v *autograd.Variable) *tensor.Tensor {
	t.Helper()
	x, err := v.Tensor()
	require.NoError(t, err)
	return x
}

func readGolden(t testing.TB, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}
