package memory

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
)

// deferredFrees is the queue of FreeLater: frees from runtime cleanups, which must not block.
type deferredFrees struct {
	mu     sync.Mutex // taken last
	blocks []Block
	total  int64
}

// deferrer is what all allocators are for FreeLater.
type deferrer interface{ FreeLater(Block) }

// home is the allocator that the block is of.
func (b *block) home() deferrer {
	if sh := b.shard; sh.owner == nil {
		return sh.other
	}
	return b.shard.owner
}

// FreeLater implements Allocator.
func (a *Caching) FreeLater(h Block) {
	if a.absent() || h.b == nil {
		return
	}
	if home := h.b.home(); home != a {
		home.FreeLater(h)
		return
	}
	if a.closed.Load() { // it has given all memory back, and nobody looks at the queue any more
		return
	}
	a.deferredFrees.mu.Lock()
	a.deferredFrees.blocks = append(a.deferredFrees.blocks, h)
	a.deferredFrees.total++
	a.deferredFrees.mu.Unlock()
	a.pendingWork.Add(1)
}

// drainDeferredFrees frees what FreeLater queued. No lock is held.
func (a *Caching) drainDeferredFrees() {
	a.deferredFrees.mu.Lock()
	blocks := a.deferredFrees.blocks
	a.deferredFrees.blocks = nil
	a.deferredFrees.mu.Unlock()
	for _, h := range blocks {
		a.pendingWork.Add(-1)
		// A block that was also freed by hand is a double free: the explicit one has won, and this one has nobody to tell.
		a.noteDeferred(h)
		_ = a.Free(h)
	}
}

// doPendingWork is what Alloc does first if there is anything outstanding. s is the stream that is to have memory, or nil.
func (a *Caching) doPendingWork(s device.Stream) {
	a.drainDeferredFrees()
	a.pollEvents(s)
}
