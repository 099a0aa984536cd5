package plan

import (
	"cmp"
	"math"
	"slices"
)

// Check returns an *Error if offsets, in bytes and in the order of p.Buffers, are no placement: two buffers that live at the same time
// overlap, or one ends above 2^64-1. It shares nothing with Place, takes O(n log n) time, and also refuses what Validate does.
//
// It walks through time with the live buffers in the order of their offsets. As long as they are disjoint, a new one that overlaps any
// overlaps a neighbour.
func (p Problem) Check(offsets []uint64) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if len(offsets) != len(p.Buffers) {
		return &Error{Kind: WrongCount, Buffer: -1, Other: -1, Offsets: len(offsets), Buffers: len(p.Buffers), Cycle: p.Cycle}
	}
	for i, b := range p.Buffers {
		if offsets[i] > math.MaxUint64-b.Size {
			return &Error{Kind: PastEnd, Buffer: i, Other: -1, A: b, OffsetA: offsets[i], Cycle: p.Cycle}
		}
	}
	live := newTreap()
	for _, e := range p.lifeEvents() {
		if !e.born {
			live.remove(offsets[e.buffer], uint64(e.buffer))
			continue
		}
		if other := p.neighbour(live, offsets, e.buffer); other >= 0 {
			i, j := min(other, e.buffer), max(other, e.buffer)
			return &Error{Kind: Overlap, Buffer: i, Other: j, A: p.Buffers[i], B: p.Buffers[j],
				OffsetA: offsets[i], OffsetB: offsets[j], Cycle: p.Cycle}
		}
		live.insert(offsets[e.buffer], uint64(e.buffer))
	}
	return nil
}

// lifeEvent is the beginning or the end of a buffer's life.
type lifeEvent struct {
	at     int
	born   bool
	buffer int
}

// lifeEvents are those of all buffers that have a size, in order; at equal times ends come first, as lives are half-open. One that lives
// on into the next round has two lives.
func (p Problem) lifeEvents() []lifeEvent {
	events := make([]lifeEvent, 0, 2*len(p.Buffers))
	life := func(i, from, to int) {
		events = append(events, lifeEvent{from, true, i}, lifeEvent{to, false, i})
	}
	for i, b := range p.Buffers {
		switch {
		case b.Size == 0:
		case p.Cycle > 0 && b.To > p.Cycle:
			life(i, 0, b.To-p.Cycle)
			life(i, b.From, p.Cycle)
		default:
			life(i, b.From, b.To)
		}
	}
	slices.SortFunc(events, func(x, y lifeEvent) int {
		if x.at != y.at {
			return cmp.Compare(x.at, y.at)
		}
		if x.born != y.born {
			if y.born {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.buffer, y.buffer)
	})
	return events
}

// neighbour returns a live buffer that buffer i would overlap, or -1.
func (p Problem) neighbour(live *treap, offsets []uint64, i int) int {
	if _, j, ok := live.before(offsets[i], uint64(i)); ok && offsets[j]+p.Buffers[j].Size > offsets[i] {
		return int(j)
	}
	if at, j, ok := live.from(offsets[i], uint64(i)); ok && at < offsets[i]+p.Buffers[i].Size {
		return int(j)
	}
	return -1
}
