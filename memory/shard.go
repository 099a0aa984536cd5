package memory

import "github.com/cistern-ml/cistern/memory/internal/journal"

import "sync/atomic"

// shard is the part of the allocator that serves one stream: its small and its large pool of cached blocks, and all segments
// made for it. A block never leaves its shard, as memory is reused on its own stream only; so one lock per stream is
// enough for everything but the driver, and streams do not wait for each other. A private pool has shards of its own. When the
// stream was closed, another one may take its place (inherit.go).
type shard struct {
	owner *Caching                // nil in the shards that only say whose blocks are whose
	other deferrer                // who that is then
	pool  *Pool                   // nil for the default pools
	bound atomic.Pointer[binding] // the stream. Read without mu; changed only when that stream is closed

	// Guards all that follows, and all blocks of the shard but their field shard. It is held for a fraction of a microsecond as a rule,
	// so who finds it taken spins first. The exceptions: snapshots, and pages being mapped or unmapped (expandable.go).
	mu    spinMutex
	log   journal.Logbook  // of the history
	pools [poolKinds]index // the cached blocks and no others
	tally tallies
	spare *block // objects to use again, linked by next. They are never given up, so handles on them stay recognisable

	unmapped [poolKinds][]*block // of expandable segments, by address

	given uint64 // bytes asked for with compaction: the clock of pending blocks
	due   uint64 // when the next pending block is due by it, or before; 0 if none is

	steps *steps // of the stream, if there is a plan

	reader *block // where a reader of a segment goes on (pieces.go); nil if there is none
}

// preferPlain is the search's rule for expandable segments; b, in one of them, is the first block that is large enough. For
// the purpose of best fit a block counts with the unmapped range behind it, so that the one at the growing end is used last.
// If the setting was switched off since, blocks of expandable segments are passed over. Both are PyTorch's rules, and so is that the
// walk ends at the first block that is no better, not at the best of all.
func (x *index) preferPlain(p *policy, b *block) *block {
	if !p.expandable {
		for b != nil && b.seg.vm != nil {
			b = x.after(b)
		}
		return b
	}
	for next := x.after(b); b.seg.vm != nil && next != nil && growable(next) < growable(b); next = x.after(b) {
		b = next
	}
	return b
}

// growable is the size of a block with the addresses behind it that could be mapped.
func growable(b *block) uint64 {
	if b.next != nil && b.next.state == stateUnmapped {
		return b.size + b.next.size
	}
	return b.size
}

// take finds the best cached block for a request of the given rounded size and removes it from the index, or returns nil.
// The block is nobody's until handOut. Caller holds sh.mu.
func (sh *shard) take(p *policy, kind poolKind, size uint64) *block {
	x := &sh.pools[kind]
	b := x.atLeast(size)
	if b != nil && b.seg.vm != nil {
		b = x.preferPlain(p, b)
	}
	if b == nil {
		return nil
	}
	// Nothing is searched on after this: a block that is too large has only larger ones behind it.
	if p.maxSplit != unlimited && p.tooLarge(b.size, size) {
		return nil
	}
	x.remove(b)
	b.state = stateAllocated // before the lock is released: a neighbour that is freed must not merge with it
	return b
}

// handOut makes b, which is in no index, the caller's: it splits what is too much off and counts the rest as allocated.
// Caller holds sh.mu.
func (sh *shard) handOut(p *policy, b *block, size, requested uint64) *block {
	// An inactive split is a cached block that is not its whole segment: free memory that cannot go back to the driver. b counted as
	// one if it was split; now it does not, but what is cut off it does. Where one becomes the other only the bytes move, so that the
	// accumulated counts are PyTorch's too.
	wasSplit := !b.whole() // before the cut, which makes it one
	k := b.kind
	t := &sh.tally
	plain := b.seg.vm == nil // pieces of expandable segments can go back to the driver, so they are not counted
	if rest := b.size - size; sh.splits(p, b, size) {
		b = sh.splitFront(b, size)
		if plain && wasSplit { // one split before, one after
			t.decrease(k, hotInactiveSplitBytes, int64(size))
		} else if plain { // a whole segment before
			t.increase(k, hotInactiveSplitBytes, int64(rest))
			t.increase(k, hotInactiveSplit, 1)
		}
	} else if plain && wasSplit {
		t.decrease(k, hotInactiveSplitBytes, int64(b.size))
		t.decrease(k, hotInactiveSplit, 1)
	}
	b.state = stateAllocated
	return sh.count(b, requested)
}

