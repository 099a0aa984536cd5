package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFreeLater_FreesAtTheNextAlloc(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(12*mib, 0)
	r.a.FreeLater(b)
	s := r.a.Stats()
	require.EqualValues(t, 1, s.Allocation.All.Current, "only queued")
	require.EqualValues(t, 1, s.NumDeferredFrees)
	require.Equal(t, r.place(b), r.place(r.alloc(12*mib, 0)), "freed before the search")
	require.Zero(t, r.a.pendingWork.Load(), "nothing is left to do for later allocations")
}

func TestFreeLater_EmptyCacheAndCloseLookAtTheQueueToo(t *testing.T) {
	r := newRig(t, gib, "")
	r.a.FreeLater(r.alloc(12*mib, 0))
	r.empty()
	require.Zero(t, r.reserved())
	r.a.FreeLater(r.alloc(12*mib, 0))
	require.NoError(t, r.a.Close(), "no leak")
}

func TestFreeLater_RecordedStreamsAreRespected(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(12*mib, 0)
	r.record(b, 1)
	r.a.FreeLater(b)
	require.False(t, r.reused(b, 0))
	r.complete(1)
	require.True(t, r.reused(b, 0))
}

// A cleanup may come after the explicit free: the explicit one counts, and the memory may be somebody else's by then.
func TestFreeLater_OfAFreedBlockDoesNothing(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(12*mib, 0)
	r.free(b)
	r.a.FreeLater(b)
	again := r.alloc(12*mib, 0)
	require.Equal(t, b.Ptr(), again.Ptr())
	r.a.FreeLater(b)
	r.alloc(512, 0)
	require.EqualValues(t, 2, r.a.Stats().Allocation.All.Current)
	r.free(again)
}

func TestFreeLater_TheZeroBlockIsNotCounted(t *testing.T) {
	r := newRig(t, gib, "")
	r.a.FreeLater(Block{})
	require.Zero(t, r.a.Stats().NumDeferredFrees)
}
