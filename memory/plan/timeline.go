package plan

import (
	"cmp"
	"slices"
)

// job is a buffer in the time of a task: it is live in sections [lo, hi).
type job struct {
	size   uint64
	life   int // in events of the program: hi-lo says little of it
	lo, hi int // hi > task.sections if it lives on into the next round
	id     int // index into Problem.Buffers
	kept   bool
	at     uint64 // the offset, if it is kept
}

// task is a part of a problem that shares no time with the rest. Its time is divided into sections.
//
// Most moments tell nothing: if what lives at one of them also lives at the next, whatever holds for the next holds for it. Sections are
// the moments that are left, those between a beginning and an end with nothing else between: the maximal cliques of the interval graph.
// Two buffers live at the same time if and only if they share a section, and there are at most as many sections as buffers.
type task struct {
	jobs     []job // by lo, then larger ones first
	sections int
	wrapped  int    // how many of the jobs live on into the next round; if 0, time is a line
	kept     int    // how many of the jobs have their offsets
	bound    uint64 // bytes: the most that live at once
	best     layout
	lower    uint64 // no arena is smaller: the bound, or more if the exact search has proved it, or a kept offset says so
	climb    *climber
	exact    *exact
}

// layout is a placement of a task's jobs.
type layout struct {
	offsets []uint64
	size    uint64
	method  string
}

// tasks divides a valid problem.
func (p Problem) tasks() []*task {
	jobs, sections := p.compress()
	if len(jobs) == 0 {
		return nil
	}
	if p.Cycle > 0 {
		rotate(jobs, sections)
	}
	slices.SortFunc(jobs, func(a, b job) int {
		return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(b.size, a.size), cmp.Compare(b.life, a.life), cmp.Compare(a.id, b.id))
	})
	wrapped := 0
	for _, j := range jobs {
		if j.hi > sections {
			wrapped++
		}
	}
	if wrapped > 0 {
		t := &task{jobs: jobs, sections: sections, wrapped: wrapped}
		t.measure()
		return []*task{t}
	}
	return cut(jobs)
}

// compress numbers the sections.
func (p Problem) compress() (jobs []job, sections int) {
	times := make([]int, 0, 2*len(p.Buffers))
	for _, b := range p.Buffers {
		if b.Size > 0 {
			times = append(times, b.From, p.inRound(b.To))
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)
	index := func(t int) int {
		i, _ := slices.BinarySearch(times, t)
		return i
	}
	begins, ends := make([]bool, len(times)), make([]bool, len(times))
	jobs = make([]job, 0, len(p.Buffers))
	for i, b := range p.Buffers {
		if b.Size == 0 {
			continue
		}
		j := job{size: b.Size, life: b.To - b.From, lo: index(b.From), hi: index(p.inRound(b.To)), id: i}
		begins[j.lo], ends[j.hi] = true, true
		jobs = append(jobs, j)
	}
	number := make([]int, len(times)) // sections before the moment
	for k := range times {
		number[k] = sections
		if next := (k + 1) % len(times); begins[k] && ends[next] && (next > 0 || p.Cycle > 0) {
			sections++
		}
	}
	for i := range jobs {
		j := &jobs[i]
		around := j.hi <= j.lo // only in a cycle
		j.lo, j.hi = number[j.lo], number[j.hi]
		if around {
			j.hi += sections
		}
	}
	return jobs, sections
}

// inRound is the moment at which a life ends, in the numbering of the first round.
func (p Problem) inRound(to int) int {
	if p.Cycle > 0 && to >= p.Cycle {
		return to - p.Cycle
	}
	return to
}

// rotate lets rounds begin where the fewest bytes live on: what crosses that moment has to be placed before all else. If nothing does,
// time is a line.
func rotate(jobs []job, sections int) {
	change := make([]uint64, 2*sections+1) // of the bytes that cross the beginning of a section, modulo 2^64
	for _, j := range jobs {
		change[j.lo+1] += j.size
		change[j.hi] -= j.size
	}
	crossing := make([]uint64, sections)
	var sum uint64
	for s := range 2 * sections {
		sum += change[s]
		crossing[s%sections] += sum
	}
	start := 0
	for s, bytes := range crossing {
		if bytes < crossing[start] {
			start = s
		}
	}
	for i := range jobs {
		j := &jobs[i]
		length := j.hi - j.lo
		j.lo = (j.lo%sections - start + sections) % sections
		j.hi = j.lo + length
	}
}

// cut divides jobs on a line, sorted by lo, where none crosses.
func cut(jobs []job) (tasks []*task) {
	first, end := 0, jobs[0].hi
	for i := 1; i <= len(jobs); i++ {
		if i < len(jobs) && jobs[i].lo < end {
			end = max(end, jobs[i].hi)
			continue
		}
		origin := jobs[first].lo
		t := &task{jobs: jobs[first:i:i], sections: end - origin}
		for k := range t.jobs {
			t.jobs[k].lo -= origin
			t.jobs[k].hi -= origin
		}
		t.measure()
		tasks = append(tasks, t)
		if i < len(jobs) {
			first, end = i, jobs[i].hi
		}
	}
	return tasks
}

// measure sets the bound.
func (t *task) measure() {
	change := make([]uint64, 2*t.sections+1) // modulo 2^64
	for _, j := range t.jobs {
		change[j.lo] += j.size
		change[j.hi] -= j.size
	}
	live := make([]uint64, t.sections)
	var sum uint64
	for s := range 2 * t.sections {
		sum += change[s]
		live[s%t.sections] += sum
	}
	t.bound = slices.Max(live)
	t.lower = t.bound
}

// ranges calls f with the ranges of sections in which j is live: one, or two if it lives on into the next round.
func (t *task) ranges(j *job, f func(lo, hi int)) {
	if j.hi <= t.sections {
		f(j.lo, j.hi)
		return
	}
	f(j.lo, t.sections)
	f(0, j.hi-t.sections)
}
