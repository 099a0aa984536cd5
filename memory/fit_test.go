package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/invariants"

	"github.com/cistern-ml/cistern/memory/internal/journal"
)

const gib = 1 << 30

// hole makes a free block of exactly this size, at least 10 MiB, as a segment of its own.
func (r *rig) hole(bytes uint64, stream int) place {
	b := r.alloc(bytes, stream)
	p := r.place(b)
	r.free(b)
	return p
}

// holes makes several, none of which serves the request for the next.
func (r *rig) holes(stream int, bytes ...uint64) []place {
	var blocks []Block
	var places []place
	for _, n := range bytes {
		blocks = append(blocks, r.alloc(n, stream))
	}
	for _, b := range blocks {
		places = append(places, r.place(b))
		r.free(b)
	}
	return places
}

func TestBestFit_TakesTheSmallestThatIsLargeEnough(t *testing.T) {
	r := newRig(t, gib, "")
	h := r.holes(0, 40*mib, 14*mib, 20*mib, 30*mib)
	require.Equal(t, h[1], r.place(r.alloc(13*mib, 0)))
	require.Equal(t, h[2], r.place(r.alloc(15*mib, 0)))
	require.Equal(t, h[3], r.place(r.alloc(29*mib+1, 0)))
}

func TestBestFit_PrefersTheOldestSegmentOfEqualSizes(t *testing.T) {
	r := newRig(t, gib, "")
	h := r.holes(0, 12*mib, 12*mib, 12*mib)
	for _, want := range h {
		require.Equal(t, want, r.place(r.alloc(12*mib, 0)))
	}
}

func TestBestFit_StaysOnItsStream(t *testing.T) {
	r := newRig(t, gib, "")
	h := r.hole(12*mib, 1)
	require.NotEqual(t, h, r.place(r.alloc(12*mib, 2)))
	require.Equal(t, h, r.place(r.alloc(12*mib, 1)))
}

// Streams with small numbers are found in an array, the others by search.
func TestBestFit_WorksForStreamsOfAnyNumber(t *testing.T) {
	r := newRig(t, 64*gib, "")
	places := map[int]place{}
	for _, stream := range []int{1 << 40, 15, 16, 1000, 17, 0} {
		places[stream] = r.hole(12*mib, stream)
	}
	for stream, want := range places {
		require.Equal(t, want, r.place(r.alloc(12*mib, stream)), "stream %d", stream)
	}
}

func TestBestFit_PoolsAreApart(t *testing.T) {
	r := newRig(t, gib, "")
	large := r.hole(2*mib, 0) // a free segment of 20 MiB
	small := r.alloc(mib, 0)
	require.NotEqual(t, large.segment, r.place(small).segment, "1 MiB is small")
	require.Equal(t, large, r.place(r.alloc(mib+1, 0)), "and a byte more is large")
}

// The worked example of the oversize rules: max_split_size 100 MiB, free blocks of 60 and 150 MiB.
func TestBestFit_OversizeRules(t *testing.T) {
	const conf = "max_split_size_mb:100"
	for _, c := range []struct {
		name    string
		request uint64
		hole    int // which of the two serves; -1 is a new segment
		size    uint64
	}{
		{"50MiB splits the 60MiB block", 50 * mib, 0, 50 * mib},
		{"70MiB may not have the oversize block", 70 * mib, -1, 70 * mib},
		{"120MiB would waste too much of 150MiB", 120 * mib, -1, 120 * mib},
		{"130MiB would waste exactly 20MiB, too much", 130 * mib, -1, 130 * mib},
		{"135MiB gets the 150MiB block whole", 135 * mib, 1, 150 * mib},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, gib, conf)
			h := r.holes(0, 60*mib, 150*mib)
			b := r.alloc(c.request, 0)
			if c.hole < 0 {
				require.Equal(t, 2, r.place(b).segment, "a new segment")
			} else {
				require.Equal(t, h[c.hole], r.place(b))
			}
			require.Equal(t, c.size, b.Size())
		})
	}
}

