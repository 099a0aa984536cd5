package memory

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAlloc_ZeroBytesGiveTheZeroBlock(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(0, 0)
	require.True(t, b.IsZero())
	require.Zero(t, b.Ptr())
	require.Zero(t, b.Size())
	require.NoError(t, r.a.RecordStream(b, r.stream(1)))
	r.free(b, b)
	require.Empty(t, r.calls, "nobody was asked")
	require.False(t, r.alloc(1, 0).IsZero())
}

func TestFree_TwiceIsAnErrorThatNamesTheBlock(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(1000, 0)
	r.free(b)
	err := r.a.Free(b)
	require.ErrorIs(t, err, ErrDoubleFree)
	var be *BlockError
	require.ErrorAs(t, err, &be)
	require.Equal(t, BlockError{Op: "Free", Device: r.a.Device(), Ptr: b.Ptr(), Size: 1024, Err: ErrDoubleFree}, *be)
	require.EqualError(t, err,
		fmt.Sprintf("memory: Free on %s: double free: block of 1024 bytes at %#x", r.a.Device(), uintptr(b.Ptr())))
	r.check()
}

// The handle is recognised although its memory, and the object that stood for it, are somebody else's by now.
func TestFree_OfAStaleHandleDoesNotTouchTheNewHolder(t *testing.T) {
	r := newRig(t, gib, "")
	stale := r.alloc(1000, 0)
	r.free(stale)
	holder := r.alloc(1000, 0)
	require.Equal(t, stale.Ptr(), holder.Ptr())
	require.ErrorIs(t, r.a.Free(stale), ErrDoubleFree)
	require.ErrorIs(t, r.a.RecordStream(stale, r.stream(1)), ErrUseAfterFree)
	require.EqualValues(t, 1, r.a.Stats().Allocation.All.Current)
	r.free(holder)
}

// Merging and splitting move block objects around; a handle from long ago must not fit any of them.
func TestFree_StaleHandlesStayStaleThroughMergesAndSplits(t *testing.T) {
	r := newRig(t, gib, "")
	var stale []Block
	for round := range 5 {
		var live []Block
		for i := range 8 {
			live = append(live, r.alloc(uint64(i+1)*(20+uint64(round))*kib, 0))
		}
		for _, h := range stale {
			require.ErrorIs(t, r.a.Free(h), ErrDoubleFree)
		}
		r.check()
		r.free(live...)
		stale = append(stale, live...)
	}
	r.empty() // the segments are gone, their block objects wait in the shard
	r.alloc(512, 0)
	for _, h := range stale {
		require.ErrorIs(t, r.a.Free(h), ErrDoubleFree)
	}
}

func TestRecordStream_AfterFreeIsAnError(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(1000, 0)
	r.free(b)
	err := r.a.RecordStream(b, r.stream(1))
	require.ErrorIs(t, err, ErrUseAfterFree)
	require.ErrorContains(t, err, "memory: RecordStream on")
	require.ErrorIs(t, r.a.RecordStream(b, r.stream(0)), ErrUseAfterFree, "on the block's own stream too")
}

func TestFree_WhilePendingIsADoubleFree(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(1000, 0)
	r.record(b, 1)
	r.free(b)
	require.ErrorIs(t, r.a.Free(b), ErrDoubleFree)
	require.ErrorIs(t, r.a.RecordStream(b, r.stream(2)), ErrUseAfterFree)
}

func TestFree_OfAForeignBlockIsRefused(t *testing.T) {
	r, other := newRig(t, gib, ""), newRig(t, gib, "")
	d1, d2 := NewDirect(r.dev), NewDirect(r.dev)
	mine := map[Allocator]Block{r.a: r.alloc(512, 0), other.a: other.alloc(512, 0)}
	for _, d := range []*Direct{d1, d2} {
		b, err := d.Alloc(512, r.stream(0))
		require.NoError(t, err)
		mine[d] = b
	}
	for a := range mine {
		for owner, b := range mine {
			if owner != a {
				require.ErrorIs(t, a.Free(b), ErrForeignBlock, "%s frees a block of %s", a, owner)
				require.ErrorIs(t, a.RecordStream(b, r.stream(1)), ErrForeignBlock)
			}
		}
	}
	for a, b := range mine {
		require.NoError(t, a.Free(b))
	}
	require.NoError(t, d1.Close())
	require.NoError(t, d2.Close())
}
