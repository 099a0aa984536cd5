package memory

import (
	"fmt"

	"github.com/cistern-ml/cistern/device"
)

// check proves the invariants of doc.go, or says which one does not hold. Unit tests call it after each step, fuzzing after
// each operation, and builds with the tag "invariants" after public calls. No lock is held.
func (a *Caching) check() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err := a.checkLocked()
	return err
}

// checkLocked is check for callers that hold a.mu and no other lock. It also returns how many blocks there are.
func (a *Caching) checkLocked() (blocks int64, err error) {
	a.events.mu.Lock()
	defer a.events.mu.Unlock()
	a.peaks.mu.Lock()
	defer a.peaks.mu.Unlock()
	shards := a.lockShards()
	defer unlockShards(shards)

	c := checker{cached: map[*block]bool{}, unmapped: map[*block]bool{}, pending: map[*block]int32{}, private: map[*Pool]int64{}}
	for _, seg := range a.segments {
		c.segment(seg)
	}
	for _, sh := range shards {
		c.plan(sh)
	}
	c.eventCounts(a)
	for _, sh := range shards {
		c.indices(sh)
	}
	c.sums(a, shards)
	for k := range c.count {
		for _, n := range c.count[k] {
			blocks += n
		}
	}
	return blocks, c.err
}

// checker collects what the walk over all segments finds, and keeps the first contradiction.
type checker struct {
	err      error
	cached   map[*block]bool
	unmapped map[*block]bool
	pending  map[*block]int32
	bytes    [poolKinds][blockStates]int64 // by state
	count    [poolKinds][blockStates]int64
	splits   [poolKinds]struct{ n, bytes int64 }
	asked    [poolKinds]int64
	total    [poolKinds]int64
	plain    [poolKinds]int64 // segments that are not expandable
	private  map[*Pool]int64  // bytes reserved by private pools
}

func (c *checker) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("memory: invariant broken: "+format, args...)
	}
}

// segment: its blocks follow each other without gap or overlap and fill it, and no two neighbours are both cached.
func (c *checker) segment(seg *segment) {
	at := seg.ptr
	var prev *block
	for b := seg.head; b != nil; prev, b = b, b.next {
		switch {
		case b.prev != prev:
			c.fail("block %#x: prev is not the block before it", b.ptr)
		case b.ptr != at:
			c.fail("segment %#x: block at %#x, expected %#x", seg.ptr, b.ptr, at)
		case b.size == 0 || b.size%minBlock != 0:
			c.fail("block %#x: size %d", b.ptr, b.size)
		case b.seg != seg || b.shard != seg.shard || b.kind != seg.kind || b.reg != seg.reg:
			c.fail("block %#x: does not belong to its segment", b.ptr)
		case prev != nil && prev.state == b.state && (b.state == stateCached || b.state == stateUnmapped):
			c.fail("blocks %#x and %#x: neighbours, both %s", prev.ptr, b.ptr, b.state)
		}
		if c.err != nil {
			return
		}
		c.block(b)
		at = at.Add(b.size)
	}
	if at != seg.ptr.Add(seg.size) {
		c.fail("segment %#x of %d bytes: its blocks end at %#x", seg.ptr, seg.size, at)
	}
	if seg.vm == nil {
		c.reserve(seg, seg.size)
		c.plain[seg.kind]++
	}
}

// plan: what is handed out of a plan's arena does not overlap, and lies where there is memory.
func (c *checker) plan(sh *shard) {
	if sh.steps == nil {
		return
	}
	ar := &sh.steps.arena
	var at device.Ptr
	for _, b := range sh.steps.live() {
		var from, to device.Ptr
		if h := b.slot.home; h != nil && h.state == stateLent && !sh.steps.stitched(h) {
			from, to = h.ptr, h.ptr.Add(h.size)
		} else if h == nil && ar.seg != nil {
			if at := uint64(b.ptr - ar.seg.ptr); ar.memory.has(at, at+b.size) {
				from, to = b.ptr, b.ptr.Add(b.size)
			}
		}
		if b.ptr < max(at, from) || b.ptr.Add(b.size) > to || b.shard != sh {
			c.fail("planned block %#x of %d bytes: overlaps another one, or lies outside of its memory from %#x to %#x", b.ptr, b.size, from, to)
			return
		}
		at = b.ptr.Add(b.size)
		c.block(b)
		c.bytes[b.kind][stateLent] -= int64(b.size)
	}
	mapped := int64(ar.memory.bytes + sh.steps.stitchBytes())
	c.bytes[largePool][stateLent] += mapped
	c.total[largePool] += mapped
}