// How much bigger an oversize block may be is a setting of its own.
func TestBestFit_MaxNonSplitRoundingWidensTheOversizeRule(t *testing.T) {
	r := newRig(t, gib, "max_split_size_mb:100,max_non_split_rounding_mb:40")
	h := r.holes(0, 150*mib)
	b := r.alloc(112*mib, 0)
	require.Equal(t, h[0], r.place(b), "150 < 112+40")
	r.free(b)
	require.NotEqual(t, h[0], r.place(r.alloc(110*mib, 0)), "150 is not below 110+40")
}

func TestSplit_SmallPoolKeepsAnyRemainder(t *testing.T) {
	r := newRig(t, gib, "")
	r.alloc(mib, 0)
	b := r.alloc(mib-512, 0)
	require.EqualValues(t, mib-512, b.Size())
	r.requirePicture(
		"segment 0  2 MiB  small pool  stream 0",
		"| 1 MiB allocated | 1023.5 KiB allocated | 512 B cached |")
}

func TestSplit_LargePoolWantsMoreThanOneMiBLeft(t *testing.T) {
	for _, c := range []struct{ request, size uint64 }{
		{19*mib - 512, 19*mib - 512}, // leaves 1 MiB and 512 bytes: split
		{19 * mib, 20 * mib},         // leaves 1 MiB: the whole block
		{19*mib + 200*kib, 20 * mib}, // internal waste, the difference of allocated and requested
	} {
		r := newRig(t, gib, "")
		r.hole(2*mib, 0)
		b := r.alloc(c.request, 0)
		require.Equal(t, c.size, b.Size(), "request of %d bytes", c.request)
		s := r.a.Stats()
		require.EqualValues(t, c.size, s.AllocatedBytes.All.Current)
		require.EqualValues(t, c.request, s.RequestedBytes.All.Current)
	}
}

func TestSplit_FrontIsHandedOutAndTheRestStays(t *testing.T) {
	r := newRig(t, gib, "")
	a, b := r.alloc(4*mib, 0), r.alloc(6*mib, 0)
	require.Equal(t, place{0, 0}, r.place(a))
	require.Equal(t, place{0, 4 * mib}, r.place(b))
	r.requirePicture(
		"segment 0  20 MiB  large pool  stream 0",
		"| 4 MiB allocated | 6 MiB allocated | 10 MiB cached |")
}

func TestSplit_OversizeRequestsAreNeverSplit(t *testing.T) {
	r := newRig(t, gib, "max_split_size_mb:100")
	r.hole(119*mib, 0) // a segment of 120 MiB
	b := r.alloc(101*mib, 0)
	require.EqualValues(t, 120*mib, b.Size())
}

// The test of the split rule is the setting, not the block: PyTorch's rule.
func TestSplit_ExpandableSettingSplitsPlainSegmentsFinely(t *testing.T) {
	r := newRig(t, gib, "")
	r.hole(19*mib, 0)
	r.conf("expandable_segments:True")
	b := r.alloc(19*mib+512, 0)
	require.EqualValues(t, 19*mib+512, b.Size())
	require.Equal(t, place{0, 0}, r.place(b))
}

func TestFree_MergesBothNeighbours(t *testing.T) {
	r := newRig(t, gib, "")
	a, b, c, d := r.alloc(4*mib, 0), r.alloc(4*mib, 0), r.alloc(4*mib, 0), r.alloc(4*mib, 0)
	r.free(a, c)
	r.requirePicture(
		"segment 0  20 MiB  large pool  stream 0",
		"| 4 MiB cached | 4 MiB allocated | 4 MiB cached | 4 MiB allocated | 4 MiB cached |")
	r.free(b)
	r.requirePicture(
		"segment 0  20 MiB  large pool  stream 0",
		"| 12 MiB cached | 4 MiB allocated | 4 MiB cached |")
	r.free(d)
	r.requirePicture(
		"segment 0  20 MiB  large pool  stream 0",
		"| 20 MiB cached |")
}

