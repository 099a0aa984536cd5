package memory

import (
	"cmp"
	"slices"

	"github.com/cistern-ml/cistern/device"
)

// Compaction (setting expandable_segments_compaction) moves pages. A program whose requests change leaves free memory all over its
// expandable segments, none of it long enough for the next request, and more is mapped at the end. With virtual memory nothing has
// to be copied to bring it together: the whole pages inside free blocks go from there to the end, and only what shares a page with
// a block in use is lost.
//
//	| held | free ......... | held | free ...... | held | unmapped ....      a request larger than both
//	| held | f | unmapped | f | held | unmapped | f | held | free ........... | unmapped ....
//
// Driver calls are dear, a page at a time, and unmapping waits for the work on the stream that had the memory. So pages are taken from
// the driver as long as the reserved bytes stay within a multiple of the most that was allocated: a program that repeats itself
// comes to need no call after some steps, and one that does not pays for it in time, not in memory.

// compact is for a request that expand is about to take pages for, beyond the bound. It waits for the events of freed blocks, one of
// which may serve the request: then it returns that block, in no index. Else it gives free pages to the driver in place of those
// that expand takes. Caller holds a.mu and no shard.
func (a *Caching) compact(d VirtualDriver, r *request) (*block, error) {
	if r.policy.compaction == 0 || a.inCapture() || a.excess(d, r) == 0 {
		return nil, nil
	}
	if a.pendingWork.Load() != 0 {
		if err := a.syncEvents(); err != nil {
			return nil, err
		}
		if b := r.search(); b != nil {
			return b, nil
		}
	}
	excess := a.affordable(r.policy, a.excess(d, r), movingPage(d))
	grown, _ := a.growth(d, r)
	before := uint64(a.dev.ReservedBytes.All.Current)
	var but *shard
	if r.shard.goesBy((*steps).partlyFollows) { // its plan keeps its pages, or gives up all: see adoptAbove
		but = r.shard
	}
	err := a.returnPages(a.donorsFor(grown, r), but, excess)
	if gone := before - uint64(a.dev.ReservedBytes.All.Current); err == nil && gone < excess && grown != nil {
		err = a.trimBeyond(grown, r.size, excess-gone)
	}
	if gone := before - uint64(a.dev.ReservedBytes.All.Current); err == nil && gone < excess {
		if b, err := a.adoptAbove(d, r, excess-gone); b != nil || err != nil {
			return b, err
		}
	}
	a.moves.moved(before - uint64(a.dev.ReservedBytes.All.Current))
	return nil, err
}

// trimBeyond gives bytes of the free block to the driver in which the place ends that expand grows for size bytes: of what lies behind that. Caller holds a.mu and no shard.
func (a *Caching) trimBeyond(grown *block, size, bytes uint64) error {
	sh := grown.shard
	sh.mu.Lock()
	end := grown.ptr.Add(size)
	last := grown
	for last != nil && last.ptr.Add(last.size) <= end {
		last = last.next
	}
	found := last != nil && last != grown && last.state == stateCached
	sh.mu.Unlock()
	if !found {
		return nil
	}
	_, err := a.trimFrom(last, end, bytes, func(sh *shard) (bool, error) { return true, a.waitFor(sh) })
	return err
}

// returnPages gives bytes to the driver: whole pages of free blocks, and then, where those are not enough, pages without blocks in use of the arenas of
// plans, but one shard's. An arena whose program goes on has them mapped again. Caller holds a.mu and no shard.
func (a *Caching) returnPages(free []*block, but *shard, bytes uint64) error {
	for _, b := range free {
		if bytes == 0 {
			return nil
		}
		got, err := a.trim(b, bytes)
		if err != nil {
			return err
		}
		bytes -= min(got, bytes)
	}
	for _, sh := range *a.shards.Load() {
		if bytes == 0 {
			return nil
		}
		if sh.steps == nil || sh == but {
			continue
		}
		got, err := a.trimArena(sh, 0, bytes)
		if err != nil {
			return err
		}
		bytes -= min(got, bytes)
	}
	return nil
}

