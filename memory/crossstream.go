package memory

import (
	"iter"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/journal"
	"github.com/cistern-ml/cistern/memory/internal/streams"
)

// Memory that is cached for a stream serves that stream only, so a program with several streams holds for each of them the most that it ever
// needed. With cross_stream_reclaim a request for which its own stream has nothing takes from the others of its pool before it asks the
// driver.
//
// Whole free segments change their stream. The work of the stream that had one may still use it: so an event is recorded there, and the stream that gets
// it waits for that, on the device. What it enqueues from then on comes after all that was on the other one, also after what that one has
// waited for itself, however many streams a segment came through.
//
//	stream 0   use | free                          e
//	stream 1              Alloc: wait for e | use
//
// In expandable segments something is in use as a rule. There whole free pages are unmapped and others mapped where they are needed. A page that work
// on the device still uses must not be unmapped, and no stream can wait for the driver; so only streams give pages whose work is done, which is asked
// and not waited for.
//
// The driver's side is locked all the time, so of two requests one goes first; the shards are locked one after the other, never two at once.

// reclaimSegment serves r with a free segment of another stream of its pool, and returns the block in no index, or nil. The smallest is
// taken. If the streams cannot be put in order, it stays where it was. Caller holds a.mu and no shard.
func (a *Caching) reclaimSegment(r *request) *block {
	if !r.policy.reclaim || !a.mayOrder(r.shard) {
		return nil
	}
	var best *block
	var size, reg uint64
	a.eachOther(r, func(sh *shard) {
		for b := range sh.largeEnough(r) {
			if best == nil || b.size < size || b.size == size && b.reg < reg {
				best, size, reg = b, b.size, b.reg
			}
			return // all others of this shard are larger
		}
	})
	if best == nil {
		return nil
	}
	from := best.shard
	seg := from.claim(best)
	if seg == nil {
		return nil // somebody took a part of it since it was found
	}
	if a.order(from.stream(), r.shard.stream()) != nil {
		from.unclaim(seg)
		return nil
	}
	a.spoil() // a rehearsal knows of no order among streams
	return a.move(seg, best.ptr, r)
}

// eachOther calls see for the shards that may give something to r, each under its lock. Caller holds a.mu and no shard.
func (a *Caching) eachOther(r *request, see func(*shard)) {
	for _, sh := range *a.shards.Load() {
		if sh.pool != r.shard.pool || sh == r.shard || !a.mayLend(sh) {
			continue
		}
		sh.mu.Lock()
		see(sh)
		sh.mu.Unlock()
	}
}

// largeEnough yields the cached blocks that may serve r and lie in segments of which nothing is in use, the smallest first. Caller holds the shard.
func (sh *shard) largeEnough(r *request) iter.Seq[*block] {
	return func(yield func(*block) bool) {
		x := &sh.pools[r.kind]
		for b := x.atLeast(r.size); b != nil; b = x.after(b) {
			if r.policy.maxSplit != unlimited && r.policy.tooLarge(b.size, r.size) {
				return
			}
			if (!b.expandable() || r.policy.expandable) && b.seg.idle() && !yield(b) {
				return
			}
		}
	}
}

// idle reports whether nothing of a segment is in use. Caller holds its shard.
func (seg *segment) idle() bool {
	for b := seg.head; b != nil; b = b.next {
		if b.state != stateCached && b.state != stateUnmapped {
			return false
		}
	}
	return true
}

// claim takes the free blocks of the segment of b out of the index, so that nobody is given one while the streams are put in order, and returns the
// segment. It returns nil if the segment is not free any more. Caller holds a.mu and no shard; so nothing of it is mapped or unmapped meanwhile, and as nothing
// is in use nothing merges.
func (sh *shard) claim(b *block) *segment {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if b.state != stateCached || b.seg == nil || !b.seg.idle() {
		return nil
	}
	seg := b.seg
	for x := seg.head; x != nil; x = x.next {
		if x.state == stateCached {
			sh.pools[seg.kind].remove(x)
		}
	}
	return seg
}

