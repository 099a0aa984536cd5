package pinned

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

// The rows of TestCachingHostAllocatorCudaGraph. No device captures graphs yet; to the allocator a capture is streams that
// somebody calls captured.

func capturingStream(id int) func(device.Stream) bool {
	return func(s device.Stream) bool { return s.ID() == device.StreamID(id) }
}

func TestPinnedCapture_NoUse_BlocksNotUsedAreReused(t *testing.T) {
	r := newRig(t, "")
	c := r.beginCapture(capturingStream(1))
	a := r.alloc(4096)
	r.free(a)
	r.requireSame(a, r.alloc(4096))
	require.NoError(t, c.Release())
}

func TestPinnedCapture_Use_BlocksUsedAreHeldUntilRelease(t *testing.T) {
	r := newRig(t, "")
	c := r.beginCapture(capturingStream(1))
	a := r.alloc(4096)
	r.record(a, 1, 1)
	require.Len(t, c.blocks, 1)
	r.free(a)
	require.Zero(t, r.calls(sim.CallEventRecord), "no event on a captured stream")
	r.requireOther(a, r.alloc(4096))
	c.End()
	r.complete(1)
	r.requireOther(a, r.alloc(4096))
	r.empty()
	require.Equal(t, 3*4096, r.allocated(), "held blocks stay")
	require.NoError(t, c.Release())
	r.check()
	r.requireSame(a, r.alloc(4096))
	require.NoError(t, c.Release())
	r.check()
}

func TestPinnedCapture_Use2_HeldBlocksAreFreedAfterRelease(t *testing.T) {
	r := newRig(t, "")
	c := r.beginCapture(capturingStream(1))
	used, other := r.alloc(4096), r.alloc(4096)
	r.record(used, 1)
	r.record(other, 2) // not captured: an event
	c.End()
	require.NoError(t, c.Release())
	r.check()
	r.free(used)
	require.Equal(t, 4096, r.active(), "nothing holds it")
	r.free(other)
	require.Equal(t, 4096, r.active(), "the other one waits for stream 2")
	r.complete(2)
	r.requireSame(other, r.alloc(4096))
	r.requireSame(used, r.alloc(4096))
}

func TestPinnedCapture_TwoGraphs_BothHold(t *testing.T) {
	r := newRig(t, "")
	first := r.beginCapture(capturingStream(1))
	a, b := r.alloc(4096), r.alloc(8192)
	r.record(a, 1)
	first.End()
	second := r.beginCapture(capturingStream(1))
	r.record(a, 1)
	r.record(b, 1)
	second.End()
	r.free(a, b)
	require.NoError(t, first.Release())
	r.check()
	r.requireOther(a, r.alloc(4096))
	r.requireOther(b, r.alloc(8192))
	require.NoError(t, second.Release())
	r.check()
	r.requireSame(a, r.alloc(4096))
	r.requireSame(b, r.alloc(8192))
}

func TestPinnedCapture_NestedCapturesEachHaveTheirStreams(t *testing.T) {
	r := newRig(t, "")
	outer := r.beginCapture(func(device.Stream) bool { return true })
	inner := r.beginCapture(capturingStream(1))
	a, b := r.alloc(4096), r.alloc(8192)
	r.record(a, 1)
	r.record(b, 2)
	r.free(a, b)
	require.NoError(t, inner.Release())
	r.requireSame(a, r.alloc(4096))
	r.requireOther(b, r.alloc(8192))
	require.NoError(t, outer.Release())
	r.requireSame(b, r.alloc(8192))
}

func TestPinnedCapture_UnpinnedMemoryIsIgnored(t *testing.T) {
	r := newRig(t, "")
	c := r.beginCapture(capturingStream(1))
	r.record(Block{}, 1)
	require.NoError(t, c.Release())
	require.Equal(t, Stats{}, r.p.Stats())
}

func TestPinnedCapture_ThatEndsMeanwhileLeavesAnEvent(t *testing.T) {
	r := newRig(t, "")
	var c *Capture
	c = r.beginCapture(func(device.Stream) bool { c.End(); return true })
	a := r.alloc(4096)
	r.record(a, 1)
	require.Empty(t, c.blocks)
	r.free(a)
	require.Equal(t, 1, r.calls(sim.CallEventRecord))
	require.Equal(t, 4096, r.active())
}

func TestPinnedCapture_HeldAndRecordedBlocksWaitForBoth(t *testing.T) {
	r := newRig(t, "")
	c := r.beginCapture(capturingStream(1))
	a := r.alloc(4096)
	r.record(a, 1, 2)
	r.free(a)
	require.NoError(t, c.Release())
	r.check()
	r.requireOther(a, r.alloc(4096))
	r.complete(2)
	r.requireSame(a, r.alloc(4096))
}

func TestPinnedCapture_ReleaseReturnsTheDriversErrors(t *testing.T) {
	for _, conf := range []string{"", "pinned_free_catch_all:True"} {
		r := newRig(t, "pinned_max_cached_size_mb:1,"+conf)
		c := r.beginCapture(capturingStream(1))
		a, b := r.alloc(2*mib), r.alloc(3*mib)
		r.record(a, 1)
		r.record(b, 1)
		r.free(a, b)
		r.dev.FailNext(sim.CallFreePinned, 1, errDriver)
		if conf == "" {
			require.ErrorIs(t, c.Release(), errDriver)
		} else {
			require.NoError(t, c.Release())
		}
		r.check()
		require.Equal(t, 1, r.dev.Live().Pinned)
		require.EqualValues(t, 1, r.p.Stats().NumFreeErrors)
	}
}

func TestPinnedCapture_CloseReportsHeldBlocks(t *testing.T) {
	r := newRig(t, "")
	c := r.beginCapture(capturingStream(1))
	a := r.alloc(4096)
	r.record(a, 1)
	r.free(a)
	var leak *memory.LeakError
	require.ErrorAs(t, r.p.Close(), &leak)
	require.EqualValues(t, 1, leak.Blocks)
	require.NoError(t, c.Release())
	r.check()
}

func TestPinnedCapture_NeedsAFunction(t *testing.T) {
	r := newRig(t, "")
	c, err := r.p.BeginCapture(nil)
	var bad *memory.ArgumentError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "memory: pinned.BeginCapture: the function is nil", err.Error())
	require.Nil(t, c)
	h := r.alloc(1000)
	r.record(h, 1) // nothing was begun
	r.complete(1)
	r.free(h)
}
