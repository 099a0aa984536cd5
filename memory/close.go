package memory

import "github.com/cistern-ml/cistern/memory/internal/journal"

import "errors"

// close frees every segment. The first thing is to let pending frees complete, so that only real leaks are reported.
func (a *Caching) close() error {
	a.drainDeferredFrees()
	m := a.freeSite()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.behalf = m
	var errs []error
	a.closeAll(&errs)
	a.wantLabels(false) // nobody will ask for the history of a closed allocator
	return errors.Join(errs...)
}

// closeAll gives back what there is, also if a pool's source panics in the middle of it. Caller holds a.mu.
func (a *Caching) closeAll(errs *[]error) {
	defer a.closeEvents(errs)
	defer a.surrenderAll(errs)
	*errs = append(*errs, a.releaseAll(), a.leaks())
}

// leaks says what is in use, nil if nothing is.
func (a *Caching) leaks() error {
	leak := &LeakError{Device: a.id}
	for _, sh := range *a.shards.Load() {
		sh.mu.Lock()
		for k := range sh.tally.pool {
			leak.Blocks += sh.tally.pool[k].current[hotAllocation]
			leak.Bytes += uint64(sh.tally.pool[k].current[hotAllocatedBytes])
		}
		sh.mu.Unlock()
	}
	if leak.Blocks > 0 {
		return leak
	}
	return nil
}

// surrenderAll gives all segments back, those after one whose source panics too.
func (a *Caching) surrenderAll(errs *[]error) {
	defer func() {
		if len(a.segments) > 0 {
			a.surrenderAll(errs)
		}
	}()
	for _, sh := range *a.shards.Load() {
		*errs = append(*errs, a.surrenderArena(sh))
	}
	for len(a.segments) > 0 {
		*errs = append(*errs, a.surrender(a.segments[len(a.segments)-1]))
	}
}

// closeEvents gives the events back.
func (a *Caching) closeEvents(errs *[]error) {
	a.events.mu.Lock()
	defer a.events.mu.Unlock()
	*errs = append(*errs, a.events.queues.Close()...) // with those that could not be waited for
	a.events.reuse.kept = nil
}

// surrender gives a segment back to the driver whatever its blocks are used for. It is off the books even if the driver
// refuses. Caller holds a.mu.
func (a *Caching) surrender(seg *segment) error {
	seg.shard.noteAbandon(seg, a.behalf)
	if seg.vm == nil {
		seg.shard.abandon(seg)
		seg.shard.mu.Lock()
		a.dropSegment(seg)
		seg.shard.mu.Unlock()
		return a.freeSegment(seg.shard, seg.ptr)
	}
	var errs []error
	mapped := uint64(0)
	seg.shard.mu.Lock()
	for b := seg.head; b != nil; b = b.next {
		if b.state == stateUnmapped {
			continue
		}
		run := b
		for b.next != nil && b.next.state != stateUnmapped {
			b = b.next
		}
		end := b.ptr.Add(b.size)
		_, err := seg.vm.unmap(run.ptr, end)
		errs = append(errs, err)
		mapped += uint64(end - run.ptr)
		seg.shard.noteSegment(journal.SegmentUnmap, seg, run.ptr, uint64(end-run.ptr), a.behalf)
	}
	seg.shard.mu.Unlock()
	seg.shard.abandon(seg)
	a.forgetSegment(seg)
	a.countReserved(seg.shard, seg.kind, -int64(mapped))
	errs = append(errs, seg.vm.driver.Unreserve(seg.ptr))
	return errors.Join(errs...)
}

// abandon forgets the blocks of a segment that still has users: their handles become stale.
func (sh *shard) abandon(seg *segment) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for b := seg.head; b != nil; {
		next := b.next
		switch b.state {
		case stateCached, stateLent:
			if b.state == stateCached {
				sh.pools[b.kind].remove(b)
			}
			if seg.vm == nil && !b.whole() {
				sh.tally.decrease(b.kind, hotInactiveSplit, 1)
				sh.tally.decrease(b.kind, hotInactiveSplitBytes, int64(b.size))
			}
		case stateUnmapped:
			sh.forgetUnmapped(b)
		case stateAllocated:
			sh.release(b)
			sh.drop(b)
		case statePending:
			sh.drop(b)
		}
		sh.recycle(b)
		b = next
	}
}
