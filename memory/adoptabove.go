package memory

// adoptAbove is for a request for which need bytes more are reserved than compaction allows, although all caches have given what they have, and arenas their free pages, where the step may take those:
// what lies between the blocks of a plan that are in use serves it, whole pages or not. The plan of r's stream gives up its places, which the next steps get anew. The block is in no index, and nil if
// pages are to be mapped for r. Caller holds a.mu and no shard.
func (a *Caching) adoptAbove(d VirtualDriver, r *request, need uint64) (*block, error) {
	if r.shard.pool != nil || a.unusedByPlan(r.shard) < a.worthAdopting(r.shard, need) || a.beyond(r) {
		return nil, nil
	}
	// What comes after a step that went another way is not like it, and a program of one step not like that.
	waits := r.shard.goesBy(func(st *steps) bool { return !st.strayed() && st.program.proven })
	if err := a.adoptFrom(r.shard, waits); err != nil {
		return nil, err
	}
	if b := r.search(); b != nil {
		return b, nil
	}
	grown, _ := a.growth(d, r)
	return nil, a.returnPages(a.donorsFor(grown, r), nil, a.affordable(r.policy, a.excess(d, r), movingPage(d)))
}

// worthAdopting is how much a plan must have that is not in use, so that it gives up its places for need bytes. In a step that does not go by them any more it always does: between its blocks are
// gaps that are too small to be whole pages. Caller holds a.mu and no shard.
func (a *Caching) worthAdopting(sh *shard, need uint64) uint64 {
	if sh.steps == nil {
		return unlimited
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st := sh.steps
	switch {
	case st.arena.memory.bytes == 0 && len(st.lent) == 0:
		return unlimited
	case st.program != nil && !st.strayed():
		return need
	}
	return 0
}

// unusedByPlan is how many bytes of whole pages a plan has that none of its blocks in use has a part of. Caller holds a.mu and no shard.
func (a *Caching) unusedByPlan(sh *shard) (bytes uint64) {
	if sh.steps == nil {
		return 0
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st := sh.steps
	live := st.live()
	for _, r := range st.unused(live) {
		bytes += r.size()
	}
	for _, b := range st.lent {
		if b.expandable() && !st.stitched(b) {
			at := uint64(b.ptr - b.seg.ptr)
			for _, r := range gapsBetween(live, b.seg, b, run{at, at + b.size}) {
				bytes += r.pages(b.seg.vm.page).size()
			}
		}
	}
	return bytes
}

// unused are the parts of the arena, in whole pages, of which none of the blocks in use, live, has anything, by address. Caller holds the shard.
func (st *steps) unused(live []*block) (list []run) {
	ar := &st.arena
	if ar.memory.bytes == 0 || ar.seg.vm == nil {
		return nil
	}
	for _, part := range ar.memory.list {
		for _, r := range gapsBetween(live, ar.seg, nil, part) {
			if r = r.pages(ar.seg.vm.page); r.from < r.to {
				list = append(list, r)
			}
		}
	}
	return list
}

// gapsBetween is what lies between blocks, which are by address, in a part of an arena or of a borrowed block, whose addresses count from the beginning of the segment.
func gapsBetween(blocks []*block, seg *segment, home *block, part run) (list []run) {
	at := part.from
	gap := func(to uint64) {
		if at < to {
			list = append(list, run{at, to})
		}
	}
	for _, b := range blocks {
		if b.slot.home != home || b.seg != seg {
			continue
		}
		if from := uint64(b.ptr - seg.ptr); from >= part.from && from < part.to {
			gap(from)
			at = max(at, from+b.size) // places of other times overlap
		}
	}
	gap(part.to)
	return list
}
