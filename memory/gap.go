package memory

import (
	"slices"

	"github.com/cistern-ml/cistern/device"
)

// What the plan of a stream does not have a place for may lie in what nobody has of its memory now.

// usesGaps reports whether a request that the plan does not serve may have a gap of its memory. It may where its block is expected to be free before the place is needed. Else it may stay, in the way
// of the steps to come: where pages move, and a step has gone by the plan before it went another way, the caching allocator takes that memory instead, see adoptAbove. Where they do not, a small block in
// the middle of a gap would keep large ones out of it, if the step goes by the plan. Caller holds a.mu and no shard.
func (r *request) usesGaps() bool {
	st := r.shard.steps
	if st == nil || r.answer.outlives || r.lends {
		return false
	}
	if r.answer.until != 0 {
		return true
	}
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	if r.policy.compaction != 0 && r.policy.expandable {
		return st.unfollowed()
	}
	return r.size > smallLimit || st.strayed()
}

// gapFor finds a place for a block that the plan has not made for it, in the arena and in what is borrowed, before the driver is asked for more: a step
// that goes another way, or whose blocks are where those of the last one are, leaves them empty. It is the smallest gap between what is in use now. What the
// plan expects later may find it taken, and is served in the same way. Of a block that is expected to be free when the step has had so many requests until is their number, and nothing is in its way
// before. Stitches, whose pages are of no use to others while there is a block in one, have such blocks only, or any as a last resort. Caller holds a.mu and no shard.
func (sh *shard) gapFor(size uint64, until int32, last bool) *block {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st := sh.steps
	if st == nil {
		return nil
	}
	best := gap{size: unlimited}
	live := st.liveUntil(until)
	for _, part := range st.arena.memory.list {
		best.look(live, st.arena.seg, nil, part, size)
	}
	for _, b := range st.lent {
		if !st.stitched(b) && (last || until != 0 || st.stitchOf(b) == nil) {
			at := uint64(b.ptr - b.seg.ptr)
			best.look(live, b.seg, b, run{at, at + b.size}, size)
		}
	}
	if best.seg == nil {
		return nil
	}
	taken := takenIn(st.epoch)
	s := &slot{size: size, home: best.home, left: true, turn: &taken}
	kind := largePool
	if best.home == nil {
		s.end = uint64(best.at-best.seg.ptr) + size
	} else {
		kind = best.home.kind
	}
	s.makeBlock(sh, best.seg, best.at, kind)
	s.b.state = stateAllocated
	i, _ := slices.BinarySearchFunc(st.left, s.b, compareAddress)
	st.left = slices.Insert(st.left, i, s.b)
	return s.b
}

// gap is what nobody has of an arena, or of a borrowed block.
type gap struct {
	seg  *segment
	home *block // nil in the arena
	at   device.Ptr
	size uint64
}

// look takes a gap of size bytes and more, between blocks in use that are by address, if it is smaller than the one that was found.
func (g *gap) look(live []*block, seg *segment, home *block, part run, size uint64) {
	if part.size() < size {
		return
	}
	for _, r := range gapsBetween(live, seg, home, part) {
		if r.size() >= size && r.size() < g.size {
			*g = gap{seg, home, seg.ptr.Add(r.from), r.size()}
		}
	}
}

// placeInArena is where in the arena so many bytes lie between blocks in use and need the fewest pages, false if there is no such place. Caller holds a.mu and no shard.
func (sh *shard) placeInArena(size uint64) (best run, ok bool) {
	if sh.steps == nil || sh.steps.arena.seg == nil || sh.steps.arena.seg.vm == nil {
		return run{}, false
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ar := &sh.steps.arena
	page, least := ar.seg.vm.page, unlimited
	try := func(gap run, from uint64) {
		if from < gap.from || from > gap.to || gap.to-from < size {
			return
		}
		need := uint64(0)
		for _, r := range ar.memory.lacks(from/page*page, roundUp(from+size, page)) {
			need += r.size()
		}
		if need < least {
			best, least = run{from, from + size}, need
		}
	}
	for _, gap := range gapsBetween(sh.steps.live(), ar.seg, nil, run{0, ar.seg.size}) {
		try(gap, gap.from)
		for _, r := range ar.memory.list {
			try(gap, r.from)
			try(gap, r.to-min(r.to, size))
		}
	}
	return best, least != unlimited
}
