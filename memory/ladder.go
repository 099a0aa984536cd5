package memory

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// request is one Alloc on its way to the driver. The locks are released and taken again on that way, so it carries what was found
// out before: the policy in particular, although SetConfig may have replaced it.
type request struct {
	policy    *policy
	shard     *shard
	kind      poolKind
	bytes     uint64       // asked for
	size      uint64       // rounded: the block's size
	site      journal.Site // of the call, for the history
	answer    answer       // of the plan, if there is one
	lends     bool         // its block is to be a plan's memory, and so no part of that
	inPages   bool         // the limit counts what it takes of expandable segments, as it does for arenas, and not a segment
	overLimit bool         // the last attempt failed because of the limit
	releases  releases     // what it had to give back on the way
	wanted    uint64       // of one that failed: bytes that the device must have for it
}

// allocSlow serves a request that found nothing cached.
func (a *Caching) allocSlow(r *request) (Block, error) {
	h, err := a.allocNew(r)
	a.tellReleases(r, h, err)
	if err != nil {
		r.withdraw()
		completeAdvice(err)
		a.spoil()            // what the program does next is by the error, of which other settings may have spared it
		a.tellObservers(err) // without the lock: they may free things, take a snapshot, or allocate
	}
	return h, err
}

// allocNew serves a request under the driver lock.
func (a *Caching) allocNew(r *request) (Block, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.behalf = r.site // what gives segments back on the way is this call's doing
	b, err := a.grow(r)
	if err != nil {
		return Block{}, err
	}
	return r.finish(b), nil // still under mu: a checkpoint or snapshot must not see the block in no index and nobody's
}

// finish hands out what grow found, in r's shard or that of a pool that helps out.
func (r *request) finish(b *block) Block {
	sh := b.shard
	sh.mu.Lock()
	// Since b was taken its shard was unlocked, and what lies behind it may have been freed. It did not merge with b, which looked
	// allocated. If b is cut now, its rest would lie beside it, both free.
	if sh.splits(r.policy, b, r.size) {
		sh.rejoin(b)
	}
	return sh.finish(r.policy, b, r.size, r.bytes, r.site)
}

// grow climbs the ladder from the driver to the out-of-memory error and returns a block in no index. Caller holds a.mu.
//
// Each rung costs more than the one before: a search, the program's callbacks, driver calls, and at last waiting for the device.
// The order is PyTorch's (malloc of DeviceCachingAllocator), and so is that the pools are not searched after the rungs that free, but
// for the last one, where PyTorch gives up.
func (a *Caching) grow(r *request) (*block, error) {
	if err := a.refused(r); err != nil {
		return nil, err
	}
	// While we waited for a.mu another goroutine may have freed a block, or had the driver make one. The clock does not tick: to
	// PyTorch, which has one lock, this is the search that allocIn made.
	if b := r.search(); b != nil {
		return b, nil
	}
	if b, err := a.takeBackFor(r); b != nil || err != nil {
		return b, err
	}
	if r.usesGaps() {
		if b := r.shard.gapFor(r.size, r.answer.until, false); b != nil {
			return b, nil
		}
	}
	if b := a.waitOnDevice(r); b != nil {
		return b, nil
	}
	if b := a.reclaimSegment(r); b != nil {
		return b, nil
	}
	if a.runCallbacks(r) {
		a.tick(r.policy, r.shard, r.kind)
		if b := r.search(); b != nil {
			return b, nil
		}
	}
	if err := a.refused(r); err != nil { // callbacks run without the lock
		return nil, err
	}
	// Old segments go before the limit is reached, instead of all when it is. The threshold is a part of the limit: no limit, no GC.
	if r.policy.gcThreshold > 0 && a.limit.Load() != unlimited {
		if err := r.releases.note(a, ReleaseGarbage, func() error { return a.collectGarbage(r.policy) }); err != nil {
			return nil, err
		}
	}
	// throw_on_cudamalloc_oom: fail before anything is given back. The collection above has been, as in PyTorch.
	if err := a.rejectEarly(r); err != nil {
		return nil, err
	}
	if err := a.reclaimPages(r); err != nil {
		return nil, err
	}
	if err := a.reclaimArena(r); err != nil {
		return nil, err
	}
	if b, err := a.attempt(r); b != nil || err != nil { // an error here is not "no memory" but a driver that fails: no rung helps
		return b, err
	}
	if b := a.borrow(r); b != nil { // of pools with PoolUseOnOOM; they are searched, and take nothing from the driver
		return b, nil
	}
	// Oversize blocks serve few requests and are whole segments: give up as many as this request needs before giving up all.
	enough := false
	err := r.releases.note(a, ReleaseOversize, func() (err error) {
		enough, err = a.releaseOversize(r)
		return err
	})
	if err != nil {
		return nil, err
	}
	if enough {
		if b, err := a.attempt(r); b != nil || err != nil {
			return b, err
		}
	}
	if a.inCapture() { // giving the cache back waits for work
		return nil, a.outOfMemory(r)
	}
	release := a.releaseAll
	if r.policy.searchAgain {
		if b, err := a.searchSynced(r); b != nil || err != nil {
			return b, err
		}
		release = a.releaseCached // the wait has been
	}
	if a.beyond(r) {
		release = a.releaseBeside
	}
	if err := r.releases.note(a, ReleaseRetry, release); err != nil {
		return nil, err
	}
	a.dev.NumAllocRetries++ // this one attempt only, not the one after releaseOversize: PyTorch's count
	if b, err := a.attempt(r); b != nil || err != nil {
		return b, err
	}
	// releaseAll has waited for the work of other streams, and what was freed by that may lie in a segment that is in use and so has stayed.
	// PyTorch fails here (its issue 189504): this is the one request that it refuses and we serve.
	if b := r.search(); b != nil {
		return b, nil
	}
	if b, err := a.besideArenas(r); b != nil || err != nil {
		return b, err
	}
	return nil, a.outOfMemory(r)
}

// refused says why the driver must not be asked for r, if so: since Alloc looked, or while the lock was released, the allocator
// may have been closed, or the pool released, and then its shard may be gone. Caller holds a.mu.
func (a *Caching) refused(r *request) error {
	if a.closed.Load() {
		return &device.Error{Device: a.id, Call: "memory.Alloc", Err: device.ErrClosed}
	}
	if p := r.shard.pool; p != nil && p.uses == 0 {
		return p.errReleased("Alloc from")
	}
	return nil
}

// searchSynced waits for the events of freed blocks, with search_after_event_sync, and looks for one that serves r: then the cache stays. An error is that of
// the work waited for, or of the wait, and nothing has been given back. Caller holds a.mu and no shard.
func (a *Caching) searchSynced(r *request) (*block, error) {
	if err := a.syncEvents(); err != nil {
		return nil, err
	}
	return r.search(), nil
}

// search looks once more for a cached block. Caller holds no shard.
func (r *request) search() *block {
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	return r.shard.take(r.policy, r.kind, r.size)
}
