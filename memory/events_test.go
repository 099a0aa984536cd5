package memory

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

var errInjected = errors.New("injected failure")

// reused reports whether the next allocation of b's size on b's stream gets b's memory; it is freed again.
func (r *rig) reused(b Block, stream int) bool {
	r.t.Helper()
	n := r.alloc(b.Size(), stream)
	defer r.free(n)
	return n.Ptr() == b.Ptr()
}

func TestRecordStream_DelaysReuseUntilTheWorkThereHasFinished(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(12*mib, 0)
	r.record(b, 1)
	r.free(b)
	require.False(t, r.reused(b, 0), "work on stream 1 may still read it")
	r.complete(1)
	require.True(t, r.reused(b, 0))
}

func TestRecordStream_WaitsForAllStreams(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(12*mib, 0)
	r.record(b, 1)
	r.record(b, 2)
	r.record(b, 1) // once more is no other event
	r.free(b)
	r.requirePicture(
		"segment 0  12 MiB  large pool  stream 0",
		"| 12 MiB pending (2 events) |")
	r.complete(2)
	require.False(t, r.reused(b, 0))
	r.complete(1)
	require.True(t, r.reused(b, 0))
}

func TestRecordStream_OwnStreamHasNoEffect(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(12*mib, 1)
	r.record(b, 1)
	r.free(b)
	require.True(t, r.reused(b, 1))
	require.Zero(t, r.dev.Calls().Count[sim.CallEventCreate])
}

func TestRecordStream_IsForgottenWhenTheMemoryIsHandedOutAgain(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(12*mib, 0)
	r.record(b, 1)
	r.free(b)
	r.complete(1)
	b = r.alloc(12*mib, 0)
	r.free(b)
	require.True(t, r.reused(b, 0), "the new holder used one stream only")
}

// Events complete in order on a stream; a stream that runs for long holds up only what waits for it.
func TestEvents_ALongStreamBlocksOnlyItsOwnQueue(t *testing.T) {
	r := newRig(t, gib, "")
	slow1, slow2, quick := r.alloc(12*mib, 0), r.alloc(14*mib, 0), r.alloc(16*mib, 0)
	r.record(slow1, 1)
	r.record(slow2, 1)
	r.record(quick, 2)
	r.free(slow1, slow2, quick)
	r.complete(2)
	r.calls = nil
	require.True(t, r.reused(quick, 0))
	require.Equal(t, 2, r.takeCalls(sim.CallEventQuery), "the head of each queue: the rest of stream 1 is not asked")
	require.False(t, r.reused(slow1, 0))
	r.complete(1)
	require.True(t, r.reused(slow1, 0))
	require.True(t, r.reused(slow2, 0))
}

func TestEvents_AreLookedAtByAllocOnly(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(12*mib, 0)
	r.record(b, 1)
	r.free(b)
	r.complete(1)
	other := r.alloc(512, 0)
	require.Equal(t, int64(1), r.a.Stats().Active.All.Current)
	b = r.alloc(12*mib, 0)
	r.record(b, 1)
	r.free(b)
	r.complete(1)
	r.free(other)
	require.Equal(t, int64(1), r.a.Stats().Active.All.Current, "Free does not look")
}

func TestEvents_AreUsedAgain(t *testing.T) {
	r := newRig(t, gib, "")
	use := func(streams ...int) {
		b := r.alloc(512, 0)
		for _, s := range streams {
			r.record(b, s)
		}
		r.free(b)
	}
	created := func() uint64 { return r.dev.Calls().Count[sim.CallEventCreate] }
	use(1)
	require.EqualValues(t, 1, created())
	r.complete(1)
	use(1)
	require.EqualValues(t, 1, created(), "the one from before is free again")
	use(1)
	require.EqualValues(t, 2, created(), "it is under way, so another is made")
	r.complete(1)
	use(1, 2)
	require.EqualValues(t, 2, created())
	require.Equal(t, 2, r.dev.Live().Events)
}

// Without an event the whole stream is waited for: later, but neither lost nor early.
func TestEvents_ThatCannotBeMadeDelayUntilTheStreamIsIdle(t *testing.T) {
	for _, kind := range []sim.CallKind{sim.CallEventCreate, sim.CallEventRecord} {
		t.Run(kind.String(), func(t *testing.T) {
			r := newRig(t, gib, "")
			b := r.alloc(12*mib, 0)
			require.NoError(t, r.stream(1).Fill(b.Ptr(), 0, b.Size()))
			r.record(b, 1)
			r.dev.FailNext(kind, 1, errInjected)
			r.free(b)
			require.False(t, r.reused(b, 0))
			r.complete(1)
			require.True(t, r.reused(b, 0))
		})
	}
}

func TestEvents_ThatCannotBeAskedCountAsNotCompleted(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(12*mib, 0)
	r.record(b, 1)
	r.free(b)
	r.complete(1)
	r.dev.FailNext(sim.CallEventQuery, 1, errInjected)
	require.False(t, r.reused(b, 0))
	require.True(t, r.reused(b, 0))
}

// A stream that was closed has finished: closing waits for its work.
func TestEvents_OfAClosedStreamHaveCompleted(t *testing.T) {
	r := newRig(t, gib, "")
	s, err := r.dev.NewStream()
	require.NoError(t, err)
	b, c := r.alloc(12*mib, 0), r.alloc(14*mib, 0)
	require.NoError(t, r.a.RecordStream(b, s))
	require.NoError(t, r.a.RecordStream(c, s))
	r.free(b)
	require.NoError(t, s.Close())
	r.free(c) // its event cannot be recorded any more
	require.True(t, r.reused(b, 0))
	require.True(t, r.reused(c, 0))
}

// The error of the work waited for comes out where somebody waits, and the memory is not lost.
func TestEmptyCache_ReturnsTheErrorOfFailedWorkOnce(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(12*mib, 0)
	r.stream(1)
	r.dev.FailWork(1, "matmul", errInjected)
	r.record(b, 1)
	r.free(b)
	err := r.a.EmptyCache()
	require.ErrorIs(t, err, device.ErrLaunch)
	require.ErrorIs(t, err, errInjected)
	r.check()
	require.NoError(t, r.a.EmptyCache())
	require.Zero(t, r.reserved())
}

func TestEmptyCache_WaitsForEvents(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(12*mib, 0)
	r.record(b, 1)
	r.free(b)
	r.calls = nil
	r.empty()
	require.Zero(t, r.reserved())
	require.Equal(t, 1, r.takeCalls(sim.CallEventSync))
	require.EqualValues(t, 1, r.a.Stats().NumSyncAllStreams)
}

// Queues that never run dry are compacted: 5,000 pending frees with one always outstanding keep their order.
func TestEvents_LongQueuesKeepTheirOrder(t *testing.T) {
	r := newRig(t, 64*gib, "")
	var blocks []Block
	for range 5000 {
		b, err := r.a.Alloc(mib, r.stream(0))
		require.NoError(t, err)
		require.NoError(t, r.a.RecordStream(b, r.stream(1)))
		blocks = append(blocks, b)
	}
	for i, b := range blocks {
		require.NoError(t, r.a.Free(b))
		if i%7 == 6 {
			r.complete(1)
			_, err := r.a.Alloc(20*mib, r.stream(2))
			require.NoError(t, err)
		}
	}
	r.check()
	r.complete(1)
	r.alloc(512, 2)
	require.Zero(t, r.a.Stats().ActiveBytes.SmallPool.Current-512)
	require.Less(t, r.dev.Calls().Count[sim.CallEventCreate], uint64(10))
}
