package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/cistern-ml/cistern/memory/plan"
)

// What lives for long lies scattered over the segments from before there was a plan, and keeps what is free between from the driver. So
// the plan uses that first: it borrows the free blocks of the stream that are no whole pages or segments, and puts blocks of the step
// there. A borrowed block stays where it is in its segment, and is in no index.

// lend gives the plan of a shard what is free there; what can go back to the driver does. Caller holds a.mu and no shard.
func (a *Caching) lend(sh *shard) error {
	for k := range poolKinds {
		for _, b := range a.freeBlocks(nil, k, func(b *block) bool { return b.shard == sh }) {
			if err := a.giveBack(b, mostLent); err != nil {
				return err
			}
		}
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

// mostLent is the size from which on the whole pages of a block go back instead: in an arena they serve better.
const mostLent = 32 * mib

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
// holds the shard.
func (st *steps) takeBack() {
	for _, b := range st.live() {
		if b.slot.home != nil {
			return
		}
	}
	if len(st.lent) == 0 {
		return
	}
	st.leave()
	for _, b := range st.lent {
		b.state = stateSpare // in no index, and no neighbour's to merge with until it is there
		st.sh.rejoinFree(b)
	}
	st.lent = nil
	st.forgetPlaces()
}

// forgetPlaces makes all programs wait for a placement, those too that are being placed: their memory is no more. Blocks in use are in left.
// Caller holds the shard.
func (st *steps) forgetPlaces() {
	for _, p := range st.programs {
		if p.slots != nil || p.placed != nil {
			p.slots, p.before, p.placed, p.dirty = nil, nil, nil, true
		}
	}
	st.program = nil
	st.arranged++
}

// takeBackFor looks for a block for r in what a plan has borrowed that the present step does not follow. Caller holds a.mu and no shard.
func (a *Caching) takeBackFor(r *request) *block {
	sh := r.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if st := sh.steps; st == nil || st.missed <= st.served || len(st.lent) == 0 {
		return nil
	}
	sh.steps.takeBack()
	return sh.take(r.policy, r.kind, r.size)
}

// returnUnused gives borrowed blocks back in which no program has a place. Caller holds a.mu and no shard.
func (a *Caching) returnUnused(sh *shard) error {
	sh.mu.Lock()
	st := sh.steps
	used := map[*block]bool{}
	for _, b := range st.live() {
		used[b.slot.home] = true
	}
	for _, p := range st.programs {
		for i := range p.slots {
			used[p.slots[i].home] = true
		}
		if p.placed != nil { // it is being computed where they go
			sh.mu.Unlock()
			return nil
		}
	}
	var idle []*block
	kept := st.lent[:0]
	for _, b := range st.lent {
		if used[b] {
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
		if err := a.giveBack(b, 0); err != nil {
			return err
		}
	}
	return nil
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

// home is a borrowed block.
type home struct {
	b     *block
	size  uint64
	pages uint64 // the bytes that can be given back of it
}

// homeOf describes a borrowed block.
func homeOf(b *block) home {
	h := home{b: b, size: b.size}
	if b.expandable() {
		if from, to := b.wholePages(); from < to {
			h.pages = uint64(to - from)
		}
	}
	return h
}

// lodger is a request whose place is in a borrowed block.
type lodger struct {
	request int
	home    *block
	offset  uint64
}

// lodge fills borrowed blocks with buffers of q, and takes those out of it. index says which request each is; it returns those of the
// buffers that stay. It always looks at the time when the arena would hold most, and takes the largest buffer alive then that finds room.
func lodge(ctx context.Context, q *plan.Problem, index []int, homes []home) (rest []int, lodgers []lodger) {
	slices.SortStableFunc(homes, func(x, y home) int { return cmp.Compare(x.size, y.size) })
	order := make([]int, len(q.Buffers)) // by size
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(q.Buffers[j].Size, q.Buffers[i].Size) })
	load := loadOf(q)
	done := make([]bool, len(order)) // lodged, or without room for ever
	gone := make([]bool, len(order))
	inside := make([][]lodging, len(homes))
	for found := true; found && ctx.Err() == nil; {
		found = false
		at := load.busiest()
		for _, i := range order {
			b := q.Buffers[i]
			if done[i] || !meet(b, plan.Buffer{From: at, To: at + 1}, q.Cycle) {
				continue
			}
			done[i] = true
			k, offset := roomFor(b, homes, inside, q.Cycle)
			if k < 0 {
				continue
			}
			inside[k] = append(inside[k], lodging{b, i, offset})
			slices.SortFunc(inside[k], func(x, y lodging) int { return cmp.Compare(x.at, y.at) })
			load.add(b, -1)
			found = true
			break
		}
	}
	for k := len(homes) - 1; k >= 0; k-- {
		if load.worthless(homes[k], inside[k]) {
			inside[k] = nil
		}
	}
	clear(gone)
	for k, here := range inside {
		for _, l := range here {
			gone[l.buffer] = true
			lodgers = append(lodgers, lodger{index[l.buffer], homes[k].b, l.at})
		}
	}
	var stay []plan.Buffer
	for i, b := range q.Buffers {
		if !gone[i] {
			stay, rest = append(stay, b), append(rest, index[i])
		}
	}
	q.Buffers = stay
	return rest, lodgers
}

// roomFor finds the smallest borrowed block with room for a buffer, and where in it; -1 if there is none.
func roomFor(b plan.Buffer, homes []home, inside [][]lodging, cycle int) (k int, at uint64) {
	for k, h := range homes {
		if b.Size <= h.size {
			if at, ok := firstFit(inside[k], b, h.size, cycle); ok {
				return k, at
			}
		}
	}
	return -1, 0
}

// lodging is a buffer at an offset.
type lodging struct {
	plan.Buffer
	buffer int
	at     uint64
}

// firstFit finds the lowest offset for a buffer beside others, which are by offset.
func firstFit(here []lodging, b plan.Buffer, size uint64, cycle int) (at uint64, ok bool) {
	for _, l := range here {
		if l.at >= at+b.Size {
			break
		}
		if l.at+l.Size > at && meet(l.Buffer, b, cycle) {
			at = l.at + l.Size
		}
	}
	return at, at+b.Size <= size
}

// meet reports whether two buffers are alive at the same time.
func meet(x, y plan.Buffer, cycle int) bool {
	return x.From < y.To && y.From < x.To || x.From+cycle < y.To || y.From+cycle < x.To
}

// load is how many bytes are alive at each time of a step.
type load []int64

func loadOf(q *plan.Problem) load {
	l := make(load, q.Cycle)
	for _, b := range q.Buffers {
		l.add(b, 1)
	}
	return l
}

// add counts a buffer, or takes it away with sign -1.
func (l load) add(b plan.Buffer, sign int64) {
	for t := b.From; t < b.To; t++ {
		l[t%len(l)] += sign * int64(b.Size)
	}
}

// worthless reports whether the arena would grow by less without a borrowed block than can be given back of it: then it counts what is
// there. It leaves the load as it is then, and else unchanged.
func (l load) worthless(h home, here []lodging) bool {
	before := l[l.busiest()]
	for _, x := range here {
		l.add(x.Buffer, 1)
	}
	if l[l.busiest()]-before < int64(h.pages) {
		return true
	}
	for _, x := range here {
		l.add(x.Buffer, -1)
	}
	return false
}

// busiest is the first time at which most is alive.
func (l load) busiest() (at int) {
	for t, n := range l {
		if n > l[at] {
			at = t
		}
	}
	return at
}
