package memory

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// What the allocator does is noted in the logs of its shards (package journal), if history is being recorded.
//
// A call looks at Caching.history before it takes a lock, and has its call site noted: the time and, if wanted, its stack. Under
// the shard's lock, which it takes anyway, it then writes its entries into the shard's log if that has a recorder.
//
// The trace has an entry for each change: a walk back from the present segments and blocks through it meets a block where
// an entry frees one, and none where it allocates one. So each entry is written under the lock of the shard whose blocks
// change, together with the change.

// allocSite is for calls that make blocks and segments. No lock is held.
func (a *Caching) allocSite() journal.Site {
	if rec := a.history.Load(); rec != nil {
		return rec.OfAlloc()
	}
	return journal.Site{}
}

// freeSite is for calls that give blocks and segments back. No lock is held.
func (a *Caching) freeSite() journal.Site {
	if rec := a.history.Load(); rec != nil {
		return rec.OfFree()
	}
	return journal.Site{}
}

// noteAlloc notes a block that is handed out. There is a recorder, and the caller holds sh.mu.
func (sh *shard) noteAlloc(b *block, m journal.Site) {
	sh.log.Write(journal.Alloc, b.ptr, b.requested, m)
	sh.meterAlloc(b, m.Label)
	sh.tell(journal.Alloc, b.ptr, b.requested)
}

// noteFree notes a block that its holder gives back, before it merges with others; done says that nobody else uses it. There
// is a recorder, and the caller holds sh.mu.
func (sh *shard) noteFree(b *block, m journal.Site, done bool) {
	if b.deferred {
		b.deferred, m.Stack = false, 0
	}
	if sh.log.Recorder().KeepsStacks() {
		b.freed, b.traced = freedBlock{alloc: b.stack, free: m.Stack}, true
	}
	if m.Stack == 0 {
		m.Stack = b.stack
	}
	sh.log.WriteFree(b.ptr, b.requested, m, done)
	sh.meterFree(b)
	sh.tell(journal.FreeRequested, b.ptr, b.requested)
	if done {
		sh.tell(journal.FreeCompleted, b.ptr, b.requested)
	}
}

// noteDeferred makes the entries of the free that follows have no stack: the one there is of somebody who has nothing to do
// with the block. No lock is held.
func (a *Caching) noteDeferred(h Block) {
	if a.history.Load() == nil || h.b.shard == nil || h.b.shard.owner != a {
		return
	}
	h.b.shard.mu.Lock()
	defer h.b.shard.mu.Unlock()
	if h.b.generation == h.generation {
		h.b.deferred = true
	}
}

// noteCompleted notes a pending block that nobody uses any more. There is a recorder, and the caller holds sh.mu.
func (sh *shard) noteCompleted(b *block) {
	sh.log.Write(journal.FreeCompleted, b.ptr, b.requested, journal.Site{Stack: b.stack})
	sh.tell(journal.FreeCompleted, b.ptr, b.requested)
}

// noteSegment notes memory that is got from the driver or given back. m may be without a stack: then it is seg's. Caller holds
// a.mu and sh.mu.
func (sh *shard) noteSegment(act journal.Action, seg *segment, addr device.Ptr, size uint64, m journal.Site) {
	if !sh.log.On() {
		return
	}
	if m.Stack == 0 {
		m.Stack = seg.stack
	}
	sh.log.Write(act, addr, size, m)
	sh.meterSegment(act, size)
	sh.tell(act, addr, size)
}

// noteAbandon notes the end of the blocks of a segment that is given back whatever they are used for.
func (sh *shard) noteAbandon(seg *segment, m journal.Site) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !sh.log.On() {
		return
	}
	for b := seg.head; b != nil; b = b.next {
		switch b.state {
		case stateAllocated:
			sh.noteFree(b, m, true)
		case statePending:
			sh.noteCompleted(b)
		}
	}
}

// noteOOM notes a request that fails, in the shard that it was for. Caller holds a.mu and no shard.
func (a *Caching) noteOOM(r *request, deviceFree uint64) {
	sh := r.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.log.On() {
		sh.log.Write(journal.OOM, device.Ptr(deviceFree), r.size, r.site)
	}
}
