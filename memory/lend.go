package memory

import (
	"errors"
	"slices"
)

// What lives for long lies scattered over the segments from before there was a plan, and keeps what is free between from the driver. So
// the plan uses that first: it borrows the free blocks of the stream that are no whole pages or segments, and puts blocks of the step
// there. A borrowed block stays where it is in its segment, and is in no index.

// lend gives the plan of a shard what is free there; what can go back to the driver does. Caller holds a.mu and no shard.
func (a *Caching) lend(sh *shard) error {
	least := uint64(mostLent)
	if a.stitchPage(sh) != 0 || a.arenaPage(sh) < smallSegment {
		least = 0 // the ends of pages are joined, or short
	}
	if err := a.returnFree(sh, least); err != nil {
		return err
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st := sh.steps
	for k := range poolKinds {
		for _, b := range slices.Collect(sh.pools[k].all) {
			if b.size >= leastLent {
				sh.pools[k].remove(b)
				b.state = stateLent
				st.lent = append(st.lent, b)
			}
		}
	}
	return nil
}

// leastLent is the smallest block that a plan borrows, in bytes.
const leastLent = 4 * kib

// mostLent is the size from which on the whole pages of a block go back instead, where there are no stitches: in an arena they serve better.
const mostLent = 32 * mib

// returnFree gives what a shard has cached to the driver, as giveBack does. Caller holds a.mu and no shard.
func (a *Caching) returnFree(sh *shard, least uint64) error {
	for k := range poolKinds {
		for _, b := range a.freeBlocks(nil, k, func(b *block) bool { return b.shard == sh }) {
			if err := a.giveBack(b, least); err != nil {
				return err
			}
		}
	}
	return nil
}

// returnable is how many bytes returnFree would give back. Caller holds a.mu and no shard.
func (a *Caching) returnable(sh *shard) (bytes uint64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for k := range poolKinds {
		for b := range sh.pools[k].all {
			if b.plainWhole() {
				bytes += b.size
			} else {
				bytes += homeOf(b).pages
			}
		}
	}
	return bytes
}

// giveBack gives a free block to the driver, if it is a segment, or, of least bytes and more, its whole pages. Caller holds a.mu and no shard.
func (a *Caching) giveBack(b *block, least uint64) (err error) {
	sh := b.shard
	sh.mu.Lock() // it may be no more: then it is in no segment
	plain, paged := b.state == stateCached && b.plainWhole(), b.state == stateCached && b.expandable() && b.size >= least
	sh.mu.Unlock()
	if paged {
		_, err = a.trim(b, unlimited)
	} else if plain {
		_, err = a.releaseSegment(b)
	}
	return err
}

// takeBack puts borrowed blocks into the index again, if nobody has a piece of them. What was placed there has no place then. Caller
// holds a.mu and the shard.
func (a *Caching) takeBack(sh *shard) error {
	st := sh.steps
	for _, b := range st.live() {
		if b.slot.home != nil {
			return nil
		}
	}
	if len(st.lent) == 0 && len(st.stitches) == 0 || len(st.stitches) != 0 && a.inCapture() {
		return nil
	}
	st.leave()
	err := a.dropStitches(sh, func(*block) bool { return false })
	var kept []*block
	for _, b := range st.lent {
		if st.stitched(b) { // the driver has not taken it back
			kept = append(kept, b)
			continue
		}
		b.state = stateSpare // in no index, and no neighbour's to merge with until it is there
		sh.rejoinFree(b)
	}
	st.lent = kept
	st.forgetPlacesOf((*stepProgram).borrows)
	return err
}

// forgetPlaces makes all programs wait for a placement, those too that are being placed: their memory is no more. Blocks in use are in left.
// Caller holds the shard.
func (st *steps) forgetPlaces() { st.forgetPlacesOf(func(*stepProgram) bool { return true }) }

// forgetPlacesOf is forgetPlaces for some of the programs that have places.
func (st *steps) forgetPlacesOf(some func(*stepProgram) bool) {
	for _, p := range st.programs {
		if p.placed != nil || p.slots != nil && some(p) {
			p.alone = p.alone || p.placed != nil
			p.loses(st)
			p.slots, p.turns, p.placed, p.dirty = nil, nil, nil, true
		}
	}
	st.program = nil
	st.arranged++
}

// loses notes that a program loses its places. If that was for a step that has none, again and again, the program waits with new ones.
func (p *stepProgram) loses(st *steps) {
	if st.epoch-p.lostIn > longAgo {
		p.lost = 0
	}
	p.lost++
	p.lostIn, p.waitsFor = st.epoch, 0
	if st.seized && p.lost > freeTries {
		p.waitsFor = 1 << min(p.lost-freeTries, 10)
	}
}

// borrows reports whether a program has places in borrowed memory.
func (p *stepProgram) borrows() bool {
	return slices.ContainsFunc(p.slots, func(s slot) bool { return s.home != nil })
}

// takeBackFor looks for a block for r in what a plan has borrowed, if the present step does not follow it, or if it says that the block stays: then it has no place for it, and new
// memory would stay too. Where pages move it would not, and what stays in each step of a program, such as its batch, is as the one before: that takes nothing back. Caller holds a.mu and no shard.
func (a *Caching) takeBackFor(r *request) (*block, error) {
	sh := r.shard
	if sh.steps == nil {
		return nil, nil
	}
	sh.mu.Lock()
	replaced := r.policy.compaction != 0 && r.policy.expandable && sh.steps.program != nil && sh.steps.program.proven
	idle := (sh.steps.unfollowed() || r.answer.outlives && !replaced) && len(sh.steps.lent) != 0
	sh.mu.Unlock()
	if !idle || a.beyond(r) {
		return nil, nil
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.steps.seized = true
	if err := a.takeBack(sh); err != nil {
		return nil, err
	}
	return sh.take(r.policy, r.kind, r.size), nil
}

// returnUnused gives borrowed blocks back in which no program has a place. Caller holds a.mu and no shard.
func (a *Caching) returnUnused(sh *shard) error {
	sh.mu.Lock()
	st := sh.steps
	if len(st.lent) == 0 && len(st.stitches) == 0 {
		sh.mu.Unlock()
		return nil
	}
	for _, p := range st.programs {
		if p.placed != nil { // it is being computed where they go
			sh.mu.Unlock()
			return nil
		}
	}
	used := st.placesAndBlocks()
	err := a.dropStitches(sh, func(b *block) bool { return used[b] })
	var idle []*block
	kept := st.lent[:0]
	for _, b := range st.lent {
		if used[b] || st.stitched(b) {
			kept = append(kept, b)
		} else {
			idle = append(idle, b)
			b.state = stateSpare
			sh.rejoinFree(b)
		}
	}
	st.lent = kept
	sh.mu.Unlock()
	for _, b := range idle {
		err = errors.Join(err, a.giveBack(b, 0))
	}
	return err
}

// rejoinFree caches a free block that is counted as one, and in no index.
func (sh *shard) rejoinFree(b *block) {
	was := !b.whole()
	size := int64(b.size)
	count, bytes := sh.absorbFree(b)
	if was {
		count, bytes = count-1, bytes-size
	}
	if !b.whole() {
		count, bytes = count+1, bytes+int64(b.size)
	}
	if b.seg.vm == nil {
		sh.adjust(b.kind, hotInactiveSplit, count)
		sh.adjust(b.kind, hotInactiveSplitBytes, bytes)
	}
	sh.cache(b)
}
