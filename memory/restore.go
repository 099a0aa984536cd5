package memory

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/invariants"
	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// Restored is what Restore changed.
type Restored struct {
	// Freed are the addresses of the blocks that were allocated before, in the order of segments and addresses. Their handles
	// are stale.
	Freed []device.Ptr
	// Live are new handles for the blocks that are allocated now, in that order: those of the checkpoint.
	Live []Block
}

// Restore makes the pool's layout what it was when c was taken: every block at its address, allocated or free. First all
// blocks of the pool are freed, so every handle to them is stale afterwards; Live has the new ones. Segments that the pool
// has taken since stay, free. What is in the memory does not change, and no driver call is made.
//
// In statistics and history it is what PyTorch does: the frees, then an allocation of each block of the checkpoint, then a
// free of each that was not allocated. Two things are nearer to the truth: the bytes requested are those of the checkpoint,
// where PyTorch has the blocks' sizes, and no peak counts the moment at which the free blocks were allocated as well.
//
// It fails with a *CheckpointError if c is of another pool, if a block of the pool waits for other streams or was recorded on
// some (wait for them, and free it), or if memory of the checkpoint was given back to the driver; and with ErrPoolReleased if
// the pool has no use left.
func (p *Pool) Restore(c *PoolCheckpoint) (r Restored, err error) {
	if p.absent() {
		return r, argumentErr("Restore", nilPool)
	}
	if invariants.Enabled {
		defer p.a.audit("Restore")
	}
	a := p.a
	a.doPendingWork(nil)
	on, off := a.allocSite(), a.freeSite()
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.uses == 0 {
		return r, p.errReleased("Restore of")
	}
	if c == nil || c.pool == nil {
		return r, p.checkpointError("Restore", 0, "there is no checkpoint")
	}
	if c.pool != p {
		return r, p.checkpointError("Restore", 0, fmt.Sprintf("the checkpoint is of pool %v of %s", c.pool.id, c.pool.a.id))
	}
	a.peaks.mu.Lock()
	defer a.peaks.mu.Unlock()
	shards := a.lockShards()
	defer unlockShards(shards)
	segments, err := p.segmentsFor(c)
	if err != nil {
		return r, err
	}
	policy := a.policy.Load()
	for _, seg := range p.ordered() {
		r.Freed = append(r.Freed, seg.freeAll(policy, off)...)
	}
	for i, l := range c.segments {
		r.Live = append(r.Live, segments[i].divide(policy, l.blocks, on, off)...)
	}
	for _, sh := range shards {
		if sh.tally.over != 0 {
			a.settleLocked(shards, sh, sh.tally.over)
		}
	}
	return r, nil
}

// ordered lists the pool's segments, the oldest first. Caller holds a.mu.
func (p *Pool) ordered() []*segment {
	var list []*segment
	for _, seg := range p.a.segments {
		if seg.shard.pool == p {
			list = append(list, seg)
		}
	}
	slices.SortFunc(list, func(x, y *segment) int { return cmp.Compare(x.reg, y.reg) })
	return list
}

// segmentsFor returns the present segments of a checkpoint, or why it cannot be restored: after that nothing fails. Caller
// holds a.mu and all shards.
func (p *Pool) segmentsFor(c *PoolCheckpoint) ([]*segment, error) {
	byAddress := map[device.Ptr]*segment{}
	for _, seg := range p.ordered() {
		byAddress[seg.ptr] = seg
		for b := seg.head; b != nil; b = b.next {
			if b.state == statePending || b.state == stateAllocated && slices.ContainsFunc(b.users, func(u use) bool { return !u.over() }) {
				return nil, p.checkpointError("Restore", b.ptr, "work on other streams may still use the block")
			}
		}
	}
	var list []*segment
	for _, l := range c.segments {
		seg := byAddress[l.ptr]
		switch {
		case seg == nil, seg.size != l.size, seg.kind != l.kind, seg.shard.id() != l.stream && seg.reg != l.number, (seg.vm != nil) != l.expandable:
			return nil, p.checkpointError("Restore", l.ptr, "the segment was given back to the driver")
		case seg.vm != nil:
			if at, ok := seg.mappedAsIn(l.blocks); !ok {
				return nil, p.checkpointError("Restore", at, "pages were given back to the driver")
			}
		}
		list = append(list, seg)
	}
	return list, nil
}

