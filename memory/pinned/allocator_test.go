package pinned

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/invariants"
	"github.com/cistern-ml/cistern/memory"
)

func TestPinned_ReusesAFreedBlock(t *testing.T) {
	r := newRig(t, "")
	a := r.alloc(mib)
	r.free(a)
	r.requireSame(a, r.alloc(mib))
	require.Equal(t, 1, r.calls(sim.CallAllocPinned))
}

func TestPinned_DoesNotReuseABlockWhileACopyIsInFlight(t *testing.T) {
	r := newRig(t, "")
	a := r.alloc(mib)
	r.record(a, 1)
	r.free(a)
	b := r.alloc(mib)
	r.requireOther(a, b)
	r.complete(1)
	r.requireSame(a, r.alloc(mib))
}

func TestPinned_RoundsToPowersOfTwo(t *testing.T) {
	r := newRig(t, "")
	for _, c := range []struct{ bytes, size uint64 }{
		{1, 1}, {2, 2}, {3, 4}, {4096, 4096}, {4097, 8192}, {40960, 65536}, {65536, 65536}, {65537, 131072},
	} {
		b := r.alloc(c.bytes)
		require.Equal(t, c.size, b.Size())
		require.Equal(t, int(c.bytes), cap(b.Bytes()), "append must not write beyond the request")
		r.free(b)
	}
}

func TestPinned_GivesTheBlockFreedLastFirst(t *testing.T) {
	r := newRig(t, "")
	a, b, c := r.alloc(4096), r.alloc(4096), r.alloc(4096)
	r.free(b, c, a)
	r.requireSame(a, r.alloc(4000))
	r.requireSame(c, r.alloc(3000))
	r.requireSame(b, r.alloc(2049))
}

func TestPinned_SearchesNoOtherBucket(t *testing.T) {
	r := newRig(t, "")
	r.free(r.alloc(8192))
	r.alloc(4096)
	r.alloc(8193)
	require.Equal(t, 3, r.calls(sim.CallAllocPinned))
}

func TestPinned_ZeroBytesAreTheZeroBlock(t *testing.T) {
	r := newRig(t, "")
	b := r.alloc(0)
	require.True(t, b.IsZero())
	require.Zero(t, b.Size())
	require.Empty(t, b.Bytes())
	r.record(b, 1)
	r.free(b, b)
	require.Equal(t, Stats{}, r.p.Stats())
	require.False(t, r.alloc(1).IsZero())
}

// The rows of TestCachingHostAllocatorConfig.

func TestPinned_DoesNotRoundAboveTheRoundThreshold(t *testing.T) {
	r := newRig(t, "pinned_max_round_threshold_mb:3")
	small, edge, large := r.alloc(mib+1), r.alloc(3*mib), r.alloc(3*mib+1)
	require.EqualValues(t, 2*mib, small.Size())
	require.EqualValues(t, 4*mib, edge.Size(), "above, not from it on")
	require.EqualValues(t, 3*mib+1, large.Size())
	r.free(large)
	require.Equal(t, 9*mib+1, r.allocated(), "but it is cached")
	r.requireSame(large, r.alloc(3*mib+1))
}

func TestPinned_DoesNotKeepBlocksAboveTheCachedSize(t *testing.T) {
	r := newRig(t, "pinned_max_cached_size_mb:2")
	small, large := r.alloc(mib+5), r.alloc(2*mib+1)
	require.EqualValues(t, 2*mib, small.Size())
	require.EqualValues(t, 2*mib+1, large.Size())
	r.free(small, large)
	require.Equal(t, 2*mib, r.allocated())
	require.Equal(t, 1, r.calls(sim.CallFreePinned))
	require.Zero(t, r.active())
}

func TestPinned_DoesNotKeepLargeBlocksAfterTheirEvents(t *testing.T) {
	r := newRig(t, "pinned_max_cached_size_mb:2")
	large := r.alloc(2*mib + 1)
	r.record(large, 1, 2)
	r.free(large)
	r.complete(1)
	r.alloc(1)
	require.Equal(t, 2*mib+2, r.allocated())
	r.complete(2)
	r.alloc(1)
	require.Equal(t, 2, r.allocated())
	require.Equal(t, 1, r.calls(sim.CallFreePinned))
}

