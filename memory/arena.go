package memory

import (
	"errors"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// arena is the memory of a stream's plan: one range of addresses, with pages from its beginning on, as far as the plan has come. Without virtual
// memory it is a segment. It is in no pool and not among Caching.segments: its blocks are where the plan says, not one behind the other.
type arena struct {
	seg    *segment // nil until there is a plan
	mapped uint64   // bytes from its beginning that have memory
}

// makeArena sees to it that the arena of a shard has addresses for size bytes. Without virtual memory it takes the memory, too. It
// reports whether it has them. Caller holds a.mu and no shard.
func (a *Caching) makeArena(sh *shard, size uint64) (bool, error) {
	st := sh.steps
	if seg := st.arena.seg; seg != nil && size <= seg.size {
		return true, nil
	}
	sh.mu.Lock()
	free := st.inUse() == 0
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
		a.bookArena(sh, 0, seg.size, journal.SegmentAlloc)
	}
	return true, nil
}

// mayReserve reports whether so many bytes more are within the limit. Caller holds a.mu.
func (a *Caching) mayReserve(bytes uint64) bool {
	return uint64(a.dev.ReservedBytes.All.Current)+a.underway+bytes <= a.limit.Load()
}

// bookArena changes how much memory an arena has. Caller holds a.mu and the shard.
func (a *Caching) bookArena(sh *shard, from, to uint64, act journal.Action) {
	ar := &sh.steps.arena
	ar.mapped = to
	a.countReserved(sh, largePool, int64(to)-int64(from))
	at, bytes := from, to-from
	if to < from {
		at, bytes = to, from-to
	}
	sh.noteSegment(act, ar.seg, ar.seg.ptr.Add(at), bytes, a.behalf)
}

// extendArena puts memory behind the first end bytes of an arena, for a block of size bytes, if it can be had. What the step before had of the caches goes first: the plan is in
// its place. No lock is held.
func (a *Caching) extendArena(sh *shard, end, size uint64) error {
	site := a.allocSite()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.behalf = site
	return a.growArena(sh, end, size)
}

