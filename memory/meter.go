package memory

import (
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/memory/internal/journal"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// A meter is told of every block that is handed out or given back, under the lock of the block's shard, together with the statistics: so its sum
// is AllocatedBytes at each moment. Package autograd/nn/memreport makes reports of it.

// StartMeter begins to tell m of the allocator's blocks: of those there are, and from then on of each change, until stop is called. It is for packages of
// this module, which alone can write the key. Call stacks are recorded meanwhile, if they were not. The error is an *ArgumentError for what is
// no Caching allocator, or a Pool of one.
func StartMeter(_ training.Key, alloc Allocator, m *memmeter.Meter) (stop func(), err error) {
	a, ok := alloc.(*Caching)
	if p, isPool := alloc.(*Pool); isPool && p != nil {
		a, ok = p.a, true
	}
	if !ok || m == nil {
		return nil, argumentErr("StartMeter", "%T is not a caching allocator", alloc)
	}
	if a.absent() {
		return nil, argumentErr("StartMeter", text.NilAllocator)
	}
	endHistory, err := a.ShareHistory(HistoryOptions{Enabled: HistoryState, Context: ContextState})
	if err != nil {
		return nil, err
	}
	a.setMeters(func(l memmeter.Meters) memmeter.Meters {
		m.Reserve(a.heldFromDriver())
		a.eachHeld(func(b *block, id oplabel.ID) { m.Begin(uint64(b.ptr), b.size, id) })
		return l.With(m)
	})
	return func() {
		a.setMeters(func(l memmeter.Meters) memmeter.Meters { return l.Without(m) })
		endHistory()
	}, nil
}

// setMeters changes the list of meters, at one moment for all shards.
func (a *Caching) setMeters(change func(memmeter.Meters) memmeter.Meters) {
	a.mu.Lock()
	defer a.mu.Unlock()
	shards := a.lockShards()
	defer unlockShards(shards)
	var l memmeter.Meters
	if old := a.meters.Load(); old != nil {
		l = *old
	}
	if l = change(l); len(l) == 0 {
		a.meters.Store(nil)
		return
	}
	a.meters.Store(&l)
}

// heldFromDriver is how much memory segments have, in bytes. Caller holds a.mu and all shards.
func (a *Caching) heldFromDriver() (sum int64) {
	for _, seg := range a.segments {
		for b := seg.head; b != nil; b = b.next {
			if b.state != stateUnmapped {
				sum += int64(b.size)
			}
		}
	}
	for _, sh := range *a.shards.Load() {
		if sh.steps != nil {
			sum += int64(sh.steps.arena.memory.bytes + sh.steps.stitchBytes())
		}
	}
	return sum
}

// eachHeld goes over the allocated blocks, with who asked for them as far as that was recorded. Caller holds a.mu and all shards.
func (a *Caching) eachHeld(f func(b *block, id oplabel.ID)) {
	stacks := a.stacks.Load()
	for _, seg := range a.segments {
		for b := seg.head; b != nil; b = b.next {
			if b.state == stateAllocated {
				f(b, oplabel.ID(stacks.Tag(b.stack)))
			}
		}
	}
	for _, sh := range *a.shards.Load() {
		for _, b := range sh.steps.live() {
			if b.state == stateAllocated {
				f(b, oplabel.ID(stacks.Tag(b.stack)))
			}
		}
	}
}

// meterAlloc tells the meters of a block that is handed out, and meterFree of one that is given back. Caller holds sh.mu.
func (sh *shard) meterAlloc(b *block, id oplabel.ID) {
	if l := sh.owner.meters.Load(); l != nil {
		for _, m := range *l {
			m.Alloc(uint64(b.ptr), b.size, id)
		}
	}
}

func (sh *shard) meterFree(b *block) {
	if l := sh.owner.meters.Load(); l != nil {
		for _, m := range *l {
			m.Free(uint64(b.ptr))
		}
	}
}

// meterSegment tells the meters of memory that is got from the driver, or given back. Caller holds sh.mu.
func (sh *shard) meterSegment(act journal.Action, size uint64) {
	n := int64(size)
	if act == journal.SegmentFree || act == journal.SegmentUnmap {
		n = -n
	}
	if l := sh.owner.meters.Load(); l != nil {
		for _, m := range *l {
			m.Reserve(n)
		}
	}
}

// Mark tells the meters of h's allocator what the block is for, and by what it was allocated if no operation has asked for it. It is for packages of this module.
func Mark(_ training.Key, h Block, u memmeter.Use, by oplabel.Label) {
	for _, m := range h.meters() {
		m.Mark(uint64(h.ptr), u, by)
	}
}

// MarkState is Mark for the state that the optimizer op keeps for a parameter, whose block is of. It is for packages of this module.
func MarkState(_ training.Key, h, of Block, op string) {
	for _, m := range h.meters() {
		l := m.Label(uint64(of.ptr))
		m.Mark(uint64(h.ptr), memmeter.State, oplabel.Label{Op: op, Module: l.Module, Model: l.Model, Step: true})
	}
}

// MarkSaved tells the meters of h's allocator that an operation saves the block for backward. It is for packages of this module.
func MarkSaved(_ training.Key, h Block, by oplabel.Label) {
	for _, m := range h.meters() {
		m.Save(uint64(h.ptr), by)
	}
}

// meters are those that know the block.
func (b Block) meters() memmeter.Meters {
	if b.b == nil || b.b.shard == nil || b.b.shard.owner == nil {
		return nil
	}
	if l := b.b.shard.owner.meters.Load(); l != nil {
		return *l
	}
	return nil
}
