package memory

import (
	"cmp"
	"slices"

	"github.com/cistern-ml/cistern/memory/plan"
)

// Programs in turn, such as training and evaluation, may begin alike. Which of them a step follows is known when it goes on, and by then blocks lie where the
// program has them that was followed so far. So of two programs that begin alike the smaller one has those blocks where the larger one has them, and the larger
// one has them at the bottom of the arena, if it needs no more memory with that: one arena holds both, whichever was guessed.

// agreement is where a program's blocks should be, for the sake of another program: by request.
type agreement struct {
	with   *stepProgram
	places map[int]slotPlace
	size   uint64 // of the arena that the other program needs
}

// slotPlace is in borrowed memory at an offset, or in the arena if home is nil.
type slotPlace struct {
	home *block
	at   uint64
}

// keptPlace is the place that a buffer should have.
type keptPlace struct {
	buffer int
	slotPlace
}

// alike is how many requests two programs have in common when they begin.
func alike(p, q *stepProgram) (n int) {
	for n < len(p.sizes) && n < len(q.sizes) && p.sizes[n] == q.sizes[n] {
		n++
	}
	return n
}

// alikeAgain reports whether two programs begin alike, and are both known to come again: what comes once, such as a first step, which makes an optimizer's
// state, is not heeded.
func alikeAgain(p, q *stepProgram) bool {
	return p != q && p.proven && q.proven && len(p.sizes) != 0 && len(q.sizes) != 0 && p.sizes[0] == q.sizes[0]
}

// proves notes that a program has come again. It is placed anew if others begin like it. Caller holds the shard.
func (st *steps) proves(p *stepProgram) {
	if p.proven {
		return
	}
	p.proven = true
	for _, q := range st.programs {
		p.dirty = p.dirty || alikeAgain(p, q)
	}
}

// agree finds the larger program that p goes with for longest, and what is in use when the two part. It returns nil if there is none. homes are
// borrowed. Caller holds the shard.
func (st *steps) agree(p *stepProgram, homes []home) *agreement {
	var best *stepProgram
	most := 0
	for _, q := range st.programs {
		if !alikeAgain(p, q) || q.slots == nil || q.dirty || q.alive() < p.alive() {
			continue
		}
		if n := alike(p, q); n > most {
			best, most = q, n
		}
	}
	if best == nil {
		return nil
	}
	l := &agreement{with: best, places: map[int]slotPlace{}, size: best.size}
	for _, i := range together(p, best, most) {
		if at, ok := best.slots[i].place(); ok && (at.home == nil || lends(homes, at.home)) {
			l.places[i] = at
		}
	}
	l.disentangle(p)
	return l
}

// disagree has those programs placed again that begin like p, and give places to others while p has its blocks there; the smaller ones that have blocks elsewhere
// than p has them when they part; and a larger one that did not know p, and that nothing was found to agree with. Caller holds the shard.
func (st *steps) disagree(p, clash *stepProgram) {
	if clash != nil && clash.slots != nil && !slices.Contains(clash.heeds, p) {
		clash.placeAgain()
	}
	for _, q := range st.programs {
		if !alikeAgain(p, q) || q.slots == nil {
			continue
		}
		n := alike(p, q)
		for i := range n {
			if q.slots[i].b != nil && min(p.ends[i], int32(n)) > q.until[i] {
				q.placeAgain()
			}
		}
		if q.alive() >= p.alive() {
			continue
		}
		for _, i := range together(p, q, n) {
			x, known := p.slots[i].place()
			if y, ok := q.slots[i].place(); known && ok && x != y {
				q.placeAgain()
			}
		}
	}
}

// until is how long the blocks of p need their places: as long as p may have them, or, where programs begin alike, as long as any of those has them until they
// part. Caller holds the shard.
func (st *steps) until(p *stepProgram) []int32 {
	ends := slices.Clone(p.ends)
	for _, q := range st.programs {
		if !alikeAgain(p, q) {
			continue
		}
		n := alike(p, q)
		for i := range n {
			if ends[i] != 0 && !q.stays[i] {
				ends[i] = max(ends[i], min(q.ends[i], int32(n)))
			}
		}
	}
	return ends
}

