package plan

import "slices"

// span is a range of addresses, [lo, hi).
type span struct{ lo, hi uint64 }

// occupancy knows which addresses are taken at which time. It makes "largest first" affordable for many buffers: whoever asks for a
// time gets the union of what is taken then, which in a dense placement is a few spans however many buffers there are.
//
// It is a segment tree over time. Each node keeps two unions of spans: touch, of all buffers that live at some time of the node, and
// cover, of those that were entered at it because they live through all of it. A question for a time is answered by touch of the nodes
// that make up the time and by cover of their ancestors.
type occupancy struct {
	leaves       int // a power of two
	cover, touch [][]span
	runs         [][]span  // what an answer is made of
	scratch      [2][]span // unions of them
}

func newOccupancy(sections int) *occupancy {
	o := &occupancy{leaves: 1}
	for o.leaves < sections {
		o.leaves *= 2
	}
	o.cover, o.touch = make([][]span, 2*o.leaves), make([][]span, 2*o.leaves)
	return o
}

func (o *occupancy) reset() {
	for i := range o.cover {
		o.cover[i], o.touch[i] = o.cover[i][:0], o.touch[i][:0]
	}
}

// add takes s in sections [from, to).
func (o *occupancy) add(from, to int, s span) { o.addAt(1, 0, o.leaves, from, to, s) }

func (o *occupancy) addAt(node, lo, hi, from, to int, s span) {
	if to <= lo || hi <= from {
		return
	}
	o.touch[node] = include(o.touch[node], s)
	if from <= lo && hi <= to {
		o.cover[node] = include(o.cover[node], s)
		return
	}
	mid := (lo + hi) / 2
	o.addAt(2*node, lo, mid, from, to, s)
	o.addAt(2*node+1, mid, hi, from, to, s)
}

// begin starts a question; ask adds a time to it, and taken answers.
func (o *occupancy) begin() { o.runs = o.runs[:0] }

func (o *occupancy) ask(from, to int) { o.askAt(1, 0, o.leaves, from, to) }

func (o *occupancy) askAt(node, lo, hi, from, to int) {
	if to <= lo || hi <= from || len(o.touch[node]) == 0 {
		return
	}
	run := o.cover[node]
	inside := from <= lo && hi <= to
	if inside {
		run = o.touch[node]
	}
	if len(run) > 0 {
		o.runs = append(o.runs, run)
	}
	if inside {
		return
	}
	mid := (lo + hi) / 2
	o.askAt(2*node, lo, mid, from, to)
	o.askAt(2*node+1, mid, hi, from, to)
}

// taken returns the union of what was asked for, in order; it is valid until the next question. Runs are united in pairs, in pairs of
// pairs and so on, from one half of the scratch memory into the other.
func (o *occupancy) taken() []span {
	for round := 0; len(o.runs) > 1; round++ {
		out := o.scratch[round%2][:0]
		next := o.runs[:0]
		for i := 0; i < len(o.runs); i += 2 {
			begin := len(out)
			if i+1 < len(o.runs) {
				out = unite(out, o.runs[i], o.runs[i+1])
			} else {
				out = append(out, o.runs[i]...)
			}
			next = append(next, out[begin:len(out):len(out)])
		}
		o.runs, o.scratch[round%2] = next, out
	}
	if len(o.runs) == 0 {
		return nil
	}
	return o.runs[0]
}

// unite appends the union of two unions to out.
func unite(out, a, b []span) []span {
	begin := len(out)
	for len(a) > 0 || len(b) > 0 {
		var s span
		if len(b) == 0 || len(a) > 0 && a[0].lo <= b[0].lo {
			s, a = a[0], a[1:]
		} else {
			s, b = b[0], b[1:]
		}
		if last := len(out) - 1; last >= begin && s.lo <= out[last].hi {
			out[last].hi = max(out[last].hi, s.hi)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// include adds a span to a union.
func include(u []span, s span) []span {
	first := firstEnding(u, s.lo)
	last := first
	for last < len(u) && u[last].lo <= s.hi {
		s.lo, s.hi = min(s.lo, u[last].lo), max(s.hi, u[last].hi)
		last++
	}
	if last == first {
		return slices.Insert(u, first, s)
	}
	u[first] = s
	return append(u[:first+1], u[last:]...)
}

// firstEnding returns the first span of a union that ends at or above at.
func firstEnding(u []span, at uint64) int {
	lo, hi := 0, len(u)
	for lo < hi {
		mid := (lo + hi) / 2
		if u[mid].hi < at {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// fit returns an offset for size bytes outside the spans of taken: the lowest, or with best that of the smallest gap, and of equal ones
// the lowest. If no gap is large enough it is the end of the last span.
func fit(taken []span, size uint64, best bool) uint64 {
	var floor, at, gap uint64
	found := false
	for _, s := range taken {
		if room := s.lo - floor; room >= size && (!found || room < gap) {
			found, at, gap = true, floor, room
			if !best || room == size {
				return at
			}
		}
		floor = s.hi
	}
	if !found {
		return floor
	}
	return at
}
