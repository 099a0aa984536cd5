package tensor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/cistern-ml/cistern/memory"
)

func TestLaunch_TakesTheWorkspaceOnlyForTheCall(t *testing.T) {
	dev := sim.New(device.GiB)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	e, err := On(dev, WithAllocator(alloc))
	require.NoError(t, err)
	x, err := Zeros(e, Float32, 10)
	require.NoError(t, err)
	defer x.Release()
	t.Cleanup(func(original func(*op.Call) uint64) func() { return func() { workspace = original } }(workspace))
	workspace = func(*op.Call) uint64 { return 5000 }
	y, err := x.Exp()
	require.NoError(t, err)
	defer y.Release()
	stats := alloc.Stats().AllocatedBytes.All
	require.EqualValues(t, 2*512, stats.Current)
	require.EqualValues(t, 2*512+5120, stats.Peak)

	dev.FailNext(sim.CallSubmit, 1, device.ErrLaunch)
	_, err = x.Exp()
	require.ErrorIs(t, err, device.ErrLaunch)
	require.EqualValues(t, 2*512, alloc.Stats().AllocatedBytes.All.Current)

	workspace = func(*op.Call) uint64 { return 2 * device.GiB }
	_, err = x.Exp()
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	require.ErrorContains(t, err, "tensor: Exp: ")
	require.EqualValues(t, 2*512, alloc.Stats().AllocatedBytes.All.Current)
}