// heed lists the requests whose blocks smaller programs that begin like p have in use when they part from it. Caller holds the shard.
func (st *steps) heed(p *stepProgram) (list []int) {
	p.heeds = nil
	for _, q := range st.programs {
		if alikeAgain(p, q) && q.alive() <= p.alive() {
			list = append(list, q.aliveAt(alike(p, q))...)
			p.heeds = append(p.heeds, q)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// aliveAt are the requests before the n-th whose blocks are in use when that comes.
func (p *stepProgram) aliveAt(n int) (list []int) {
	for i := range n {
		if int(p.ends[i]) > n && !p.stays[i] {
			list = append(list, i)
		}
	}
	return list
}

// together are the requests before the n-th whose blocks one of two programs that begin alike has in use when that comes.
func together(p, q *stepProgram, n int) []int {
	list := append(p.aliveAt(n), q.aliveAt(n)...)
	slices.Sort(list)
	return slices.Compact(list)
}

// place is where a slot is; false if the plan has none for the request.
func (s *slot) place() (slotPlace, bool) {
	switch {
	case s.b == nil:
		return slotPlace{}, false
	case s.home == nil:
		return slotPlace{at: s.end - s.size}, true
	}
	return slotPlace{s.home, uint64(s.b.ptr - s.home.ptr)}, true
}

func lends(homes []home, b *block) bool {
	return slices.ContainsFunc(homes, func(h home) bool { return h.b == b && h.ends == nil })
}

// disentangle leaves out what would overlap: all are in use at once when the programs part, though perhaps not by the other program.
func (l *agreement) disentangle(p *stepProgram) {
	requests := make([]int, 0, len(l.places))
	for i := range l.places {
		requests = append(requests, i)
	}
	slices.SortFunc(requests, func(i, j int) int { return cmp.Or(cmp.Compare(l.places[i].at, l.places[j].at), cmp.Compare(i, j)) })
	end := map[*block]uint64{}
	for _, i := range requests {
		x := l.places[i]
		if x.at < end[x.home] {
			delete(l.places, i)
			continue
		}
		end[x.home] = x.at + p.sizes[i]
	}
}

// agreeing is how much larger a placement may be that agrees with another program's.
const agreeing = 1.01

// fits reports whether a size takes no more than the other program's, or hardly more than a bound.
func (l *agreement) fits(size, bound uint64) bool {
	return size <= max(l.size, uint64(agreeing*float64(bound)))
}

// of lists the places of buffers; index says which request each is.
func (l *agreement) of(index []int) (list []keptPlace) {
	if l == nil {
		return nil
	}
	for k, i := range index {
		if x, ok := l.places[i]; ok {
			list = append(list, keptPlace{k, x})
		}
	}
	return list
}

// offsets are those of the buffers of the arena; index says which request each is.
func (l *agreement) offsets(index []int) map[int]uint64 {
	at := map[int]uint64{}
	for k, i := range index {
		if x, ok := l.places[i]; ok && x.home == nil {
			at[k] = x.at
		}
	}
	return at
}

// packBelow tries to place the blocks of shared requests below all others, in several orders, and returns best if that needs more memory.
func (k *packing) packBelow(shared []int, best places) places {
	var buffers []int
	for i, request := range k.index {
		if _, ok := slices.BinarySearch(shared, request); ok {
			buffers = append(buffers, i)
		}
	}
	if len(buffers) == 0 {
		return best
	}
	k.improve /= 2
	for _, before := range []func(x, y plan.Buffer) int{
		func(x, y plan.Buffer) int { return cmp.Compare(x.From, y.From) },
		func(x, y plan.Buffer) int { return cmp.Compare(y.From, x.From) },
		func(x, y plan.Buffer) int { return cmp.Compare(y.To, x.To) },
		func(x, y plan.Buffer) int { return cmp.Compare(y.Size, x.Size) },
	} {
		slices.SortStableFunc(buffers, func(i, j int) int { return before(k.q.Buffers[i], k.q.Buffers[j]) })
		if r := k.pack(k.bottom(buffers)); r.err == nil && r.Size <= uint64(agreeing*float64(best.Size)) {
			return r
		}
	}
	return best
}

// bottom are offsets of buffers, each the lowest beside those before it and between pins.
func (k *packing) bottom(buffers []int) map[int]uint64 {
	r, at := &room{}, map[int]uint64{}
	for _, p := range k.pins {
		r.put(lodging{Buffer: plan.Buffer{Size: p.size, To: k.q.Cycle}, at: p.at})
	}
	for _, i := range buffers {
		b := k.q.Buffers[i]
		at[i], _ = firstFit(r.in, b, unlimited, k.q.Cycle)
		r.put(lodging{b, i, at[i]})
	}
	return at
}