func TestPinned_BothThresholds(t *testing.T) {
	r := newRig(t, "pinned_max_round_threshold_mb:1,pinned_max_cached_size_mb:2")
	for _, c := range []struct {
		bytes, size uint64
		cached      bool
	}{{mib - 1, mib, true}, {mib + 1, mib + 1, true}, {2 * mib, 2 * mib, true}, {2*mib + 1, 2*mib + 1, false}} {
		b := r.alloc(c.bytes)
		require.Equal(t, c.size, b.Size())
		r.free(b)
		require.Equal(t, c.cached, r.allocated() != 0)
		r.empty()
		require.Zero(t, r.allocated())
	}
}

func TestPinned_TheCachedSizeWinsOverALargerRoundThreshold(t *testing.T) {
	r := newRig(t, "pinned_max_round_threshold_mb:8,pinned_max_cached_size_mb:2")
	b := r.alloc(3 * mib)
	require.EqualValues(t, 3*mib, b.Size())
	r.free(b)
	require.Zero(t, r.allocated())
}

func TestPinned_GivesNoUndersizedUnroundedBlock(t *testing.T) {
	r := newRig(t, "pinned_max_round_threshold_mb:1")
	small, large := r.alloc(mib+1000), r.alloc(mib+3000)
	r.free(large, small) // of one bucket, the small one on top
	got := r.alloc(mib + 2000)
	r.requireSame(large, got)
	require.EqualValues(t, mib+3000, got.Size())
	r.requireOther(small, r.alloc(mib+1001))
	r.requireSame(small, r.alloc(mib+1000))

	r.free(r.alloc(mib + 7))
	r.conf("")
	require.EqualValues(t, 2*mib, r.alloc(mib+8).Size(), "nor to a request that is rounded")
}

func TestPinned_SettingsOutOfRange(t *testing.T) {
	var bad *memory.ConfigError
	_, err := New(sim.New(1), memory.Config{PinnedNumRegisterThreads: 3})
	require.ErrorAs(t, err, &bad)
	r := newRig(t, "")
	require.ErrorAs(t, r.p.SetConfig(memory.Config{PinnedNumRegisterThreads: 256}), &bad)
}

func TestPinned_EmptyCacheGivesCachedBlocksBack(t *testing.T) {
	r := newRig(t, "")
	held, pending, done := r.alloc(4096), r.alloc(4096), r.alloc(8192)
	r.free(r.alloc(100), r.alloc(5000))
	r.record(pending, 1)
	r.record(done, 2)
	r.free(pending, done)
	r.complete(2)
	r.empty()
	require.Equal(t, 2, r.dev.Live().Pinned, "what is held and what waits for events stays")
	require.Equal(t, 8192, r.allocated())
	r.complete(1)
	r.free(held)
	r.empty()
	require.Zero(t, r.dev.Live().Pinned)
	require.Zero(t, r.allocated())
}

func TestPinned_StaleHandlesAreErrors(t *testing.T) {
	r := newRig(t, "")
	a := r.alloc(4096)
	r.free(a)
	requireBlockError(t, r.p.Free(a), "Free", memory.ErrDoubleFree)
	requireBlockError(t, r.p.RecordStream(a, r.stream(1)), "RecordStream", memory.ErrUseAfterFree)

	b := r.alloc(4096)
	r.requireSame(a, b)
	requireBlockError(t, r.p.Free(a), "Free", memory.ErrDoubleFree)
	requireBlockError(t, r.p.RecordStream(a, r.stream(1)), "RecordStream", memory.ErrUseAfterFree)
	r.free(b)

	r.empty() // the driver has the memory back
	requireBlockError(t, r.p.Free(a), "Free", memory.ErrDoubleFree)
	require.ErrorContains(t, r.p.Free(b), "4096 bytes")

	c := r.alloc(4096)
	r.record(c, 1)
	r.free(c)
	requireBlockError(t, r.p.Free(c), "Free", memory.ErrDoubleFree)
	requireBlockError(t, r.p.RecordStream(c, r.stream(2)), "RecordStream", memory.ErrUseAfterFree)
	require.Equal(t, 4096, r.active(), "a pending block is not touched by that")
}