// reserve adds up what the driver gave.
func (c *checker) reserve(seg *segment, bytes uint64) {
	c.total[seg.kind] += int64(bytes)
	c.private[seg.shard.pool] += int64(bytes)
}

func (c *checker) block(b *block) {
	c.bytes[b.kind][b.state] += int64(b.size)
	c.count[b.kind][b.state]++
	if b.slot == nil && b.expandable() && b.state != stateUnmapped {
		c.reserve(b.seg, b.size)
	}
	switch b.state {
	case stateCached, stateLent:
		if b.state == stateCached {
			c.cached[b] = true
		}
		if !b.whole() && !b.expandable() {
			c.splits[b.kind].n++
			c.splits[b.kind].bytes += int64(b.size)
		}
		if b.events != 0 || len(b.users) != 0 || b.requested != 0 {
			c.fail("cached block %#x: %d events, %d users, %d requested", b.ptr, b.events, len(b.users), b.requested)
		}
	case statePending:
		c.pending[b] = b.events
		c.asked[b.kind] += int64(b.requested)
	case stateAllocated:
		c.asked[b.kind] += int64(b.requested)
		if b.requested > b.size || b.events != 0 {
			c.fail("allocated block %#x: %d bytes requested of %d, %d events", b.ptr, b.requested, b.size, b.events)
		}
	case stateUnmapped:
		c.unmapped[b] = true
		return
	default:
		c.fail("block %#x: state %s inside a segment", b.ptr, b.state)
	}
}

// eventCounts: a pending block waits for exactly the entries that the queues have for it.
func (c *checker) eventCounts(a *Caching) {
	entries := map[*block]int32{}
	if flaw := a.events.queues.Flaw(); flaw != "" {
		c.fail("%s", flaw)
	}
	for b := range a.events.queues.All() {
		entries[b]++
	}
	for _, k := range a.events.reuse.kept {
		entries[k.block]++
	}
	for b, n := range c.pending {
		// Between the two halves of Free another goroutine may see the block before its events: then there are none.
		if entries[b] != n && entries[b] != 0 {
			c.fail("pending block %#x: waits for %d events, %d are queued", b.ptr, n, entries[b])
		}
		delete(entries, b)
	}
	for b := range entries {
		c.fail("block %#x: events are queued, but it is not pending", b.ptr)
	}
}

// indices: they hold exactly the cached blocks, in order, under truthful bitmaps.
func (c *checker) indices(sh *shard) {
	for k := range poolKinds {
		x := &sh.pools[k]
		var last *block
		n, bytes := 0, uint64(0)
		for b := range x.all {
			if !c.cached[b] || b.shard != sh || b.kind != k {
				c.fail("stream %d: %s index holds block %#x, which is not a cached block of it", sh.id(), k, b.ptr)
			}
			if last != nil && !before(last, b) {
				c.fail("stream %d: %s index out of order at block %#x", sh.id(), k, b.ptr)
			}
			delete(c.cached, b)
			last = b
			n, bytes = n+1, bytes+b.size
		}
		if n != x.count || bytes != x.bytes || x.last() != last {
			c.fail("stream %d: %s index counts %d blocks and %d bytes, holds %d and %d", sh.id(), k, x.count, x.bytes, n, bytes)
		}
		for _, b := range sh.unmapped[k] {
			if !c.unmapped[b] || b.shard != sh || b.kind != k {
				c.fail("stream %d: block %#x is listed as unmapped and is not", sh.id(), b.ptr)
			}
			delete(c.unmapped, b)
		}
		if flaw := x.flaw(); flaw != "" {
			c.fail("stream %d: %s index: %s", sh.id(), k, flaw)
		}
	}
}