// excess is how many of the bytes that r is about to take from the driver are above the bound: a multiple of the most that was allocated at
// once, r included. Caller holds a.mu and no shard.
func (a *Caching) excess(d VirtualDriver, r *request) uint64 {
	_, need := a.growth(d, r)
	return a.above(r.policy, need, r.size)
}

// above is excess for need bytes that are taken for blocks of size bytes.
func (a *Caching) above(p *policy, need, size uint64) uint64 {
	return min(need, a.allAbove(p, need, size))
}

// allAbove is how many bytes above the bound are reserved then.
func (a *Caching) allAbove(p *policy, need, size uint64) uint64 {
	reserved := uint64(a.dev.ReservedBytes.All.Current) + a.underway + need
	most := max(a.allocatedPeak(), a.allocatedBytes()+size)
	return reserved - min(reserved, uint64(float64(most)*p.compaction))
}

// aboveBound reports whether more is reserved now than with compaction there should be. Caller holds a.mu and no shard.
func (a *Caching) aboveBound() bool {
	p := a.policy.Load()
	return p.compaction != 0 && p.expandable && a.allAbove(p, 0, 0) != 0
}

// allocatedBytes is what is in use in all shards. Caller holds a.mu and no shard.
func (a *Caching) allocatedBytes() uint64 {
	sum := int64(0)
	for _, sh := range *a.shards.Load() {
		sh.mu.Lock()
		for k := range poolKinds {
			sum += sh.tally.pool[k].current[hotAllocatedBytes]
		}
		sh.mu.Unlock()
	}
	return uint64(sum)
}

// growth is the block that expand will map pages behind, nil for a new range, and how many bytes of pages those are. Caller holds
// a.mu and no shard.
func (a *Caching) growth(d VirtualDriver, r *request) (b *block, bytes uint64) {
	sh := r.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	first := sh.placeFor(r.policy, r.kind, r.size)
	if first == nil {
		return nil, roundUp(r.size, r.policy.page(r.kind, d))
	}
	return first, first.pagesBehind(r.size)
}

// donors are the free blocks with whole pages that a shard may have, in the order in which they lose them: of its own stream first, whose work need
// not end for the others; small ones first, which serve the fewest requests. The one that expand grows is not among them.
func (a *Caching) donors(grown *block, of *shard) []*block {
	return a.donorsWhere(of, func(b *block) bool { return b != grown })
}

// donorsFor is donors for r. Where the place that needs the fewest pages is grown, all free blocks stay that expand would use: otherwise more
// pages would be needed than were counted.
func (a *Caching) donorsFor(grown *block, r *request) []*block {
	if grown == nil {
		return a.donors(grown, r.shard)
	}
	seg, from, to := grown.reach(r.size)
	return a.donorsWhere(r.shard, func(b *block) bool { return b.seg != seg || b.ptr < from || b.ptr >= to })
}

// reach is the range in which expand grows a block to size bytes. No lock is held.
func (b *block) reach(size uint64) (seg *segment, from, to device.Ptr) {
	b.shard.mu.Lock()
	defer b.shard.mu.Unlock()
	return b.seg, b.ptr, b.ptr.Add(size)
}

// donorsWhere are the donors that may says. It is called under the lock of the block's shard.
func (a *Caching) donorsWhere(of *shard, may func(*block) bool) []*block {
	type donor struct {
		b    *block
		own  bool
		size uint64
	}
	var found []donor
	for k := range poolKinds {
		a.eachFree(of.pool, k, func(b *block) {
			if b.seg.vm == nil || !may(b) {
				return
			}
			if from, to := b.wholePages(); from < to {
				found = append(found, donor{b, b.shard == of, b.size})
			}
		})
	}
	slices.SortStableFunc(found, func(x, y donor) int {
		if x.own != y.own {
			if x.own {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.size, y.size)
	})
	blocks := make([]*block, len(found))
	for i, x := range found {
		blocks[i] = x.b
	}
	return blocks
}
