package memory

import (
	"errors"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// arena is the memory of a stream's plan: one range of addresses, with pages where the plan has had blocks. Without virtual
// memory it is a segment. It is in no pool and not among Caching.segments: its blocks are where the plan says, not one behind the other.
type arena struct {
	seg    *segment // nil until there is a plan
	memory runs     // what has memory
}

// makeArena sees to it that the arena of a shard has addresses for size bytes. Without virtual memory it takes the memory, too. It
// reports whether it has them. Caller holds a.mu and no shard.
func (a *Caching) makeArena(sh *shard, size uint64) (bool, error) {
	st := sh.steps
	if seg := st.arena.seg; seg != nil && size <= seg.size {
		return true, nil
	}
	sh.mu.Lock()
	free := !slices.ContainsFunc(st.live(), func(b *block) bool { return b.slot.home == nil })
	if free { // nobody may be given a place in the arena that goes
		st.leave()
		st.forgetPlaces()
	}
	sh.mu.Unlock()
	if !free {
		return false, nil
	}
	if err := a.dropArena(sh); err != nil {
		return false, err
	}
	p := a.policy.Load()
	seg := &segment{shard: sh, kind: largePool, reg: a.registrations}
	var err error
	if d, ok := a.driver.(VirtualDriver); ok && d.Granularity() != 0 && !sh.hasSource() {
		seg.vm = &virtualRange{driver: d, page: movingPage(d)}
		info, failed := d.MemInfo()
		if failed != nil {
			return false, failed
		}
		seg.size = roundUp(max(p.reserve.of(info.Total), size), seg.vm.page)
		seg.ptr, err = d.Reserve(seg.size)
	} else if seg.size = roundUp(size, largeRounding); a.mayReserve(seg.size) {
		seg.ptr, err = a.driver.Malloc(seg.size)
	} else {
		return false, nil
	}
	if errors.Is(err, device.ErrOutOfMemory) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	a.registrations++
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st.arena.seg = seg
	if seg.vm == nil {
		a.dev.NumDeviceAlloc++
		a.bookArena(sh, run{0, seg.size}, journal.SegmentAlloc)
	}
	return true, nil
}

// mayReserve reports whether so many bytes more are within the limit. Caller holds a.mu.
func (a *Caching) mayReserve(bytes uint64) bool {
	return uint64(a.dev.ReservedBytes.All.Current)+a.underway+bytes <= a.limit.Load()
}

// besideArenas is for a request for which there is no memory although all caches are given back: arenas take what segments of usual sizes would have
// had. It serves r from a gap of the arena, from one that is mapped for it there, or from a segment that is no larger than it must be, and at last from what plans have. Caller holds a.mu and no shard.
func (a *Caching) besideArenas(r *request) (*block, error) {
	if a.plan == nil || r.lends || a.beyond(r) {
		return nil, nil
	}
	if b := r.shard.gapFor(r.size, 0, true); b != nil {
		return b, nil
	}
	// An arena has small pages, where those of expandable segments are as large as a segment.
	if place, ok := r.shard.placeInArena(r.size); ok {
		if err := a.growArena(r.shard, place); err != nil {
			return nil, err
		}
		if b := r.shard.gapFor(r.size, 0, true); b != nil {
			return b, nil
		}
	}
	exact, usual := *r.policy, r.policy
	exact.largeSegment = min(exact.largeSegment, roundUp(r.size, largeRounding))
	r.policy, r.inPages = &exact, true
	defer func() { r.policy, r.inPages = usual, false }()
	if b, err := a.attempt(r); b != nil || err != nil {
		return b, err
	}
	if some, err := a.adopt(); !some || err != nil {
		return nil, err
	}
	if b := r.search(); b != nil {
		return b, nil
	}
	return a.attempt(r)
}

// surrenderArena gives an arena back whatever it is used for. Caller holds a.mu and no shard.
func (a *Caching) surrenderArena(sh *shard) error {
	st := sh.steps
	if st == nil {
		return nil
	}
	sh.mu.Lock()
	for _, b := range st.live() {
		if sh.log.On() && b.state == stateAllocated {
			sh.noteFree(b, a.behalf, true)
		}
		if b.state == stateAllocated {
			sh.release(b)
		}
		sh.drop(b)
		b.state, b.requested, b.entry, b.events = stateVacant, 0, 0, 0
		b.slot.left = false
		b.slot.turn.free()
	}
	st.left, st.program, st.programs, st.aside = nil, nil, nil, nil
	st.arranged++
	err := a.dropStitches(sh, func(*block) bool { return false })
	sh.mu.Unlock()
	return errors.Join(err, a.dropArena(sh))
}

// dropArena gives an arena back in which no block is in use. Caller holds a.mu and no shard.
func (a *Caching) dropArena(sh *shard) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ar := &sh.steps.arena
	seg, parts := ar.seg, slices.Clone(ar.memory.list)
	if seg == nil {
		return nil
	}
	var errs []error
	for _, r := range parts {
		if seg.vm == nil {
			errs = append(errs, a.driver.Free(seg.ptr))
			a.bookArena(sh, r, journal.SegmentFree)
		} else {
			_, err := seg.vm.unmap(seg.ptr.Add(r.from), seg.ptr.Add(r.to))
			errs = append(errs, err)
			a.bookArena(sh, r, journal.SegmentUnmap)
		}
		a.dev.NumDeviceFree++
	}
	if seg.vm != nil {
		errs = append(errs, seg.vm.driver.Unreserve(seg.ptr))
	}
	*ar = arena{}
	return errors.Join(errs...)
}

