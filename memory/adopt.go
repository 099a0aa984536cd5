package memory

import (
	"errors"
	"slices"

	"github.com/cistern-ml/cistern/device"
)

// A plan keeps memory where its blocks will be, also while they are not there: pages between blocks in use, and borrowed blocks. A request that would fail without them
// must have them. So the plan gives everything up, in the middle of a step: its arena becomes a segment like others, and what it has handed out blocks like others, at
// the addresses where they are. What is free between them is the caching allocator's then, and can go back to the driver.

// adopt takes all that plans have into the caching allocator, and gives back what nobody uses. It reports whether there was anything. Caller holds a.mu and no shard.
func (a *Caching) adopt() (bool, error) {
	if a.inCapture() {
		return false, nil
	}
	some := false
	var errs []error
	for _, sh := range *a.shards.Load() {
		if sh.steps == nil || sh.pool != nil || sh.steps.arena.memory.bytes == 0 && len(sh.steps.lent) == 0 {
			continue
		}
		some = true
		errs = append(errs, a.adoptFrom(sh, true))
	}
	if some {
		errs = append(errs, a.releaseBeside())
	}
	return some, errors.Join(errs...)
}

// adoptFrom is adopt for the plan of a stream, which waits some steps if it is to, before it has new places. Of what is stitched together in use the pages stay in which blocks are, and those between.
func (a *Caching) adoptFrom(sh *shard, waits bool) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st := sh.steps
	st.leave()
	live := st.live()
	used := map[*block]bool{}
	for _, b := range live {
		used[b.slot.home] = true
	}
	err := a.dropStitches(sh, func(b *block) bool { return used[b] })
	for _, s := range st.stitches {
		if used[s.b] {
			err = errors.Join(err, a.shorten(sh, s, live))
		}
	}
	if st.arena.memory.bytes != 0 {
		a.adoptArena(sh, live)
	}
	var kept []*block
	for _, home := range st.lent {
		switch {
		case st.stitched(home) || st.stitchOf(home) != nil:
			kept = append(kept, home)
		case !used[home]:
			home.state = stateSpare
			sh.rejoinFree(home)
		default:
			sh.adoptBorrowed(home, live)
		}
	}
	st.lent = kept
	st.left = slices.DeleteFunc(st.left, func(b *block) bool { return b.slot == nil })
	st.forgetPlaces()
	if st.strays++; waits || st.strays > freeTries { // some programs always go another way
		st.adopted.again(true)
	}
	return err
}

// adoptArena makes the arena of a shard a segment. Caller holds a.mu and the shard.
func (a *Caching) adoptArena(sh *shard, live []*block) {
	seg, parts := sh.steps.arena.seg, sh.steps.arena.memory.list
	sh.steps.arena = arena{}
	seg.place = len(a.segments)
	a.segments = append(a.segments, seg)
	var last *block
	var free []*block
	at := uint64(0)
	unmapped := func(to uint64) { // of a range of addresses
		if at < to {
			b := sh.pieceOf(seg, seg.ptr.Add(at), to-at)
			b.link(&last)
			sh.unmap(b)
		}
	}
	for _, r := range parts {
		unmapped(r.from)
		free = append(free, sh.adoptPieces(seg, seg.ptr.Add(r.from), r.size(), live, nil, &last)...)
		at = r.to
	}
	unmapped(seg.size)
	seg.head = first(last)
	if seg.vm == nil {
		a.dev.Segment.All.increase(1)
		a.dev.Segment.pool(seg.kind).increase(1)
		if seg.size >= a.policy.Load().maxSplit {
			a.dev.OversizeSegments.increase(1)
		}
	}
	sh.cacheAdopted(seg, free, 0, 0)
}

// adoptBorrowed makes what was handed out of a borrowed block pieces of its segment. Caller holds the shard.
func (sh *shard) adoptBorrowed(home *block, live []*block) {
	seg, before, after := home.seg, home.prev, home.next
	last := before
	free := sh.adoptPieces(seg, home.ptr, home.size, live, home, &last)
	if before == nil {
		seg.head = first(last)
	}
	last.next = after
	if after != nil {
		after.prev = last
	}
	count, bytes := int64(0), int64(0)
	if before != nil || after != nil { // it counted as an inactive split
		count, bytes = 1, int64(home.size)
	}
	sh.follow(home, last)
	sh.recycle(home)
	sh.cacheAdopted(seg, free, count, bytes)
}

// adoptPieces links what lies at so many addresses of a segment behind last: planned blocks in use, which are planned no more, and free ones, which it returns: they are
// in no index.
func (sh *shard) adoptPieces(seg *segment, at device.Ptr, bytes uint64, live []*block, home *block, last **block) (free []*block) {
	end := at.Add(bytes)
	gap := func(to device.Ptr) {
		if at < to {
			b := sh.pieceOf(seg, at, uint64(to-at))
			b.link(last)
			free = append(free, b)
		}
	}
	for _, b := range live {
		if b.slot == nil || b.slot.home != home || b.ptr < at || b.ptr >= end {
			continue
		}
		gap(b.ptr)
		b.slot = nil
		b.link(last)
		at = b.ptr.Add(b.size)
	}
	gap(end)
	return free
}

// cacheAdopted puts free pieces of a segment into the index. They are inactive splits, in place of what counted as some before, also where there are none.
func (sh *shard) cacheAdopted(seg *segment, free []*block, count, bytes int64) {
	count, bytes = -count, -bytes
	for _, b := range free {
		if !b.whole() {
			count, bytes = count+1, bytes+int64(b.size)
		}
	}
	if seg.vm == nil {
		sh.adjust(seg.kind, hotInactiveSplit, count)
		sh.adjust(seg.kind, hotInactiveSplitBytes, bytes)
	}
	for _, b := range free {
		sh.rejoinFree(b)
	}
}

// pieceOf makes a block of a part of a segment, in no state yet.
func (sh *shard) pieceOf(seg *segment, ptr device.Ptr, size uint64) *block {
	b := sh.newBlock()
	b.size, b.ptr, b.reg, b.kind, b.seg = size, ptr, seg.reg, seg.kind, seg
	return b
}

// link puts a block behind the last one of its segment so far.
func (b *block) link(last **block) {
	b.prev, b.next = *last, nil
	if *last != nil {
		(*last).next = b
	}
	*last = b
}

// first is the first block of a segment.
func first(b *block) *block {
	for b.prev != nil {
		b = b.prev
	}
	return b
}
