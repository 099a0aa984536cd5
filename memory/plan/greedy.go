package plan

import (
	"cmp"
	"math/bits"
	"slices"
)

// greedy places jobs one after the other in an order, each where it fits among those before it. The order is all that matters.
type greedy struct {
	t   *task
	occ *occupancy
}

func newGreedy(t *task) *greedy { return &greedy{t: t, occ: newOccupancy(t.sections)} }

// run places the jobs of order, and stops as soon as the size would reach limit: ok is false then, and when the effort ends.
func (g *greedy) run(order []int32, best bool, limit uint64, offsets []uint64, spend func(int) bool) (size uint64, ok bool) {
	g.occ.reset()
	if size = g.placeKept(offsets); size >= limit {
		return size, false
	}
	for _, i := range order {
		if g.t.jobs[i].kept {
			continue
		}
		if !spend(1) {
			return 0, false
		}
		size = max(size, g.place(i, best, offsets))
		if size >= limit {
			return size, false
		}
	}
	return size, true
}

// placeKept takes the places of the jobs that have theirs already, and returns where the last one ends.
func (g *greedy) placeKept(offsets []uint64) (size uint64) {
	if g.t.kept == 0 {
		return 0
	}
	for i := range g.t.jobs {
		if j := &g.t.jobs[i]; j.kept {
			g.take(j, j.at)
			offsets[i] = j.at
			size = max(size, j.at+j.size)
		}
	}
	return size
}

// place places one job and returns where it ends.
func (g *greedy) place(i int32, best bool, offsets []uint64) uint64 {
	j := &g.t.jobs[i]
	g.occ.begin()
	g.t.ranges(j, g.occ.ask)
	at := fit(g.occ.taken(), j.size, best)
	offsets[i] = at
	g.take(j, at)
	return at + j.size
}

func (g *greedy) take(j *job, at uint64) {
	g.t.ranges(j, func(lo, hi int) { g.occ.add(lo, hi, span{at, at + j.size}) })
}

// sorted returns the jobs in an order; equal ones stay in that of time.
func (t *task) sorted(less func(a, b *job) int) []int32 {
	order := make([]int32, len(t.jobs))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return less(&t.jobs[a], &t.jobs[b]) })
	return order
}

func largerFirst(a, b *job) int {
	return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(b.life, a.life))
}

func longerFirst(a, b *job) int {
	return cmp.Or(cmp.Compare(b.life, a.life), cmp.Compare(b.size, a.size))
}

// widerFirst compares size times life, which may need 128 bits.
func widerFirst(a, b *job) int {
	highA, lowA := bits.Mul64(a.size, uint64(a.life))
	highB, lowB := bits.Mul64(b.size, uint64(b.life))
	return cmp.Or(cmp.Compare(highB, highA), cmp.Compare(lowB, lowA))
}
