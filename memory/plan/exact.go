package plan

import (
	"cmp"
	"slices"
)

// exact searches for a placement below a capacity until there is none or the nodes run out. It is the search of MiniMalloc (Moffitt,
// ASPLOS 2023, doi 10.1145/3623278.3624752) with a stronger bound:
//
//   - Only canonical placements are tried. Each job lies on top of something or on the floor, and they are placed in the order of their
//     offsets, equal ones in that of their ranks. So a job's offset, when its turn comes, is the highest end of the placed ones that it
//     meets, which is kept for each job: its least offset.
//   - In each section the jobs that are left have to lie on each other, each at or above its least offset. That is scheduling on one
//     machine with release times: taking them in the order of these gives the lowest top there is. If it is above the capacity, go back.
//     (MiniMalloc takes the lowest of them and the sum of the sizes.) And a job so high that they would not all fit above it cannot be the
//     lowest of the section: it lies above one that can, which raises its least offset. On instances without slack that is worth a
//     factor of up to 100 in nodes.
//   - Nothing is placed so high that another job would fit below it: that leaves a gap which the other could fill.
//   - If a job meets none of those that are left, then where it lies makes no difference to them, and no other choice need be tried.
//   - Where the jobs that are left fall apart in time, the parts are searched on their own.
//
// Which of the jobs at the lowest offset goes first is a guess, the ranking. Searches that guess wrong can take forever, so several
// rankings take turns, with limits of nodes that double.
type exact struct {
	t        *task
	unit     uint64    // of sizes: their greatest common divisor
	meets    [][]int32 // for each job, the others that live at the same time
	rounds   int
	salt     uint64 // of the last search at random
	capacity uint64
	ranking  ranking
	nodes    int // left in this attempt
	spend    func(int) bool

	least    []uint64 // offsets, for jobs that are not placed
	offsets  []uint64
	placed   []bool
	left     []uint64  // by section: bytes of the jobs that are not placed
	crossing []int32   // by section: jobs not placed that live in it and the one before
	tops     []uint64  // by section: the lowest top of the jobs looked at
	ends     []uint64  // by section: the lowest end of a job that can be the lowest one
	levels   [][]entry // memory for each depth of the search
	undo     []change
}

type entry struct {
	least     uint64
	rank, job int32
}

type change struct {
	job   int32
	least uint64
}

// verdict is how a search ended.
type verdict int

const (
	unknown verdict = iota // the nodes ran out
	found
	none
)

// Nodes for each job: of a turn in the first round, and of a search at random.
const (
	nodesPerTurn  = 4
	nodesAtRandom = 16
)

// ranking says what goes first, in the letters of MiniMalloc: T the most bytes left in a section of the job, A size times life, W life.
// With a salt chance has a part in it: many short searches that differ find what a long one misses.
type ranking struct {
	by   string
	salt uint64
}

func (r ranking) String() string {
	if r.salt != 0 {
		return r.by + " at random"
	}
	return r.by
}

// rankings are those of MiniMalloc.
var rankings = []string{"WAT", "TAW", "TWA"}

// mix is a hash, the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func newExact(t *task) *exact {
	n := len(t.jobs)
	e := &exact{t: t, meets: make([][]int32, n), levels: make([][]entry, n+1)}
	e.least, e.offsets, e.placed = make([]uint64, n), make([]uint64, n), make([]bool, n)
	e.left, e.crossing = make([]uint64, t.sections), make([]int32, t.sections)
	e.tops, e.ends = make([]uint64, t.sections), make([]uint64, t.sections)
	for i := range t.jobs {
		e.unit = gcd(e.unit, t.jobs[i].size)
		for k := range i {
			if t.meet(&t.jobs[i], &t.jobs[k]) {
				e.meets[i] = append(e.meets[i], int32(k))
				e.meets[k] = append(e.meets[k], int32(i))
			}
		}
	}
	return e
}

func gcd(a, b uint64) uint64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// round searches at the lowest size that may exist and is good enough, with each of the rankings and with chance. Often that size is not
// there, or out of reach: so there are turns at one half way up to the best, and a little below the best.
func (e *exact) round(s *search) {
	nodes := len(e.t.jobs) * nodesPerTurn << min(e.rounds, 30)
	e.spend = s.m.spend
	for _, by := range rankings {
		e.turn(s, 0, ranking{by: by}, nodes)
	}
	some := ranking{by: rankings[e.rounds%len(rankings)]}
	e.rounds++
	e.atRandom(s, 0, 2*nodes)
	e.turn(s, 4, some, nodes)
	e.atRandom(s, 4, nodes)
	e.turn(s, 7, some, nodes)
	e.atRandom(s, 7, nodes)
}

