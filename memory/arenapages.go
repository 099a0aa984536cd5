package memory

import (
	"errors"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// The pages of an arena come one by one, when a block is to be in them, and go when none is and others need them.

// bookArena notes that a part of an arena has memory now, or has none any more. Caller holds a.mu and the shard.
func (a *Caching) bookArena(sh *shard, r run, act journal.Action) {
	ar := &sh.steps.arena
	if act == journal.SegmentAlloc || act == journal.SegmentMap {
		ar.memory.add(r)
		a.countReserved(sh, largePool, int64(r.size()))
	} else {
		ar.memory.remove(r)
		a.countReserved(sh, largePool, -int64(r.size()))
	}
	sh.noteSegment(act, ar.seg, ar.seg.ptr.Add(r.from), r.size(), a.behalf)
}

// extendArena puts memory behind the bytes of an arena where a block is to be, if it can be had. What the step before had of the caches goes first: the plan is in
// its place. No lock is held.
func (a *Caching) extendArena(sh *shard, block run) error {
	site := a.allocSite()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.behalf = site
	return a.growArena(sh, block)
}

// growArena is extendArena. Caller holds a.mu and no shard.
func (a *Caching) growArena(sh *shard, block run) error {
	ar := &sh.steps.arena
	if ar.seg == nil || ar.seg.vm == nil || a.closed.Load() || a.inCapture() {
		return nil
	}
	page := ar.seg.vm.page
	sh.mu.Lock()
	parts := ar.memory.lacks(block.from/page*page, roundUp(block.to, page))
	begins := ar.memory.bytes == 0
	sh.mu.Unlock()
	need := uint64(0)
	for _, r := range parts {
		need += r.size()
	}
	if need == 0 {
		return nil
	}
	if err := a.makeRoom(sh, need, block.size(), begins); err != nil {
		return err
	}
	if !a.mayReserve(need) || a.growsAstray(sh, need, block.size()) {
		return nil
	}
	for _, r := range parts {
		if ok, err := a.mapInArena(sh, r); !ok || err != nil {
			return err
		}
	}
	return nil
}

// mapInArena maps pages of an arena. It reports false if the device is full.
func (a *Caching) mapInArena(sh *shard, r run) (bool, error) {
	seg := sh.steps.arena.seg
	// The shard need not be locked for the call: nobody has these addresses.
	err := seg.vm.driver.Map(seg.ptr.Add(r.from), r.size(), seg.vm.page)
	if errors.Is(err, device.ErrOutOfMemory) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a.dev.NumDeviceAlloc++
	a.bookArena(sh, r, journal.SegmentMap)
	return true, nil
}

// growsAstray reports whether more is reserved than with compaction there should be if an arena grows by need bytes, for a block of size, much in the step was not as expected, and there are pages
// that the plan does not use: then the request is the caching allocator's, which takes those. Caller holds a.mu and no shard.
func (a *Caching) growsAstray(sh *shard, need, size uint64) bool {
	p := a.policy.Load()
	if p.compaction == 0 || !p.expandable || a.above(p, need, size) == 0 {
		return false
	}
	sh.mu.Lock()
	astray := (sh.steps.missed+sh.steps.refused)*trust > sh.steps.next
	sh.mu.Unlock()
	return astray && a.unusedByPlan(sh) >= sh.steps.arena.seg.vm.page
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

// reclaimArena takes pages from the arena of a stream whose step does not follow its plan, before the driver is asked for more. Caller holds a.mu and
// no shard.
func (a *Caching) reclaimArena(r *request) error {
	sh := r.shard
	if sh.steps == nil {
		return nil
	}
	sh.mu.Lock()
	idle := sh.steps.unfollowed() && sh.steps.arena.memory.bytes != 0
	sh.mu.Unlock()
	if !idle || a.beyond(r) {
		return nil
	}
	gone, err := a.trimArena(sh, 0, r.policy.segmentSize(r.size))
	if gone != 0 {
		sh.mu.Lock()
		sh.steps.seized = true
		sh.mu.Unlock()
	}
	return err
}

// trimArenas gives the pages back in which no planned block in use is, in all arenas. Caller holds a.mu and no shard.
func (a *Caching) trimArenas() error {
	var errs []error
	for _, sh := range *a.shards.Load() {
		if sh.steps != nil {
			sh.mu.Lock()
			errs = append(errs, a.takeBack(sh))
			sh.mu.Unlock()
			_, err := a.trimArena(sh, 0, unlimited)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// trimArena is trim for an arena: of what lies behind an offset, most bytes and no more, the last first. Caller holds a.mu and no shard.
func (a *Caching) trimArena(sh *shard, from, most uint64) (gone uint64, err error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ar := &sh.steps.arena
	if ar.memory.bytes == 0 || ar.seg.vm == nil || a.inCapture() {
		return 0, nil
	}
	page := ar.seg.vm.page
	if from = roundUp(from, page); ar.memory.list[len(ar.memory.list)-1].to <= from { // after nearly every step
		return 0, nil
	}
	waited := false
	for _, r := range slices.Backward(sh.steps.unused(sh.steps.live())) {
		r.from = max(r.from, from)
		if r.from >= r.to || gone >= most {
			break
		}
		if r.size() > most-gone {
			r.from = r.to - min(roundUp(most-gone, page), r.size())
		}
		if !waited {
			if err := a.waitFor(sh); err != nil {
				return 0, err
			}
			waited = true
		}
		n, err := a.unmapInArena(sh, r)
		gone += n
		if err != nil {
			return gone, err
		}
	}
	return gone, nil
}

// unmapInArena unmaps pages from their end on, as far as the driver does it. Caller holds a.mu and the shard.
func (a *Caching) unmapInArena(sh *shard, r run) (gone uint64, err error) {
	vm, ptr, to := sh.steps.arena.seg.vm, sh.steps.arena.seg.ptr, r.to
	for r.from < r.to && err == nil {
		if err = vm.driver.Unmap(ptr.Add(r.to-vm.page), vm.page); err == nil {
			r.to -= vm.page
		}
	}
	if r.to != to {
		a.dev.NumDeviceFree++
		a.bookArena(sh, run{r.to, to}, journal.SegmentUnmap)
	}
	return to - r.to, err
}
