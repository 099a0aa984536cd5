package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// test_mempool_empty_cache: graphs keep the addresses of a live pool, so its memory stays although nobody uses it.
func TestPool_KeepsItsMemoryWhileItLives(t *testing.T) {
	r := newRig(t, 100*mib, "")
	p := r.a.NewPool()
	r.free(r.allocIn(p, 40*mib, 0))
	r.empty()
	require.EqualValues(t, 40*mib, r.reserved())
	_, err := r.tryAlloc(70*mib, 0)
	requireOOM(t, err, ErrDeviceFull)
	require.EqualValues(t, 40*mib, r.reserved(), "not under pressure either")
	require.NoError(t, p.EmptyCache())
	require.Zero(t, r.reserved(), "its owner may")
	r.alloc(70*mib, 0)
}

func TestPool_ReleasedOnesAreEmptiedUnderPressure(t *testing.T) {
	r := newRig(t, 100*mib, "")
	p := r.a.NewPool()
	held := r.allocIn(p, 20*mib, 0)
	r.free(r.allocIn(p, 40*mib, 0))
	require.NoError(t, p.Release())
	r.alloc(70*mib, 0)
	require.EqualValues(t, 90*mib, r.reserved())
	require.Contains(t, r.a.Stats().ReservedBytesByPrivatePools, p.ID())
	r.free(held) // blocks in use stay valid
	r.empty()
	require.EqualValues(t, 70*mib, r.reserved())
	s := r.a.Stats()
	require.Equal(t, Stat{Peak: 60 * mib, Allocated: 60 * mib, Freed: 60 * mib}, s.ReservedBytesByPrivatePools[p.ID()].All,
		"the entry of a pool that is gone stays")
	require.EqualValues(t, 3, s.Allocation.All.Allocated, "as does what its shards counted")
	require.EqualValues(t, 2, s.Allocation.All.Freed)
	r.check()
}

// test_mempool_limited_memory_with_allocator.
func TestPool_LimitCountsThePoolOnly(t *testing.T) {
	r := newRig(t, gib, "")
	r.alloc(100*mib, 0)
	p := r.a.NewPool(PoolLimit(50 * mib))
	r.allocIn(p, 40*mib, 0)
	_, err := p.Alloc(20*mib, r.stream(0))
	oom := requireOOM(t, err, ErrLimit)
	require.True(t, oom.LimitHit)
	require.EqualValues(t, 50*mib, oom.Limit, "the limit that was hit")
	require.Equal(t, "The pool has a limit of its own: a PoolLimit of 60.00 MiB would have been enough for this allocation. What follows may need more.", oom.Hint)
	r.alloc(20*mib, 0)
}

// A pool gives to the default pools only if it opted in, only when the device is full, and only on the same stream.
func TestPool_UseOnOOM(t *testing.T) {
	r := newRig(t, 100*mib, "")
	selfish, generous := r.a.NewPool(), r.a.NewPool(PoolUseOnOOM())
	r.free(r.allocIn(selfish, 30*mib, 0))
	lent := r.allocIn(generous, 40*mib, 0)
	r.free(lent)
	r.alloc(20*mib, 0)
	require.NotEqual(t, lent.Ptr(), r.alloc(10*mib, 0).Ptr(), "the device had it")
	_, err := r.tryAlloc(35*mib, 1)
	requireOOM(t, err, ErrDeviceFull)
	b := r.alloc(35*mib, 0)
	require.Equal(t, lent.Ptr(), b.Ptr())
	r.free(b)
	require.Equal(t, lent.Ptr(), r.allocIn(generous, 40*mib, 0).Ptr(), "it went back to its pool")
	r.check()
}

func TestPool_ReleasedOnesDoNotHelpOut(t *testing.T) {
	r := newRig(t, 100*mib, "")
	p := r.a.NewPool(PoolUseOnOOM())
	held := r.allocIn(p, 5*mib, 0) // keeps its segment
	r.free(r.allocIn(p, 8*mib, 0))
	require.NoError(t, p.Release())
	r.alloc(80*mib, 0)
	_, err := r.tryAlloc(8*mib, 0)
	requireOOM(t, err, ErrDeviceFull)
	r.free(held)
}

func TestPool_OOMTellsWhatOtherPoolsCache(t *testing.T) {
	r := newRig(t, 64*mib, "")
	p := r.a.NewPool()
	r.free(r.allocIn(p, 50*mib, 0))
	var oom *OOMError
	_, err := r.tryAlloc(30*mib, 0)
	require.ErrorAs(t, err, &oom)
	require.EqualValues(t, 50*mib, oom.CachedPools)
	require.Zero(t, oom.CachedOthers, "there is one stream")
	require.ErrorContains(t, err, "; 50.00 MiB is cached in other memory pools.")
	require.Contains(t, oom.Hint, "Pool.EmptyCache", "and nothing of pieces")
	require.NoError(t, p.EmptyCache())
	r.alloc(30*mib, 0)
}

// Pages that a pool keeps are given back as whole segments are: to others, and to the pool itself.
func TestPool_OOMTellsOfPagesThatPoolsKeep(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True"} {
		r := newRig(t, 100*mib, conf)
		p := r.a.NewPool()
		r.allocIn(p, 40*mib, 0)
		r.free(r.allocIn(p, 40*mib, 0))
		_, err := r.tryAlloc(50*mib, 0)
		oom := requireOOM(t, err, ErrDeviceFull)
		require.Equal(t, "Private pools keep 40.00 MiB that nobody uses: Pool.EmptyCache gives it back, which makes room for this request.", oom.Hint, conf)
		require.NoError(t, p.EmptyCache())
		r.alloc(50*mib, 0)
	}
}

// What a pool itself keeps counts against its limit. A limit that serves the request beside it is named too, unless the device has less.
func TestPool_OOMTellsOfWhatThePoolItselfKeeps(t *testing.T) {
	for _, c := range []struct {
		conf     string
		capacity uint64
		enough   uint64
	}{{"", 110 * mib, 0}, {"", 130 * mib, 120 * mib}, {"expandable_segments:True", 110 * mib, 0}, {"expandable_segments:True", 130 * mib, 120 * mib}} {
		r := newRig(t, c.capacity, c.conf)
		p := r.a.NewPool(PoolLimit(90 * mib))
		r.free(r.allocIn(p, 40*mib, 0))
		_, err := p.Alloc(80*mib, r.stream(0))
		oom := requireOOM(t, err, ErrLimit)
		require.Contains(t, oom.Hint, "The pool keeps 40.00 MiB that nobody uses: Pool.EmptyCache gives it back, which makes room for this request.", c)
		require.Equal(t, c.enough, oom.EnoughLimit, oom.Hint)
		require.NoError(t, p.EmptyCache())
		r.allocIn(p, 80*mib, 0)
	}
}