func TestFree_DoesNotMergeAcrossSegments(t *testing.T) {
	r := newRig(t, gib, "")
	a, b := r.alloc(10*mib, 0), r.alloc(10*mib, 0)
	require.Equal(t, a.Ptr().Add(a.Size()), b.Ptr(), "neighbours in the address space")
	r.free(a, b)
	r.requirePicture(
		"segment 0  10 MiB  large pool  stream 0",
		"| 10 MiB cached |",
		"segment 1  10 MiB  large pool  stream 0",
		"| 10 MiB cached |")
}

func TestFree_DoesNotMergeWithPendingNeighbours(t *testing.T) {
	r := newRig(t, gib, "")
	a, b, c := r.alloc(4*mib, 0), r.alloc(4*mib, 0), r.alloc(4*mib, 0)
	r.record(b, 1)
	r.free(b, a, c)
	r.requirePicture(
		"segment 0  20 MiB  large pool  stream 0",
		"| 4 MiB cached | 4 MiB pending (1 events) | 12 MiB cached |")
}

// A block that is on its way to a caller, between the search and the hand-out, when no lock is held on the slow path, is no
// longer part of what its neighbours merge with.
func TestFree_LeavesABlockAloneThatIsBeingHandedOut(t *testing.T) {
	r := newRig(t, gib, "")
	a, b := r.alloc(4*mib, 0), r.alloc(4*mib, 0)
	r.free(a)
	sh, err := r.a.shardOf(r.stream(0))
	require.NoError(t, err)
	p := r.a.policy.Load()
	r.a.mu.Lock() // as on the slow path
	sh.mu.Lock()
	found := sh.take(p, largePool, 4*mib)
	sh.mu.Unlock()
	require.NoError(t, r.a.Free(b))
	sh.mu.Lock()
	h := sh.finish(p, found, 4*mib, 4*mib, journal.Site{})
	r.a.mu.Unlock()
	require.EqualValues(t, 4*mib, h.Size())
	r.check()
	r.requirePicture(
		"segment 0  20 MiB  large pool  stream 0",
		"| 4 MiB allocated | 16 MiB cached |")
}

func TestAlloc_ServedFromCacheAsksNoDriverAndAllocatesNothing(t *testing.T) {
	r := newRig(t, gib, "")
	s := r.stream(0)
	r.free(r.alloc(4096, 0), r.alloc(3*mib, 0))
	r.calls = nil
	allocs := testing.AllocsPerRun(100, func() {
		a, _ := r.a.Alloc(4096, s)
		b, _ := r.a.Alloc(3*mib, s)
		_ = r.a.Free(a)
		_ = r.a.Free(b)
	})
	if !invariants.Enabled { // else each call is followed by a check
		require.Zero(t, allocs)
	}
	require.Empty(t, r.calls)
}

// What is split off a block on the slow path merges with the block behind it, if that was freed after the block was found.
func TestAlloc_WhatIsSplitOffMergesWithWhatWasFreedMeanwhile(t *testing.T) {
	for _, conf := range []string{"", expandable} {
		for _, behind := range []bool{true, false} { // the neighbour has another block behind it
			r := newRig(t, gib, conf)
			first, next := r.alloc(19*mib/2, 0), r.alloc(4*mib, 0)
			if behind {
				r.alloc(4*mib, 0)
			} else {
				r.free(next)
				next = r.alloc(19*mib/2, 0)
			}
			r.free(first)
			sh, err := r.a.shardOf(r.stream(0))
			require.NoError(t, err)
			req := &request{policy: r.a.policy.Load(), shard: sh, kind: largePool, bytes: 5 * mib, size: 5 * mib}
			r.a.mu.Lock() // as on the slow path
			b := req.search()
			err = r.a.Free(next)
			h := req.finish(b)
			r.a.mu.Unlock()
			require.NoError(t, err)
			require.Equal(t, first.Ptr(), h.Ptr())
			require.EqualValues(t, 5*mib, h.Size())
			r.check()
			r.free(h)
		}
	}
}