// atRandom makes short searches.
func (e *exact) atRandom(s *search, eighths uint64, nodes int) {
	for short := len(e.t.jobs) * nodesAtRandom; nodes > 0; nodes -= short {
		e.salt++
		if !e.turn(s, eighths, ranking{"WAT", mix(s.seed^e.salt) | 1}, min(nodes, short)) {
			return
		}
	}
}

// turn makes a search at a size so many eighths of the way from the lowest to the best. It reports false if no more is wanted.
func (e *exact) turn(s *search, eighths uint64, r ranking, nodes int) bool {
	lowest := max(e.t.lower, s.goal)
	if e.t.best.size <= lowest || s.m.stopped != "" {
		return false
	}
	capacity := lowest + (e.t.best.size-lowest)/8*eighths
	e.settle(capacity, e.attempt(capacity, r, nodes))
	return true
}

// settle draws the conclusions.
func (e *exact) settle(capacity uint64, v verdict) {
	switch v {
	case found:
		size := uint64(0)
		for i, at := range e.offsets {
			size = max(size, at+e.t.jobs[i].size)
		}
		e.t.best = layout{slices.Clone(e.offsets), size, "exact " + e.ranking.String()}
	case none:
		e.t.lower = capacity - capacity%e.unit + e.unit // a canonical placement's size is a sum of sizes
	}
}

func (e *exact) attempt(capacity uint64, r ranking, nodes int) verdict {
	e.capacity, e.ranking, e.nodes = capacity, r, nodes
	clear(e.placed)
	clear(e.least)
	clear(e.left)
	clear(e.crossing)
	e.undo = e.undo[:0]
	all := make([]int32, len(e.t.jobs))
	for i := range all {
		all[i] = int32(i)
		e.enter(&e.t.jobs[i], 1)
	}
	return e.part(all, 0)
}

// enter adds a job's size to its sections, and the job to those whose beginning it crosses; with -1 it takes them away. It reports
// whether none crosses one of these any more.
func (e *exact) enter(j *job, sign int) (apart bool) {
	for k := j.lo; k < j.hi; k++ {
		s := k
		if s >= e.t.sections {
			s -= e.t.sections
		}
		e.left[s] += uint64(sign) * j.size // modulo 2^64
		if k > j.lo {
			e.crossing[s] += int32(sign)
			apart = apart || e.crossing[s] == 0
		}
	}
	return apart
}

// part searches jobs that meet no others of those that are not placed.
func (e *exact) part(jobs []int32, depth int) verdict {
	ranked := e.rank(jobs)
	list := slices.Grow(e.levels[depth][:0], len(ranked))
	for r, i := range ranked {
		list = append(list, entry{e.least[i], int32(r), i})
	}
	e.levels[depth] = list
	return e.node(list, 0, 0, depth)
}

// rank orders jobs by the letters of the ranking.
func (e *exact) rank(jobs []int32) []int32 {
	keys := make([][3]float64, len(e.t.jobs))
	for _, i := range jobs {
		for k, letter := range e.ranking.by {
			keys[i][k] = e.weigh(i, letter)
		}
	}
	out := slices.Clone(jobs)
	slices.SortFunc(out, func(a, b int32) int {
		x, y := &keys[a], &keys[b]
		return cmp.Or(cmp.Compare(y[0], x[0]), cmp.Compare(y[1], x[1]), cmp.Compare(y[2], x[2]), cmp.Compare(a, b))
	})
	return out
}

// weigh returns what a letter means for a job; chance makes it up to half more.
func (e *exact) weigh(i int32, letter rune) (w float64) {
	j := &e.t.jobs[i]
	switch letter {
	case 'T':
		for s := j.lo; s < j.hi; s++ {
			w = max(w, float64(e.left[s%e.t.sections]))
		}
	case 'A':
		w = float64(j.size) * float64(j.life)
	case 'W':
		w = float64(j.life)
	}
	if salt := e.ranking.salt; salt != 0 {
		w *= 1 + float64(mix(uint64(i)^salt)>>11)/(1<<54)
	}
	return w
}

// node places one more of the jobs in list, at or after the given offset and rank. The list may hold the job that was placed last, and
// its least offsets may be old.
func (e *exact) node(list []entry, floor uint64, rank int32, depth int) verdict {
	if e.nodes--; e.nodes < 0 || !e.spend(1) {
		return unknown
	}
	for raised := true; raised; {
		if list = e.refresh(list); len(list) == 0 {
			return found
		}
		var fits bool
		if fits, raised = e.bound(list, floor); !fits {
			return none
		}
	}
	lowestEnd := ^uint64(0)
	for _, c := range list {
		lowestEnd = min(lowestEnd, c.least+e.t.jobs[c.job].size)
	}
	for _, c := range list {
		if c.least >= lowestEnd {
			break
		}
		if c.least < floor || c.least == floor && c.rank < rank {
			continue
		}
		v, alone := e.descend(c, list, depth)
		if v != none {
			return v
		}
		if alone {
			break
		}
	}
	return none
}

