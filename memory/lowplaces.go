package memory

import (
	"cmp"
	"slices"

	"github.com/cistern-ml/cistern/memory/plan"
)

// What nobody uses goes from the end of an arena to other streams, so what is in use while they work should lie low. When that is is not recorded; as a rule it is when the step of this one is
// over, or anywhere in it.

// lower has those blocks lowest that are in use when the step ends, or turns the places upside down, if that takes no more memory and what is in use ends lower then. Nothing may have its
// place for another's sake.
func (k *packing) lower(r *places) {
	least := height(k.q, r.Offsets)
	try := func(p plan.Placement) {
		if h := height(k.q, p.Offsets); p.Size <= r.Size && h < least {
			least, r.Placement = h, p
		}
	}
	turned := r.Placement
	turned.Offsets = make([]uint64, len(r.Offsets))
	for i, at := range r.Offsets {
		turned.Offsets[i] = r.Size - at - k.q.Buffers[i].Size
	}
	try(turned)
	var last []int
	for i, b := range k.q.Buffers {
		if b.To >= k.q.Cycle {
			last = append(last, i)
		}
	}
	if len(last) == 0 || len(last) == len(k.q.Buffers) {
		return
	}
	life := func(i int) int { return k.q.Buffers[i].To - k.q.Buffers[i].From }
	slices.SortStableFunc(last, func(i, j int) int { return cmp.Compare(life(j), life(i)) })
	k.improve /= 2
	if low := k.pack(k.bottom(last)); low.err == nil {
		try(low.Placement)
	}
}

// height is the sum over the times of a step of where the last byte in use lies, in which the end of the step counts for as much as all of them.
func height(q plan.Problem, offsets []uint64) (sum float64) {
	order, top := make([]int, len(offsets)), func(i int) uint64 { return offsets[i] + q.Buffers[i].Size }
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(top(j), top(i)) })
	free := make([]int, q.Cycle+1) // a way to the first time from each on that no higher buffer has
	for t := range free {
		free[t] = t
	}
	next := func(t int) int {
		for free[t] != t {
			free[t] = free[free[t]]
			t = free[t]
		}
		return t
	}
	for _, i := range order {
		cover := func(from, to int) {
			for t := next(from); t < to; t = next(t) {
				times := 1
				if t == q.Cycle-1 {
					times += q.Cycle
				}
				sum += float64(times) * float64(top(i))
				free[t] = t + 1
			}
		}
		b := q.Buffers[i]
		cover(b.From, min(b.To, q.Cycle))
		if b.To > q.Cycle { // in the next step
			cover(0, min(b.To-q.Cycle, q.Cycle))
		}
	}
	return sum
}