// layout copies the arena, and the stitches, as segments: the planned blocks that are in use, and what lies between them. Caller holds the shard.
func (st *steps) layout() (list []segmentLayout) {
	if st == nil {
		return nil
	}
	for _, s := range st.stitches {
		list = append(list, s.layout(st))
	}
	if st.arena.memory.bytes == 0 {
		return list
	}
	seg, at := st.arena.seg, uint64(0)
	l := segmentLayout{number: seg.reg, ptr: seg.ptr, size: seg.size, kind: seg.kind, expandable: seg.vm != nil, stream: st.sh.id()}
	unmapped := func(to uint64) {
		if at < to {
			l.blocks = append(l.blocks, blockLayout{ptr: seg.ptr.Add(at), size: to - at, state: stateUnmapped})
		}
	}
	for _, r := range st.arena.memory.list {
		unmapped(r.from)
		l.blocks = append(l.blocks, st.pieces(seg.ptr.Add(r.from), r.size())...)
		at = r.to
	}
	unmapped(seg.size)
	return append(list, l)
}

// partsOf is what a borrowed block is in a snapshot: planned blocks in use, what is free between them, and, unmapped, what belongs to a
// stitch, which tells it. Caller holds the shard.
func (st *steps) partsOf(b *block) (list []blockLayout) {
	at, end := b.ptr, b.ptr.Add(b.size)
	for _, e := range st.stitchedEnds(b) {
		if at < e.ptr() {
			list = append(list, blockLayout{ptr: at, size: uint64(e.ptr() - at), state: stateCached})
		}
		at = e.ptr().Add(e.size)
		list = append(list, blockLayout{ptr: e.ptr(), size: e.size, state: stateUnmapped})
	}
	if list == nil {
		return st.pieces(b.ptr, b.size)
	}
	if at < end {
		list = append(list, blockLayout{ptr: at, size: uint64(end - at), state: stateCached})
	}
	return list
}

// pieces are the planned blocks in use at so many addresses, and what is free between them.
func (st *steps) pieces(at device.Ptr, size uint64) (list []blockLayout) {
	end := at.Add(size)
	free := func(to device.Ptr) {
		if at < to {
			list = append(list, blockLayout{ptr: at, size: uint64(to - at), state: stateCached})
		}
	}
	for _, b := range st.live() {
		if b.ptr < at || b.ptr >= end {
			continue
		}
		free(b.ptr)
		list = append(list, blockLayout{ptr: b.ptr, size: b.size, requested: b.requested, state: b.state, events: b.events,
			stack: b.stack, generation: b.generation})
		at = b.ptr.Add(b.size)
	}
	free(end)
	return list
}
