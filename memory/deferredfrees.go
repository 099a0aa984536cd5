package memory

import (
	"errors"
	"sync"

	"github.com/cistern-ml/cistern/device"
)

// deferredFrees is the queue of FreeLater: frees from runtime cleanups, which must not block. So it has a lock of its own, under
// which nothing is done but this.
type deferredFrees struct {
	mu     sync.Mutex // taken last
	blocks []Block
	total  int64 // NumDeferredFrees
}

// add queues a block.
func (d *deferredFrees) add(h Block) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.blocks = append(d.blocks, h)
	d.total++
}

// take empties the queue.
func (d *deferredFrees) take() []Block {
	d.mu.Lock()
	defer d.mu.Unlock()
	blocks := d.blocks
	d.blocks = nil
	return blocks
}

// drain frees what is queued, with a free that says if it could not. Nobody is there to be told of an error; a block that the
// driver refused waits for the next time.
func (d *deferredFrees) drain(free func(Block) error) {
	var refused []Block
	for _, h := range d.take() {
		if err := free(h); err != nil && !errors.Is(err, ErrDoubleFree) && !errors.Is(err, ErrForeignBlock) {
			refused = append(refused, h)
		}
	}
	if refused == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.blocks = append(d.blocks, refused...)
}

// count is how many blocks were ever queued since the last reset.
func (d *deferredFrees) count() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total
}

func (d *deferredFrees) resetCount() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total = 0
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
	a.deferredFrees.add(h)
	a.pendingWork.Add(1)
}

// drainDeferredFrees frees what FreeLater queued. No lock is held.
func (a *Caching) drainDeferredFrees() {
	for _, h := range a.deferredFrees.take() {
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
