package device_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
)

// driver is what both have.
type driver interface {
	device.VirtualMemory
	device.PinnedMemory
}

func TestNilAndZeroDevices_RefuseEachCall(t *testing.T) {
	for name, d := range map[string]driver{
		"nil host": (*host.Device)(nil), "zero host": new(host.Device), "nil sim": (*sim.Device)(nil), "zero sim": new(sim.Device),
	} {
		require.Zero(t, d.ID(), name)
		require.Zero(t, d.Properties().TotalMemory, name)
		require.NotZero(t, d.Granularity(), name)
		calls := map[string]error{
			"Free": d.Free(1), "Unreserve": d.Unreserve(1), "Map": d.Map(1, 1, 1), "Unmap": d.Unmap(1, 1), "FreePinned": d.FreePinned([]byte{1}),
			"Synchronize": d.Synchronize(context.Background()), "Close": d.Close(),
		}
		_, calls["Malloc"] = d.Malloc(8)
		_, calls["MemInfo"] = d.MemInfo()
		_, calls["NewStream"] = d.NewStream()
		_, calls["NewEvent"] = d.NewEvent()
		_, calls["Reserve"] = d.Reserve(d.Granularity())
		_, calls["AllocPinned"] = d.AllocPinned(8)
		s := d.DefaultStream()
		calls["Stream.Synchronize"] = s.Synchronize(context.Background())
		calls["Fill"] = s.Fill(1, 0, 1)
		calls["Record"] = s.Record(nil)
		calls["Submit"] = s.(device.Executor).Submit("Submit", func() error { panic("nothing runs") })
		for call, err := range calls {
			var typed *device.Error
			require.ErrorAs(t, err, &typed, "%s: %s", name, call)
			require.ErrorIs(t, err, device.ErrUnavailable, "%s: %s", name, call)
			require.ErrorContains(t, err, "no device: ", "%s: %s", name, call)
		}
		require.Zero(t, s.Device().ID(), name)
	}
}

func TestNilAndZeroSim_ChangeNothing(t *testing.T) {
	for _, d := range []*sim.Device{nil, new(sim.Device)} {
		d.SetCosts(sim.Costs{1})
		d.FailNext(sim.CallMalloc, 1, device.ErrLaunch)
		d.Inject(func(sim.Call) error { panic("nobody asks") })
		d.Occupy(1)
		d.OccupyBy(device.Process{PID: 1})
		d.FailWork(0, "x", device.ErrLaunch)
		d.Complete(0)
		_, err := d.Processes()
		require.ErrorIs(t, err, device.ErrUnavailable)
		require.Zero(t, d.Stream(7).ID())
		require.Zero(t, d.Live())
		require.Zero(t, d.Calls())
		require.Zero(t, d.Elapsed())
		_, _, found := d.Segment(1)
		require.False(t, found)
	}
	count, bytes := (*host.Device)(nil).Live()
	require.Zero(t, count)
	require.Zero(t, bytes)
}
