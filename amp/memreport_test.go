package amp_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/nn/memreport"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Casts are operations of a report, which adds up with them.
func TestMemoryReport_WithAutocast(t *testing.T) {
	dev := sim.New(device.GiB)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	m := nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Checkpointed(nn.Linear(256, 256)), nn.LayerNorm([]int{256}))
	require.NoError(t, m.To(dev, nn.WithAllocator(alloc)))
	rep, err := memreport.Measure(dev, func() error {
		g := autograd.NewGraph(dev, autograd.WithAllocator(alloc), amp.Autocast(tensor.Float16))
		defer g.Release()
		x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float32, 128, 64) })
		return m.Forward(x).Sum(nil, false).Backward()
	}, memreport.WithAllocator(alloc))
	require.NoError(t, err)
	require.Equal(t, uint64(alloc.Stats().AllocatedBytes.All.Peak), rep.Peak)
	require.Equal(t, rep.Peak, rep.AtPeak.Total())
	require.True(t, slices.ContainsFunc(rep.Operations, func(r memreport.Row) bool { return r.Operation == "to" && r.Allocated > 0 }), "%s", rep)
	for _, p := range m.Parameters() {
		p.ZeroGrad()
	}
	m.Release()
	require.NoError(t, alloc.Close())
}