// flaw says which bit of an index does not tell the truth, if any.
func (x *index) flaw() string {
	for i, l := range x.short {
		if set := x.summary[i/64]>>(i%64)&1 != 0; set != (l != nil && l.bits != 0) {
			return fmt.Sprintf("bit %d of the summary is %v", i, set)
		}
		if l != nil && !l.truthful() {
			return fmt.Sprintf("leaf %d", i)
		}
	}
	for n, root := range x.long.roots {
		if holds := root != 0 && x.long.holds(root, n-1); holds != (x.long.used>>n&1 != 0) {
			return fmt.Sprintf("keys of %d digits: %v", n, !holds)
		}
	}
	if x.long.broken {
		return "a branch of the trie"
	}
	return ""
}

// truthful reports whether the bits are those of the slots that hold something.
func (l *leaf) truthful() bool {
	for d, slot := range l.slots {
		if (l.bits>>d&1 != 0) != (slot != nil) {
			return false
		}
	}
	return true
}

// holds reports whether there is something below a node; broken is set if its bits do not say so.
func (t *trie) holds(at int32, level int) bool {
	if level == 0 {
		t.broken = t.broken || !t.leaves[at].truthful()
		return t.leaves[at].bits != 0
	}
	b := t.branches[at]
	for d, child := range b.children {
		if (b.bits>>d&1 != 0) != (child != 0 && t.holds(child, level-1)) {
			t.broken = true
		}
	}
	return b.bits != 0
}

// sums: the statistics are what the blocks add up to, and the leases on peaks hold.
func (c *checker) sums(a *Caching, shards []*shard) {
	for b := range c.cached {
		c.fail("cached block %#x is in no index", b.ptr)
	}
	for b := range c.unmapped {
		c.fail("unmapped block %#x is in no list", b.ptr)
	}
	var s Stats
	a.addHot(&s, shards)
	for k := range poolKinds {
		held, pending := c.bytes[k][stateAllocated], c.bytes[k][statePending]
		for _, want := range []struct {
			name string
			arr  *StatArray
			sum  int64
		}{
			{"allocated_bytes", &s.AllocatedBytes, held},
			{"active_bytes", &s.ActiveBytes, held + pending},
			{"allocation", &s.Allocation, c.count[k][stateAllocated]},
			{"active", &s.Active, c.count[k][stateAllocated] + c.count[k][statePending]},
			{"requested_bytes", &s.RequestedBytes, c.asked[k]},
			{"inactive_split", &s.InactiveSplit, c.splits[k].n},
			{"inactive_split_bytes", &s.InactiveSplitBytes, c.splits[k].bytes},
			{"reserved_bytes", &a.dev.ReservedBytes, c.total[k]},
			{"segment", &a.dev.Segment, c.plain[k]},
		} {
			if got := want.arr.pool(k).Current; got != want.sum {
				c.fail("%s of the %s pool is %d, the blocks add up to %d", want.name, k, got, want.sum)
			}
		}
		if free := c.bytes[k][stateCached] + c.bytes[k][stateLent]; held+pending+free != c.total[k] {
			c.fail("%s pool: allocated %d + pending %d + cached %d != reserved %d", k, held, pending, free, c.total[k])
		}
	}
	for _, p := range a.pools {
		if got := p.reserved.All.Current; got != c.private[p] {
			c.fail("pool %v reserves %d bytes, its segments add up to %d", p.id, got, c.private[p])
		}
	}
	for i := range numHot {
		var lease int64
		settled := true
		for _, sh := range shards {
			settled = settled && sh.tally.over == 0
			lease += sh.tally.lease[i]
		}
		if settled && lease > a.peaks.all[i] {
			c.fail("leases of statistic %d add up to %d, above the peak %d", i, lease, a.peaks.all[i])
		}
	}
}
