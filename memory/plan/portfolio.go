package plan

import "math"

// method is a member of the portfolio. It places a task's jobs and returns the size, or false if that would not be below limit.
type method struct {
	name string
	run  func(t *task, limit uint64, offsets []uint64, spend func(int) bool) (uint64, bool)
}

const (
	inFull     = 60_000  // jobs up to which orders of all jobs come first: they need more time and memory than sweeps
	inFullLate = 250_000 // jobs up to which they come at all
	byHand     = 1024    // jobs that are placed largest first where the rest is swept around them
)

// methods returns the portfolio for a task, first the one that is best as a rule, or of many jobs the fastest.
func (t *task) methods() []method {
	orders := []method{
		{"size best fit", inOrder(largerFirst, true)},
		{"size first fit", inOrder(largerFirst, false)},
		{"size x life first fit", inOrder(widerFirst, false)},
		{"life first fit", inOrder(longerFirst, false)},
	}
	sweeps := []method{
		{"sweep first fit", hybrid(0, false)},
		{"sweep best fit", hybrid(0, true)},
		{"hybrid best fit", hybrid(min(byHand, len(t.jobs)/8), true)},
	}
	switch n := len(t.jobs); {
	case n <= inFull:
		return append(orders, sweeps...)
	case n <= inFullLate:
		return append(sweeps, orders...)
	}
	return sweeps
}

// try keeps a method's placement if it is the smallest so far, and reports whether there is one.
func (t *task) try(m method, spend func(int) bool) bool {
	limit := uint64(math.MaxUint64)
	if t.best.offsets != nil {
		limit = t.best.size
	}
	offsets := make([]uint64, len(t.jobs))
	if size, ok := m.run(t, limit, offsets, spend); ok {
		t.best = layout{offsets, size, m.name}
	}
	return t.best.offsets != nil
}

func inOrder(less func(a, b *job) int, best bool) func(*task, uint64, []uint64, func(int) bool) (uint64, bool) {
	return func(t *task, limit uint64, offsets []uint64, spend func(int) bool) (uint64, bool) {
		return newGreedy(t).run(t.sorted(less), best, limit, offsets, spend)
	}
}

// hybrid places what lives on into the next round, then the largest jobs up to count, and sweeps around them.
func hybrid(count int, best bool) func(*task, uint64, []uint64, func(int) bool) (uint64, bool) {
	return func(t *task, limit uint64, offsets []uint64, spend func(int) bool) (uint64, bool) {
		var order []int32
		if t.wrapped > 0 {
			for _, i := range t.sorted(longerFirst) {
				if t.jobs[i].hi > t.sections {
					order = append(order, i)
				}
			}
		}
		if count > 0 {
			for _, i := range t.sorted(largerFirst)[:min(count, len(t.jobs))] {
				if t.jobs[i].hi <= t.sections {
					order = append(order, i)
				}
			}
		}
		return t.sweepAround(order, best, limit, offsets, spend)
	}
}