// refresh brings a list up to date and in the order of least offsets, then ranks. It is almost in order.
func (e *exact) refresh(list []entry) []entry {
	out := list[:0]
	for _, c := range list {
		if e.placed[c.job] {
			continue
		}
		c.least = e.least[c.job]
		k := len(out)
		out = append(out, c)
		for ; k > 0 && (out[k-1].least > c.least || out[k-1].least == c.least && out[k-1].rank > c.rank); k-- {
			out[k] = out[k-1]
		}
		out[k] = c
	}
	return out
}

// bound reports whether in each section the jobs of an ordered list can lie on each other below the capacity, and whether it raised a
// least offset: a job that cannot be the lowest of a section, as all of them would not fit above its offset, lies above one that can.
func (e *exact) bound(list []entry, floor uint64) (fits, raised bool) {
	clear(e.tops)
	for s := range e.ends {
		e.ends[s] = ^uint64(0)
	}
	for _, c := range list {
		j := &e.t.jobs[c.job]
		at := max(c.least, floor)
		above := at
		for k := j.lo; k < j.hi; k++ {
			s := k
			if s >= e.t.sections {
				s -= e.t.sections
			}
			top := max(e.tops[s], at) + j.size
			if top > e.capacity {
				return false, false
			}
			e.tops[s] = top
			if at+e.left[s] <= e.capacity {
				e.ends[s] = min(e.ends[s], at+j.size)
			} else if e.ends[s] > above { // not the greatest: if none could be the lowest, the top would be too high
				above = e.ends[s]
			}
		}
		if above > at {
			if above > e.capacity-j.size {
				return false, false
			}
			e.undo = append(e.undo, change{c.job, e.least[c.job]})
			e.least[c.job] = above
			raised = true
		}
	}
	return true, raised
}

// descend places a job at its least offset, searches on, and takes it back unless that found a placement. It reports whether the job
// met none of those that are left.
func (e *exact) descend(c entry, list []entry, depth int) (v verdict, alone bool) {
	j := &e.t.jobs[c.job]
	e.placed[c.job], e.offsets[c.job] = true, c.least
	mark := len(e.undo)
	alone = true
	for _, other := range e.meets[c.job] {
		if e.placed[other] {
			continue
		}
		alone = false
		if end := c.least + j.size; e.least[other] < end {
			e.undo = append(e.undo, change{other, e.least[other]})
			e.least[other] = end
		}
	}
	if e.enter(j, -1) {
		v = e.parts(list, c, depth)
	} else {
		e.levels[depth+1] = append(e.levels[depth+1][:0], list...)
		v = e.node(e.levels[depth+1], c.least, c.rank, depth+1)
	}
	e.enter(j, 1)
	for ; len(e.undo) > mark; e.undo = e.undo[:len(e.undo)-1] {
		last := e.undo[len(e.undo)-1]
		e.least[last.job] = last.least
	}
	e.placed[c.job] = false
	return v, alone
}

// parts searches on where the jobs that are left may have fallen apart. If they have not, the order of offsets stays.
func (e *exact) parts(list []entry, c entry, depth int) verdict {
	groups := e.apart(list)
	if len(groups) == 1 {
		e.levels[depth+1] = append(e.levels[depth+1][:0], list...)
		return e.node(e.levels[depth+1], c.least, c.rank, depth+1)
	}
	slices.SortStableFunc(groups, func(a, b []int32) int { return len(a) - len(b) }) // if one fails, better soon
	for _, g := range groups {
		if v := e.part(g, depth+1); v != found {
			return v
		}
	}
	return found
}

// apart divides the jobs that are left at the sections that none of them crosses.
func (e *exact) apart(list []entry) (groups [][]int32) {
	sections := e.t.sections
	group := make([]int, sections)
	g := 0
	for s := range sections {
		if s > 0 && e.crossing[s] == 0 {
			g++
		}
		group[s] = g
	}
	around := e.crossing[0] > 0 // the last group goes on as the first
	groups = make([][]int32, g+1)
	for _, c := range list {
		if e.placed[c.job] {
			continue
		}
		k := group[e.t.jobs[c.job].lo]
		if around && k == g {
			k = 0
		}
		groups[k] = append(groups[k], c.job)
	}
	groups = slices.DeleteFunc(groups, func(g []int32) bool { return len(g) == 0 })
	if len(groups) == 0 {
		return [][]int32{nil}
	}
	return groups
}