func TestPinned_ForeignBlocksAreErrors(t *testing.T) {
	r, other := newRig(t, ""), newRig(t, "")
	b := other.alloc(10)
	requireBlockError(t, r.p.Free(b), "Free", memory.ErrForeignBlock)
	requireBlockError(t, r.p.RecordStream(b, r.stream(1)), "RecordStream", memory.ErrForeignBlock)
	other.free(b)
}

func requireBlockError(t *testing.T, err error, op string, sentinel error) {
	t.Helper()
	var e *memory.BlockError
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, sentinel)
	require.Equal(t, op, e.Op)
	require.NotZero(t, e.Ptr)
	require.NotZero(t, e.Size)
}

func TestPinned_CloseReportsLeaksAndFreesThem(t *testing.T) {
	r := newRig(t, "pinned_reserve_segment_size_mb:1")
	held, pending := r.alloc(2*mib), r.alloc(4096)
	r.record(pending, 1)
	r.free(pending, r.alloc(3*mib))
	err := r.p.Close()
	var leak *memory.LeakError
	require.ErrorAs(t, err, &leak)
	require.Equal(t, memory.LeakError{Device: r.dev.ID(), Blocks: 1, Bytes: 2 * mib}, *leak, "the pending one was waited for")
	require.Zero(t, r.dev.Live().Pinned)
	require.Zero(t, r.dev.Live().Events)
	r.check()
	require.Zero(t, r.active())

	requireBlockError(t, r.p.Free(held), "Free", memory.ErrDoubleFree)
	_, err = r.p.Alloc(4096)
	require.ErrorIs(t, err, device.ErrClosed)
	require.NoError(t, r.p.EmptyCache())
	require.NoError(t, r.p.Close())
}

func TestPinned_TooLargeRequestsAreRefusedAtOnce(t *testing.T) {
	r := newRig(t, "")
	for _, bytes := range []uint64{1 << 60, 1<<63 + 1, math.MaxUint64} {
		_, err := r.p.Alloc(bytes)
		require.ErrorIs(t, err, memory.ErrOutOfMemory)
		require.ErrorContains(t, err, "more than 1EB")
	}
	require.Zero(t, r.calls(sim.CallAllocPinned))
}

func TestPinned_CachedPathMakesNoGoHeapAllocation(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks allocate")
	}
	r := newRig(t, "")
	streams := []device.Stream{r.stream(0), r.stream(1), r.stream(2)}
	step := func(record bool) func() {
		return func() {
			b, err := r.p.Alloc(5000)
			if err == nil && record {
				for _, s := range streams {
					err = r.p.RecordStream(b, s)
				}
			}
			if err == nil {
				err = r.p.Free(b)
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range streams {
				r.dev.Complete(device.StreamID(i))
			}
		}
	}
	require.Zero(t, testing.AllocsPerRun(200, step(false)))
	require.Zero(t, testing.AllocsPerRun(200, step(true)), "with events neither")
	require.Equal(t, 3, r.dev.Live().Events, "and events are used again")
}

func TestPinnedFor_KeepsOneAllocatorForEachDevice(t *testing.T) {
	t.Setenv("CISTERN_ALLOC_CONF", "pinned_max_round_threshold_mb:1")
	dev := sim.New(mib)
	p, err := For(dev)
	require.NoError(t, err)
	again, err := For(dev)
	require.NoError(t, err)
	require.Same(t, p, again)
	require.Equal(t, dev.ID(), p.Device())
	require.Equal(t, "pinned allocator of "+dev.ID().String(), p.String())
	b, err := p.Alloc(mib + 1)
	require.NoError(t, err)
	require.EqualValues(t, mib+1, b.Size(), "with the settings of the environment")

	require.ErrorIs(t, memory.Drop(dev), memory.ErrLeak)
	again, err = For(dev)
	require.NoError(t, err)
	require.NotSame(t, p, again)
	require.NoError(t, memory.Drop(dev))
	require.NoError(t, memory.Drop(dev))

	t.Setenv("CISTERN_ALLOC_CONF", "pinned_max_round_threshold_mb:x")
	var bad *memory.ConfigError
	_, err = For(dev)
	require.ErrorAs(t, err, &bad)
}

func TestPinnedFor_FailsForDevicesWithoutPinnedMemory(t *testing.T) {
	_, err := For(struct{ device.Device }{sim.New(1)})
	require.ErrorIs(t, err, device.ErrUnavailable)
	require.ErrorContains(t, err, "no pinned host memory")
}