// count counts b, which is the caller's now. Caller holds sh.mu.
func (sh *shard) count(b *block, requested uint64) *block {
	b.requested = requested
	// By b's size, which is more than size where the rest was too small to be cut off.
	sh.tally.handOut(b.kind, int64(b.size), int64(requested))
	return b
}

// splits reports whether handOut splits off what is too much of b. It goes by the request's policy and not by what b is: with
// expandable_segments on, blocks of plain segments are cut as finely, as in PyTorch.
func (sh *shard) splits(p *policy, b *block, size uint64) bool {
	return p.splits(b.kind, size, b.size-size) && (!sh.noSplit() || p.force)
}

// rejoin takes the block behind b into it if that was freed between take, after which the lock was released, and now: what
// handOut splits off would else be its neighbour, both cached. b still counts as it did when it was cached. Caller holds sh.mu.
func (sh *shard) rejoin(b *block) {
	next := b.next
	if next == nil || next.state != stateCached {
		return
	}
	// Both counted as inactive splits: the statistics must be those of the one that they become, as handOut goes on from there.
	count, bytes := int64(-1), int64(0)
	if b.prev == nil && next.next == nil { // a whole segment is no inactive split
		count, bytes = -2, -int64(b.size+next.size)
	}
	sh.pools[b.kind].remove(next) // while its size is still the index's key
	sh.joinNext(b, next)
	if b.seg.vm == nil {
		sh.adjust(b.kind, hotInactiveSplit, count)
		sh.adjust(b.kind, hotInactiveSplitBytes, bytes)
	}
}

// splitFront cuts size bytes off the front of b and returns them as a new block; the rest stays b and goes into the index. The
// front, not the back: so a segment fills from its low end, and its free space stays together behind. b is in no index, because
// its size and address, which change here, are its place there.
func (sh *shard) splitFront(b *block, size uint64) *block {
	front := sh.newBlock()
	front.size, front.ptr, front.reg = size, b.ptr, b.reg
	front.kind, front.seg = b.kind, b.seg
	front.prev, front.next = b.prev, b
	if b.prev != nil {
		b.prev.next = front
	} else {
		b.seg.head = front
	}
	b.prev = front
	b.ptr = b.ptr.Add(size)
	b.size -= size
	sh.cache(b) // with an age of 0, although it was free before: as PyTorch
	return front
}

// cache puts a free block into the index. Its neighbours are not free: whoever caches merges first.
func (sh *shard) cache(b *block) {
	b.state = stateCached
	b.gcBase = sh.owner.searches[b.kind].Load() // its age is how many searches passed it by since
	sh.pools[b.kind].insert(b)
}

// release is the first half of a free: the block is no longer the caller's. Its handle becomes stale. It still is active; whether
// complete follows at once, or when streams have done their work, after suspend, the statistics of allocated memory fall now. Caller holds sh.mu.
func (sh *shard) release(b *block) {
	b.generation++
	b.traced = false // of the free before no handle asks any more; noteFree says it of this one
	c := sh.tally.of(b.kind)
	c[hotAllocation]--
	c[hotAllocatedBytes] -= int64(b.size)
}

// suspend makes a block that was released wait for the streams that use it: it is active still. Caller holds sh.mu.
func (sh *shard) suspend(b *block) {
	b.state = statePending
	sh.tally.suspend(b.kind, int64(b.size))
}

// drop takes a block that was released off the counts: nobody uses it any more. Caller holds sh.mu.
func (sh *shard) drop(b *block) {
	c := sh.tally.of(b.kind)
	c[hotRequestedBytes] -= int64(b.requested)
	if b.state == statePending {
		c[hotPending]--
		c[hotPendingBytes] -= int64(b.size)
	}
}