// unclaim is the opposite.
func (sh *shard) unclaim(seg *segment) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for x := seg.head; x != nil; x = x.next {
		if x.state == stateCached {
			sh.pools[seg.kind].insert(x)
		}
	}
}

// piece is a block of a segment on its way.
type piece struct {
	ptr    device.Ptr
	size   uint64
	mapped bool
}

// move makes a claimed segment one of r's stream and returns the block at an address, in no index. It is the segment of another stream given back and
// taken again, but that nothing is asked of the driver: with another number, so that no checkpoint takes it for what it was. The objects of blocks belong to their
// shard for ever, so those of the other one wait there to be used again. Caller holds a.mu and no shard.
func (a *Caching) move(seg *segment, at device.Ptr, r *request) *block {
	pieces := seg.shard.giveUp(seg, r.site)
	a.forgetSegment(seg)
	now := a.newSegment(r, seg.ptr, seg.size)
	now.vm = seg.vm
	return r.shard.takeOver(now, pieces, at, r.site)
}

// giveUp takes a claimed segment apart. The caller holds a.mu.
func (sh *shard) giveUp(seg *segment, m journal.Site) (pieces []piece) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for b := seg.head; b != nil; {
		next := b.next // recycle uses the field
		pieces = append(pieces, piece{b.ptr, b.size, b.state == stateCached})
		if b.state == stateUnmapped {
			sh.forgetUnmapped(b)
		} else {
			sh.noteSegment(seg.actions().away, seg, b.ptr, b.size, m)
		}
		sh.recycle(b)
		b = next
	}
	seg.head = nil
	return pieces
}

// takeOver makes the blocks of a segment that came from another shard, and returns the one at an address, in no index. The caller holds a.mu.
func (sh *shard) takeOver(seg *segment, pieces []piece, at device.Ptr, m journal.Site) (found *block) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var last *block
	for _, p := range pieces {
		b := sh.newBlock()
		b.size, b.ptr, b.reg, b.kind, b.seg, b.prev = p.size, p.ptr, seg.reg, seg.kind, seg, last
		if last == nil {
			seg.head = b
		} else {
			last.next = b
		}
		last = b
		if !p.mapped {
			sh.unmap(b)
			continue
		}
		sh.noteSegment(seg.actions().here, seg, b.ptr, b.size, m)
		if p.ptr == at {
			b.state, found = stateAllocated, b // as in take
		} else {
			sh.cache(b)
		}
	}
	return found
}

// movement are the entries of the history for memory that comes and goes.
type movement struct{ here, away journal.Action }

func (seg *segment) actions() movement {
	if seg.vm != nil {
		return movement{journal.SegmentMap, journal.SegmentUnmap}
	}
	return movement{journal.SegmentAlloc, journal.SegmentFree}
}

// reclaimPages gives the driver whole free pages of other streams for those that expand is about to take for r. Caller holds a.mu and no shard.
func (a *Caching) reclaimPages(r *request) error {
	if !r.policy.reclaim || !a.mayOrder(r.shard) {
		return nil
	}
	d, ok := a.expands(r)
	if !ok {
		return nil
	}
	_, need := a.growth(d, r)
	for _, b := range a.donorsWhere(r.shard, func(b *block) bool { return b.shard != r.shard && a.mayLend(b.shard) }) {
		if need == 0 {
			break
		}
		got, err := a.trimWhen(b, need, (*shard).workDone)
		if got != 0 {
			a.spoil() // when the work was done is not known
		}
		if err != nil {
			return err
		}
		need -= min(got, need)
	}
	return nil
}

// workDone reports whether the stream has done all its work, without waiting. A stream that cannot be asked may have some.
func (sh *shard) workDone() (bool, error) {
	s := sh.stream()
	if streams.Closed(s) {
		return true, nil
	}
	done, err := s.Done()
	return done && err == nil, nil
}