// mappedAsIn reports whether there is memory behind all addresses where the layout has some, and if not, where it is
// missing. Both cover the same range.
func (seg *segment) mappedAsIn(layout []blockLayout) (device.Ptr, bool) {
	b := seg.head
	for _, l := range layout {
		end := l.ptr.Add(l.size)
		for ; b != nil && b.ptr < end; b = b.next {
			if b.state == stateUnmapped && l.state != stateUnmapped {
				return max(b.ptr, l.ptr), false
			}
			if b.ptr.Add(b.size) > end {
				break // it reaches into the next
			}
		}
	}
	return 0, true
}

// freeAll frees the allocated blocks of a segment and returns their addresses. Caller holds the shard.
func (seg *segment) freeAll(policy *policy, m journal.Site) (freed []device.Ptr) {
	for b := seg.head; b != nil; b = b.next {
		if b.state == stateAllocated {
			freed = append(freed, b.ptr)
			if b.size >= policy.maxSplit {
				seg.shard.owner.countOversize(-1)
			}
			seg.shard.giveBack(b, m)
		}
	}
	return freed
}

// giveBack is Free of a block that nobody else uses. Caller holds the shard.
func (sh *shard) giveBack(b *block, m journal.Site) {
	clear(b.users)
	b.users = b.users[:0]
	sh.release(b)
	if sh.log.On() {
		sh.noteFree(b, m, true)
	}
	sh.complete(b)
}

// divide cuts a segment without allocated blocks up as a layout says, and returns handles for those that are allocated in it.
// Caller holds the shard.
func (seg *segment) divide(policy *policy, layout []blockLayout, on, off journal.Site) (live []Block) {
	var gaps []*block
	for _, l := range layout {
		if l.state == stateUnmapped {
			if b := seg.reachesPast(l); b != nil {
				gaps = append(gaps, seg.cut(policy, b, uint64(l.ptr.Add(l.size)-b.ptr), 0, on))
			}
			continue
		}
		b := seg.cut(policy, seg.blockAt(l.ptr), l.size, l.requested, on)
		if l.state == stateCached {
			gaps = append(gaps, b)
			continue
		}
		live = append(live, Block{b: b, generation: b.generation, ptr: b.ptr, size: b.size})
	}
	for _, b := range gaps {
		seg.shard.giveBack(b, off)
	}
	return live
}

// cut allocates the first size bytes of b, a free block; requested is 0 for a block that is to be free again. Caller holds the
// shard.
func (seg *segment) cut(policy *policy, b *block, size, requested uint64, m journal.Site) *block {
	sh, always := seg.shard, *policy
	always.expandable, always.force = true, true // cuts off whatever is left, also what the pool's rule would not
	gap := requested == 0
	if gap {
		requested = size
	}
	sh.pools[seg.kind].remove(b)
	b = sh.handOut(&always, b, size, requested)
	b.stack = m.Stack
	if sh.log.On() {
		sh.noteAlloc(b, m)
	}
	switch {
	case size < policy.maxSplit:
	case gap:
		sh.owner.passOversize()
	default:
		sh.owner.countOversize(1)
	}
	return b
}

// reachesPast returns the free block that begins in the range of l, which had no memory behind it then, and ends after it.
// Caller holds the shard; what lies before l is allocated.
func (seg *segment) reachesPast(l blockLayout) *block {
	end := l.ptr.Add(l.size)
	for b := seg.blockAt(l.ptr); b != nil && b.ptr < end; b = b.next {
		if b.state == stateCached && b.ptr.Add(b.size) > end {
			return b
		}
	}
	return nil
}

// blockAt returns the block that begins at an address.
func (seg *segment) blockAt(p device.Ptr) *block {
	b := seg.head
	for b.ptr != p {
		b = b.next
	}
	return b
}
