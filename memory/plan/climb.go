package plan

import (
	"math/rand/v2"
	"slices"
)

// climber improves the order in which jobs are placed. What ends at the top of the arena came too late: somebody smaller, placed before
// it, is in its way. So it goes before one of those, and all are placed again.
type climber struct {
	t       *task
	rng     *rand.Rand
	g       *greedy
	order   []int32
	rank    []int32 // the inverse of order
	size    uint64
	offsets []uint64
	trial   []uint64
	rounds  int
}

func newClimber(t *task, seed uint64) *climber {
	c := &climber{t: t, rng: rand.New(rand.NewPCG(seed, uint64(len(t.jobs)))), g: newGreedy(t)}
	c.order = t.sorted(largerFirst)
	c.rank = make([]int32, len(c.order))
	c.offsets, c.trial = make([]uint64, len(c.order)), make([]uint64, len(c.order))
	return c
}

const trialsPerRound = 4

func (c *climber) round(s *search) {
	if c.rounds == 0 {
		size, ok := c.g.run(c.order, true, ^uint64(0), c.offsets, s.m.spend)
		if !ok {
			return
		}
		c.size = size
	}
	for range trialsPerRound << min(c.rounds, 16) {
		if c.t.best.size <= s.goal || !c.try(s) {
			return
		}
	}
	c.rounds++
}

// try changes the order once; it reports false if the effort ended.
func (c *climber) try(s *search) bool {
	from, to := c.move()
	if from == to {
		return s.m.spend(1)
	}
	moved := c.order[from]
	copy(c.order[to+1:from+1], c.order[to:from])
	c.order[to] = moved
	size, ok := c.g.run(c.order, true, c.size+1, c.trial, s.m.spend)
	if !ok {
		copy(c.order[to:from], c.order[to+1:from+1])
		c.order[from] = moved
		return s.m.stopped == ""
	}
	c.size = size
	c.offsets, c.trial = c.trial, c.offsets
	if size < c.t.best.size {
		c.t.best = layout{slices.Clone(c.offsets), size, "climb"}
	}
	return true
}

// move chooses a job at the top and one that overlaps it in time and came before it.
func (c *climber) move() (from, to int) {
	var top, rivals []int32
	for k, i := range c.order {
		c.rank[i] = int32(k)
		if c.offsets[i]+c.t.jobs[i].size == c.size {
			top = append(top, i)
		}
	}
	i := top[c.rng.IntN(len(top))]
	for _, r := range c.order[:c.rank[i]] {
		if c.t.meet(&c.t.jobs[i], &c.t.jobs[r]) {
			rivals = append(rivals, r)
		}
	}
	if len(rivals) == 0 {
		return 0, 0
	}
	return int(c.rank[i]), int(c.rank[rivals[c.rng.IntN(len(rivals))]])
}

// meet reports whether two jobs live at the same time.
func (t *task) meet(a, b *job) bool {
	if a.lo < b.hi && b.lo < a.hi {
		return true
	}
	return a.lo < b.hi-t.sections || b.lo < a.hi-t.sections
}
