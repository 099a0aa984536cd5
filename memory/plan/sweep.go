package plan

// sweep places jobs as an allocator would that knows nothing of the future, in the order of time, and of those that begin together the
// largest first. It takes O(n log n) time whatever overlaps, which is why it is there: it scales. Jobs that are placed already, the
// fixed ones, are walked around: the free list knows those that live now, an occupancy those that will. They must hold all that live on
// into the next round: the others meet no later round.
type sweep struct {
	t       *task
	best    bool
	offsets []uint64
	fixed   []bool     // nil: none are
	around  *occupancy // of the fixed ones; nil: none are
	holes   *holes
	ending  []int32 // by section: the first live job that ends at its beginning, or -1; next leads to more
	next    []int32
}

// holesTried is how many holes a job is tried in before it goes to the top, where fixed jobs may reach into any of them.
const holesTried = 64

func (s *sweep) run(limit uint64, spend func(int) bool) (size uint64, ok bool) {
	s.holes = newHoles(s.best)
	s.ending = make([]int32, s.t.sections+1)
	s.next = make([]int32, len(s.t.jobs))
	for i := range s.ending {
		s.ending[i] = -1
	}
	s.begin()
	now := 0
	for i := range s.t.jobs { // they are in the order of time
		j := &s.t.jobs[i]
		for ; now < j.lo; now++ {
			s.release(now + 1)
		}
		if s.fixed != nil && s.fixed[i] {
			s.holes.claim(s.offsets[i], j.size)
		} else if spend(1) {
			s.offsets[i] = s.place(j)
		} else {
			return 0, false
		}
		s.until(i, min(j.hi, s.t.sections))
		if size = max(size, s.offsets[i]+j.size); size >= limit {
			return size, false
		}
	}
	return size, true
}

// begin lets those live that come from the round before.
func (s *sweep) begin() {
	for i := range s.t.jobs {
		if j := &s.t.jobs[i]; j.hi > s.t.sections {
			s.holes.claim(s.offsets[i], j.size)
			s.until(i, j.hi-s.t.sections)
		}
	}
}

// until lets a job live until the beginning of a section.
func (s *sweep) until(i, section int) {
	s.next[i], s.ending[section] = s.ending[section], int32(i)
}

// release frees what ends at the beginning of a section.
func (s *sweep) release(section int) {
	for i := s.ending[section]; i >= 0; i = s.next[i] {
		s.holes.free(s.offsets[i], s.t.jobs[i].size)
	}
}

func (s *sweep) place(j *job) uint64 {
	var taken []span
	if s.around != nil {
		s.around.begin()
		s.around.ask(j.lo, j.hi)
		taken = s.around.taken()
	}
	hole, room, ok := s.holes.find(j.size)
	for tries := 0; ok && tries < holesTried; tries++ {
		if at := lowest(taken, hole, j.size); at+j.size <= hole+room {
			s.holes.take(hole, room, at, j.size)
			return at
		}
		hole, room, ok = s.holes.next(hole, room, j.size)
	}
	at := lowest(taken, s.holes.top, j.size)
	s.holes.push(at, j.size)
	return at
}

// lowest returns the lowest address from at on where size bytes touch none of taken.
func lowest(taken []span, at, size uint64) uint64 {
	for _, s := range taken[firstEnding(taken, at):] {
		if at+size <= s.lo {
			return at
		}
		at = max(at, s.hi)
	}
	return at
}

// sweepAround places the jobs of order by best fit, then the rest by a sweep.
func (t *task) sweepAround(order []int32, best bool, limit uint64, offsets []uint64, spend func(int) bool) (size uint64, ok bool) {
	s := &sweep{t: t, best: best, offsets: offsets}
	if len(order) > 0 || t.kept > 0 {
		g := newGreedy(t)
		if size, ok = g.run(order, true, limit, offsets, spend); !ok {
			return size, false
		}
		s.around, s.fixed = g.occ, make([]bool, len(t.jobs))
		for i := range t.jobs {
			s.fixed[i] = t.jobs[i].kept
		}
		for _, i := range order {
			s.fixed[i] = true
		}
	}
	return s.run(limit, spend)
}
