package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
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
	alloc *memory.Caching
	exec  tensor.Exec
}

func onHost(t *testing.T) *rig { return newRig(t, host.New()) }
func onSim(t *testing.T) *rig  { return newRig(t, sim.New(1<<30)) }

// newRig closes the device at the end.
func newRig(t *testing.T, dev device.Device) *rig {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	return rigOn(t, dev)
}

// rigOn is newRig for a device that somebody else closes.
func rigOn(t *testing.T, dev device.Device) *rig {
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
	})
	return r
}

func (r *rig) allocated() int64 { return r.alloc.Stats().AllocatedBytes.All.Current }

func (r *rig) graph(opts ...autograd.Option) *autograd.Graph {
	return autograd.NewGraph(r.dev, append([]autograd.Option{autograd.WithAllocator(r.alloc)}, opts...)...)
}

// place gives m memory on the rig until the end of the test.
func (r *rig) place(m nn.Module, opts ...nn.Option) {
	r.t.Helper()
	require.NoError(r.t, m.To(r.dev, append([]nn.Option{nn.WithAllocator(r.alloc)}, opts...)...))
	r.t.Cleanup(m.Release)
}

// tensor makes a float32 tensor that lives until the end of the test.
func (r *rig) tensor(values []float32, shape ...int) *tensor.Tensor {
	r.t.Helper()
	x, err := tensor.FromSlice(r.exec, values, shape...)
	require.NoError(r.t, err)
	r.t.Cleanup(x.Release)
	return x
}

// forward runs m on x without gradients.
func (r *rig) forward(m nn.Layer, x *tensor.Tensor, opts ...autograd.Option) []float64 {
	r.t.Helper()
	g := r.graph(append(opts, autograd.NoGrad())...)
	defer g.Release()
	v, err := m.Forward(g.Input(x)).Float64s()
	require.NoError(r.t, err)
	return v
}

func valuesOf(t *testing.T, p *autograd.Parameter) []float64 {
	t.Helper()
	require.NotNil(t, p.Tensor())
	v, err := p.Tensor().Float64s()
	require.NoError(t, err)
	return v
}