// growArena is extendArena. Caller holds a.mu and no shard.
func (a *Caching) growArena(sh *shard, end, size uint64) error {
	ar := &sh.steps.arena
	if ar.seg == nil || ar.seg.vm == nil || a.closed.Load() || a.inCapture() {
		return nil
	}
	sh.mu.Lock()
	mapped := ar.mapped
	sh.mu.Unlock()
	if end = roundUp(end, ar.seg.vm.page); end <= mapped {
		return nil
	}
	need := end - mapped
	if err := a.makeRoom(sh, need, size, mapped == 0); err != nil {
		return err
	}
	if !a.mayReserve(need) || a.growsTooFar(sh, need, size) {
		return nil
	}
	// The shard need not be locked for the call: nobody has these addresses.
	err := ar.seg.vm.driver.Map(ar.seg.ptr.Add(mapped), need, ar.seg.vm.page)
	if errors.Is(err, device.ErrOutOfMemory) {
		return nil
	}
	if err != nil {
		return err
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a.dev.NumDeviceAlloc++
	a.bookArena(sh, mapped, end, journal.SegmentMap)
	return nil
}

// farAbove is how much more than the bound of compaction an arena may have mapped for a block near its end, as a part of the most that was in use: all pages up to the block are.
const farAbove = 0.04

// growsTooFar reports whether more is reserved than with compaction there should be if an arena grows by need bytes, for a block of size, and most of that is not for the block, or much in the step
// was not as expected: then the request is the caching allocator's, which takes what the plan does not use. Caller holds a.mu and no shard.
func (a *Caching) growsTooFar(sh *shard, need, size uint64) bool {
	p := a.policy.Load()
	if p.compaction == 0 || !p.expandable || a.above(p, need, size) == 0 {
		return false
	}
	page := movingPage(a.driver.(VirtualDriver))
	block := roundUp(size, page)
	if need > 4*block+page && float64(a.allAbove(p, need, size)) > farAbove*float64(a.allocatedPeak()) {
		return true
	}
	sh.mu.Lock()
	astray := (sh.steps.missed+sh.steps.refused)*trust > sh.steps.next
	sh.mu.Unlock()
	return astray && (need > block+page || a.unusedByPlan(sh) >= page)
}

// gapFor finds a place for a block that the plan has not made for it, in the arena and in what is borrowed, before the driver is asked for more: a step
// that goes another way, or whose blocks are where those of the last one are, leaves them empty. It is the smallest gap between what is in use now. What the
// plan expects later may find it taken, and is served in the same way; so that a small one in the middle does not keep large ones from their places, size
// must be more than a least one. Of a block that is expected to be free when the step has had so many requests until is their number, and nothing is in its way before. Caller holds a.mu and no shard.
func (sh *shard) gapFor(size, least uint64, until int32) *block {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st := sh.steps
	if st == nil || size <= least && !st.strayed() {
		return nil
	}
	best := gap{size: unlimited}
	live := st.liveUntil(until)
	if st.arena.mapped >= size {
		best.look(live, st.arena.seg, nil, st.arena.seg.ptr, st.arena.mapped, size)
	}
	for _, b := range st.lent {
		if b.size >= size && !st.stitched(b) {
			best.look(live, b.seg, b, b.ptr, b.size, size)
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
func (g *gap) look(live []*block, seg *segment, home *block, from device.Ptr, bytes, size uint64) {
	at, end := from, from.Add(bytes)
	try := func(to device.Ptr) {
		if at < to && uint64(to-at) >= size && uint64(to-at) < g.size {
			*g = gap{seg, home, at, uint64(to - at)}
		}
	}
	for _, b := range live {
		if b.ptr >= from && b.ptr < end {
			try(b.ptr)
			at = max(at, b.ptr.Add(b.size))
		}
	}
	try(end)
}

// reclaimArena takes pages from the arena of a stream whose step does not follow its plan, before the driver is asked for more. Caller holds a.mu and
// no shard.
func (a *Caching) reclaimArena(r *request) error {
	sh := r.shard
	if sh.steps == nil {
		return nil
	}
	sh.mu.Lock()
	idle := sh.steps.unfollowed() && sh.steps.arena.mapped != 0
	sh.mu.Unlock()
	if !idle || a.beyond(r) {
		return nil
	}
	gone, err := a.trimArena(sh, r.policy.segmentSize(r.size))
	if gone != 0 {
		sh.mu.Lock()
		sh.steps.seized = true
		sh.mu.Unlock()
	}
	return err
}

// besideArenas is for a request for which there is no memory although all caches are given back: arenas take what segments of usual sizes would have
// had. It serves r from a gap of the arena, from one at its end, or from a segment that is no larger than it must be, and at last from what plans have. Caller holds a.mu and no shard.
func (a *Caching) besideArenas(r *request) (*block, error) {
	if a.plan == nil || a.beyond(r) {
		return nil, nil
	}
	if b := r.shard.gapFor(r.size, 0, 0); b != nil {
		return b, nil
	}
	// An arena has small pages, where those of expandable segments are as large as a segment.
	if sh := r.shard; sh.steps != nil && sh.steps.arena.seg != nil {
		if end := sh.steps.arena.mapped + r.size; end <= sh.steps.arena.seg.size {
			if err := a.growArena(sh, end, r.size); err != nil {
				return nil, err
			}
			if b := sh.gapFor(r.size, 0, 0); b != nil {
				return b, nil
			}
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

// makeRoom gives what is cached back for an arena that grows by need bytes, for a block of size: with compaction just what is above the bound, then also of
// what other arenas do not use now; else everything, when it begins.
// Caller holds a.mu and no shard.
func (a *Caching) makeRoom(sh *shard, need, size uint64, begins bool) error {
	p := a.policy.Load()
	if p.compaction == 0 || !p.expandable {
		if !begins && a.mayReserve(need) {
			return nil
		}
		return errors.Join(a.syncEvents(), a.releasePool(nil))
	}
	return a.returnPages(a.donors(nil, sh), sh, a.allAbove(p, need, size))
}

// trimArenas gives the memory behind the last planned block in use back, in all arenas. Caller holds a.mu and no shard.
func (a *Caching) trimArenas() error {
	var errs []error
	for _, sh := range *a.shards.Load() {
		if sh.steps != nil {
			sh.mu.Lock()
			errs = append(errs, a.takeBack(sh))
			sh.mu.Unlock()
			_, err := a.trimArena(sh, unlimited)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// trimArena is trim for an arena: from its end, most bytes and no more. Caller holds a.mu and no shard.
func (a *Caching) trimArena(sh *shard, most uint64) (uint64, error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ar := &sh.steps.arena
	if ar.mapped == 0 || ar.seg.vm == nil || a.inCapture() {
		return 0, nil
	}
	page := ar.seg.vm.page
	keep := roundUp(sh.steps.inUse(), page)
	if over := ar.mapped - keep; over > most {
		keep = ar.mapped - min(roundUp(most, page), over)
	}
	if keep == ar.mapped {
		return 0, nil
	}
	if err := a.waitFor(sh); err != nil {
		return 0, err
	}
	// From the end: what is unmapped when the driver refuses one is still the last.
	var failed error
	now := ar.mapped
	for now > keep && failed == nil {
		if failed = ar.seg.vm.driver.Unmap(ar.seg.ptr.Add(now-page), page); failed == nil {
			now -= page
		}
	}
	gone := ar.mapped - now
	if gone != 0 {
		a.dev.NumDeviceFree++
		a.bookArena(sh, ar.mapped, now, journal.SegmentUnmap)
	}
	return gone, failed
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
	mapped, seg := ar.mapped, ar.seg
	if seg == nil {
		return nil
	}
	var errs []error
	if seg.vm == nil {
		a.bookArena(sh, mapped, 0, journal.SegmentFree)
		errs = append(errs, a.driver.Free(seg.ptr))
	} else {
		if mapped != 0 {
			_, err := seg.vm.unmap(seg.ptr, seg.ptr.Add(mapped))
			errs = append(errs, err)
			a.bookArena(sh, mapped, 0, journal.SegmentUnmap)
		}
		errs = append(errs, seg.vm.driver.Unreserve(seg.ptr))
	}
	if mapped != 0 {
		a.dev.NumDeviceFree++
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
	if st.arena.mapped == 0 {
		return list
	}
	seg := st.arena.seg
	l := segmentLayout{number: seg.reg, ptr: seg.ptr, size: seg.size, kind: seg.kind, expandable: seg.vm != nil, stream: st.sh.id()}
	l.blocks = st.pieces(seg.ptr, st.arena.mapped)
	if rest := seg.size - st.arena.mapped; rest != 0 {
		l.blocks = append(l.blocks, blockLayout{ptr: seg.ptr.Add(st.arena.mapped), size: rest, state: stateUnmapped})
	}
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
