package plan

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"
)

// Placement gives each buffer its place in an arena.
type Placement struct {
	Offsets []uint64 // bytes, in the order of Problem.Buffers
	Size    uint64   // bytes of the arena: the highest end
	Bound   uint64   // bytes: the most that live at once, and so a lower bound of Size
	Optimal bool     // Size is proved to be the smallest there is: it is the bound, or the exact search ran to its end
	Method  string   // what placed the part of the problem that decides Size
	Effort  int      // units spent; see the option
	Stopped string   // why the search ended: AtTarget, AtOptimum, NoEffort, NoTime, Cancelled, NoIdea
}

// Place looks for a small arena. See the package's documentation for how. The offsets are sums of sizes: if all sizes are multiples of
// an alignment, so are they.
//
// The result is the same for the same problem, seed and effort. A problem that Validate refuses is its *Error. If ctx ends, the best
// placement so far is returned without an error, and Stopped says Cancelled; ctx's error comes only if there is none yet.
func Place(ctx context.Context, p Problem, opts ...Option) (Placement, error) {
	if err := p.Validate(); err != nil {
		return Placement{}, err
	}
	if err := ctx.Err(); err != nil {
		return Placement{}, err
	}
	o := choose(opts, len(p.Buffers))
	if err := p.checkKept(o.kept); err != nil {
		return Placement{}, err
	}
	s := &search{tasks: p.tasks(), seed: o.seed, m: &meter{ctx: ctx, left: o.effort}}
	for _, t := range s.tasks {
		t.keep(o.kept)
	}
	if o.budget > 0 {
		s.m.deadline = time.Now().Add(o.budget)
	}
	s.setGoal(o.target)
	if !s.first() {
		return Placement{}, ctx.Err()
	}
	s.portfolio()
	s.improve()
	return s.placement(p), nil
}

// search is one call of Place.
type search struct {
	tasks []*task
	bound uint64
	goal  uint64 // bytes that are good enough
	seed  uint64
	m     *meter
}

func (s *search) setGoal(target float64) {
	for _, t := range s.tasks {
		s.bound = max(s.bound, t.bound)
	}
	s.goal = s.bound
	if g := target * float64(s.bound); g >= math.MaxInt64 {
		s.goal = math.MaxInt64
	} else {
		s.goal = max(s.goal, uint64(g))
	}
}

// worst returns the task that decides the size, or nil if that is good enough.
func (s *search) worst() *task {
	if len(s.tasks) == 0 {
		return nil
	}
	t := slices.MaxFunc(s.tasks, func(a, b *task) int { return cmp.Compare(a.best.size, b.best.size) })
	if t.best.size <= s.goal {
		return nil
	}
	return t
}

// first gives each task a placement; it reports false if ctx ended before all have one.
func (s *search) first() bool {
	for _, t := range s.tasks {
		methods := t.methods()
		if !t.try(methods[0], s.m.must) {
			return false
		}
	}
	return true
}

// portfolio tries the other methods on the tasks that are not good enough.
func (s *search) portfolio() {
	for _, t := range s.tasks {
		for _, method := range t.methods()[1:] {
			if t.best.size <= max(s.goal, t.lower) || s.m.stopped != "" {
				break
			}
			t.try(method, s.m.spend)
		}
	}
}

// improve works on the task that decides the size until nothing helps.
func (s *search) improve() {
	for s.m.stopped == "" {
		t := s.worst()
		if t == nil {
			s.m.stopped = AtTarget
			return
		}
		if t.best.size == t.lower {
			s.m.stopped = AtOptimum
			return
		}
		t.improve(s)
	}
}

func (s *search) placement(p Problem) Placement {
	r := Placement{Offsets: make([]uint64, len(p.Buffers)), Bound: s.bound, Optimal: true, Effort: s.m.used, Stopped: s.m.stopped}
	var proved uint64
	for _, t := range s.tasks {
		for i, j := range t.jobs {
			r.Offsets[j.id] = t.best.offsets[i]
		}
		if t.best.size > r.Size {
			r.Size, r.Method = t.best.size, t.best.method
		}
		proved = max(proved, t.lower)
	}
	r.Optimal = r.Size <= proved
	return r
}
