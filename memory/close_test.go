package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// requireAllBack asserts that the device has everything back.
func (r *rig) requireAllBack() {
	r.t.Helper()
	live := r.dev.Live()
	live.Streams = 0 // they are the test's
	require.Equal(r.t, sim.Live{}, live)
}

func TestClose_GivesEverythingBack(t *testing.T) {
	for _, conf := range []string{"", expandable} {
		t.Run(conf, func(t *testing.T) {
			r := newRig(t, gib, conf)
			a, b := r.alloc(512, 0), r.alloc(30*mib, 1)
			r.record(b, 0)
			r.free(a, b)
			require.NoError(t, r.a.Close())
			r.requireAllBack()
			require.NoError(t, r.a.Close(), "closing twice is harmless")
		})
	}
}

func TestClose_ReportsBlocksInUseAndTakesThemBack(t *testing.T) {
	for _, conf := range []string{"", expandable} {
		t.Run(conf, func(t *testing.T) {
			r := newRig(t, gib, conf)
			b := r.alloc(1000, 0)
			r.alloc(30*mib, 1)
			r.free(r.alloc(3*mib, 0))
			err := r.a.Close()
			require.ErrorIs(t, err, ErrLeak)
			var leak *LeakError
			require.ErrorAs(t, err, &leak)
			require.Equal(t, LeakError{Device: r.a.Device(), Blocks: 2, Bytes: 1024 + 30*mib}, *leak)
			require.EqualError(t, leak, "memory: closing the allocator of "+r.a.Device().String()+": blocks still in use: 2 blocks, 31458304 bytes")
			r.requireAllBack()
			require.ErrorIs(t, r.a.Free(b), ErrDoubleFree, "its handle is stale")
			s := r.a.Stats()
			require.Zero(t, s.ReservedBytes.All.Current)
			require.Zero(t, s.AllocatedBytes.All.Current)
			require.Zero(t, s.ActiveBytes.All.Current)
			r.check()
		})
	}
}

func TestClose_AfterwardsNothingIsHandedOut(t *testing.T) {
	r := newRig(t, gib, "")
	require.NoError(t, r.a.Close())
	_, err := r.a.Alloc(512, r.stream(0))
	require.ErrorIs(t, err, device.ErrClosed)
	var de *device.Error
	require.ErrorAs(t, err, &de)
	require.Equal(t, r.a.Device(), de.Device)
	require.NoError(t, r.a.EmptyCache())
	require.NoError(t, r.a.Free(Block{}))
}

// Pending blocks are no leak, and their events are given back although nobody can wait for them.
func TestClose_WithWorkThatFailed(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(12*mib, 0)
	r.stream(1)
	r.dev.FailWork(1, "matmul", errInjected)
	r.record(b, 1)
	r.free(b)
	err := r.a.Close()
	require.ErrorIs(t, err, errInjected, "the error of the work is told")
	require.NotErrorIs(t, err, ErrLeak)
	r.requireAllBack()
}

// An error of the driver does not keep the rest from being given back; a segment that was refused once is tried again.
func TestClose_GoesOnAfterErrorsOfTheDriver(t *testing.T) {
	for _, kind := range []sim.CallKind{sim.CallFree, sim.CallPageUnmap, sim.CallUnreserve, sim.CallEventSync, sim.CallStreamSync} {
		t.Run(kind.String(), func(t *testing.T) {
			r := newRig(t, gib, expandable)
			a := r.alloc(30*mib, 0)
			r.conf("")
			b, c := r.alloc(30*mib, 0), r.alloc(40*mib, 0)
			r.record(c, 1)
			r.free(a, b, c)
			r.dev.FailNext(kind, 1, errInjected)
			require.ErrorIs(t, r.a.Close(), errInjected)
			r.requireAllBack()
		})
	}
}

func TestString_NamesTheDevice(t *testing.T) {
	r := newCUDARig(t, gib, "")
	require.Equal(t, "caching allocator of cuda:0", r.a.String())
	require.Equal(t, "direct allocator of cuda:0", NewDirect(cudaDriver{r.dev}).String())
}
