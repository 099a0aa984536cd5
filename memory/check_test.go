package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
)

// checkRig has one of everything: | a, held | b, pending | c, held | cached |, a range with a page, and a private pool.
type checkRig struct {
	a             *Caching
	held, pending *block
	cached        *block
	page          *block // held, in an expandable segment; the block behind it is cached, and the next unmapped
	pool          *Pool
}

func newCheckRig(t *testing.T) *checkRig {
	dev := sim.New(gib, sim.ManualStreams())
	a, err := New(dev, Config{})
	require.NoError(t, err)
	alloc := func(from Allocator, bytes uint64) Block {
		b, err := from.Alloc(bytes, dev.Stream(1))
		require.NoError(t, err)
		return b
	}
	r := &checkRig{a: a, pool: a.NewPool()}
	held, pending := alloc(a, 4*mib), alloc(a, 4*mib)
	r.held, r.pending = held.b, pending.b
	r.cached = alloc(a, 4*mib).b.next
	require.NoError(t, a.RecordStream(pending, dev.Stream(2)))
	require.NoError(t, a.Free(pending))
	alloc(r.pool, 512)
	require.NoError(t, a.SetConfig(Config{ExpandableSegments: true}))
	r.page = alloc(a, 15*mib).b
	require.NoError(t, a.check())
	return r
}

// Each invariant is broken in turn, and the check must say which it is: one that finds nothing would prove nothing.
func TestCheck_FindsEachBrokenInvariant(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*checkRig)
		want  string
	}{
		{"a gap between blocks", func(r *checkRig) { r.held.size, r.held.requested = r.held.size-512, 0 }, "expected"},
		{"a segment that is not filled", func(r *checkRig) { r.held.seg.size += 512 }, "its blocks end at"},
		{"a size that is no multiple", func(r *checkRig) { r.held.size++ }, "size 4194305"},
		{"a broken link", func(r *checkRig) { r.pending.prev = nil }, "prev is not the block before it"},
		{"a block of another segment", func(r *checkRig) { r.held.reg++ }, "does not belong to its segment"},
		{"neighbours that should have merged", func(r *checkRig) {
			r.cached.prev.state, r.cached.prev.requested = stateCached, 0
		}, "neighbours, both cached"},
		{"a spare block in a segment", func(r *checkRig) { r.held.state = stateSpare }, "state spare inside a segment"},
		{"a cached block with a request", func(r *checkRig) { r.cached.requested = 7 }, "7 requested"},
		{"a block smaller than its request", func(r *checkRig) { r.held.requested = 5 * mib }, "5242880 bytes requested of 4194304"},
		{"an event too many", func(r *checkRig) { r.pending.events++ }, "waits for 2 events, 1 are queued"},
		{"an event for a block in use", func(r *checkRig) {
			r.pending.state, r.pending.events = stateAllocated, 0
		}, "events are queued, but it is not pending"},
		{"a block in use in the index", func(r *checkRig) { r.cached.state = stateAllocated }, "which is not a cached block of it"},
		{"a cached block outside the index", func(r *checkRig) { r.cached.shard.pools[largePool].remove(r.cached) }, "is in no index"},
		{"a count of the index", func(r *checkRig) { r.cached.shard.pools[largePool].count++ }, "large index counts"},
		{"an unmapped block outside its list", func(r *checkRig) { r.page.shard.unmapped[largePool] = nil }, "is in no list"},
		{"a mapped block in that list", func(r *checkRig) {
			r.page.shard.unmapped[largePool] = append(r.page.shard.unmapped[largePool], r.page)
		}, "is listed as unmapped and is not"},
		{"a statistic of a shard", func(r *checkRig) {
			r.held.shard.tally.pool[largePool].current[hotPending]--
		}, "active of the large pool is 3, the blocks add up to 4"},
		{"reserved bytes", func(r *checkRig) { r.a.dev.ReservedBytes.LargePool.Current++ }, "reserved_bytes of the large pool"},
		{"the number of segments", func(r *checkRig) { r.a.dev.Segment.SmallPool.Current++ }, "segment of the small pool is 2"},
		{"the bytes of a private pool", func(r *checkRig) {
			r.pool.reserved.All.Current = 0
		}, "pool [0 1] reserves 0 bytes, its segments add up to 2097152"},
		{"a lease above the peak", func(r *checkRig) { r.held.shard.tally.lease[hotActive] += 100 }, "above the peak"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newCheckRig(t)
			c.spoil(r)
			require.ErrorContains(t, r.a.check(), c.want)
		})
	}
}

func TestPicture_WritesSizesExactly(t *testing.T) {
	for n, want := range map[uint64]string{
		512: "512 B", 1024: "1 KiB", 1536: "1.5 KiB", 512 * kib: "512 KiB", mib: "1 MiB", mib + 512*kib: "1.5 MiB",
		mib + 512: "1024.5 KiB", 20 * mib: "20 MiB", 3 * gib: "3072 MiB",
	} {
		require.Equal(t, want, pictureBytes(n))
	}
}