// complete is the second half: nobody uses the memory any more. The block merges with its free neighbours and enters the
// index. Caller holds sh.mu.
func (sh *shard) complete(b *block) {
	k := b.kind
	sh.drop(b) // by its own size: before it grows
	b.requested = 0
	if b.entry != 0 {
		if st := sh.steps; b.step == st.epoch { // nearly always
			st.ended(b)
		} else {
			st.endedLate(b)
		}
	}
	if b.slot != nil {
		sh.steps.vacate(b)
		return
	}

	// The pieces merged in were inactive splits; the result is one, unless it is the whole segment. PyTorch counts the net.
	count, bytes := sh.absorbFree(b)
	if !b.whole() {
		count, bytes = count+1, bytes+int64(b.size)
	}
	if b.seg.vm == nil {
		sh.adjust(k, hotInactiveSplit, count)
		sh.adjust(k, hotInactiveSplitBytes, bytes)
	}
	sh.cache(b)
}

// adjust moves a statistic by n, up or down.
func (sh *shard) adjust(k poolKind, i int, n int64) {
	if n > 0 {
		sh.tally.increase(k, i, n)
	} else if n < 0 {
		sh.tally.decrease(k, i, -n)
	}
}

// absorbFree merges the free neighbours of b, which is in no index, into it. It returns the change that makes to the number
// and bytes of free blocks, b not counted. One neighbour on each side is all there can be: no two cached blocks are neighbours.
//
// A segment is of one stream and one pool, so the neighbours are of this shard and its lock guards them. Pending blocks do not
// merge, because streams still use them, nor unmapped ones, because there is nothing.
func (sh *shard) absorbFree(b *block) (count, bytes int64) {
	if prev := b.prev; prev != nil && prev.state == stateCached {
		count, bytes = count-1, bytes-int64(prev.size)
		sh.pools[b.kind].remove(prev)
		sh.joinPrev(b, prev)
	}
	if next := b.next; next != nil && next.state == stateCached {
		count, bytes = count-1, bytes-int64(next.size)
		sh.pools[b.kind].remove(next)
		sh.joinNext(b, next)
	}
	return count, bytes
}

// joinPrev extends b over the block before it, which ceases to exist. Neither is in an index: sizes and addresses are keys there.
func (sh *shard) joinPrev(b, prev *block) {
	b.ptr = prev.ptr
	b.size += prev.size
	b.prev = prev.prev
	if b.prev != nil {
		b.prev.next = b
	} else {
		b.seg.head = b
	}
	sh.follow(prev, b)
	sh.recycle(prev)
}

// joinNext extends b over the block after it, which ceases to exist. Neither is in an index.
func (sh *shard) joinNext(b, next *block) {
	b.size += next.size
	b.next = next.next
	if b.next != nil {
		b.next.prev = b
	}
	sh.follow(next, b)
	sh.recycle(next)
}

// splitBack cuts b, which is in no index, after size bytes and returns the rest as a new block in no index, in the same state.
// Unlike splitFront it moves no address: b stays what it is to whoever holds it.
func (sh *shard) splitBack(b *block, size uint64) *block {
	rest := sh.newBlock()
	rest.size, rest.ptr, rest.reg = b.size-size, b.ptr.Add(size), b.reg
	rest.kind, rest.seg, rest.state = b.kind, b.seg, b.state
	rest.prev, rest.next = b, b.next
	if b.next != nil {
		b.next.prev = rest
	}
	b.next, b.size = rest, size
	return rest
}

// firstBlock makes the one block of a new segment, in no state yet: the caller hands it out, or unmaps it.
func (sh *shard) firstBlock(seg *segment) *block {
	b := sh.newBlock()
	b.size, b.ptr, b.reg, b.kind, b.seg = seg.size, seg.ptr, seg.reg, seg.kind, seg
	seg.head = b
	return b
}

// newBlock returns a block object, a used one if there is one. Its fields are zero, but for the
// generation, which goes on, and what is known of the last free.
func (sh *shard) newBlock() *block {
	b := sh.spare
	if b == nil {
		return &block{shard: sh}
	}
	sh.spare = b.next
	b.next = nil
	return b
}

// recycle puts the object of a block that no longer exists aside. Its generation is kept, so that stale handles stay stale.
func (sh *shard) recycle(b *block) {
	clear(b.users) // their room is kept, the streams need not be
	generation, freed, traced, users := b.generation, b.freed, b.traced, b.users[:0]
	b.guarded = guarded{}
	b.generation, b.freed, b.traced, b.users, b.next = generation, freed, traced, users, sh.spare
	sh.spare = b
}
