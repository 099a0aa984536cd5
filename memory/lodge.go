package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/cistern-ml/cistern/memory/plan"
)

// Before the arena is planned, borrowed memory is filled with buffers of the step: what they take away from the arena at its fullest costs
// nothing. Where pages can be mapped twice, the ends of pages between blocks that stay are joined to ranges long enough for large
// buffers (stitch.go).

// home is borrowed memory: a block, or a part of one at an offset.
type home struct {
	b     *block
	at    uint64
	size  uint64
	pages uint64 // the bytes that can be given back of it
	ends  []pageEnd
}

// pageEnd is a part of a borrowed block, at an offset, of which a stitch can be made: its last byte, or its first, is that of a page.
type pageEnd struct {
	b        *block // nil for none
	at, size uint64
	first    bool // of a page, so it is the last of a stitch
	whole    bool // it is all of the block, whose size is not to be asked while places are computed: it may be taken back
}

// homeOf describes borrowed memory.
func homeOf(b *block) home {
	h := home{b: b, size: b.size}
	if b.expandable() {
		if from, to := b.wholePages(); from < to {
			h.pages = uint64(to - from)
		}
	}
	return h
}

// newStitch is a stitch that a placement wants: one of the two ends may be none.
type newStitch struct {
	head, tail pageEnd
	pages      uint64 // bytes of its own between them
}

// lodger is a request whose place is in borrowed memory.
type lodger struct {
	request int
	home    *block
	stitch  int // of the placement's, if home is nil
	offset  uint64
}

// lodgings is borrowed memory while it is filled.
type lodgings struct {
	q            *plan.Problem
	order        []int // buffers, the largest first
	load         load  // of the arena
	rooms        []*room
	heads, tails []pageEnd
	stitching
}

// room is memory for buffers: what is borrowed, or a stitch that is to be made.
type room struct {
	home
	stitch *newStitch
	in     []lodging // by offset
}

// lodging is a buffer at an offset.
type lodging struct {
	plan.Buffer
	buffer int
	at     uint64
}

// lodge fills homes with buffers of q, and takes those out of it. index says which request each buffer is; those of the buffers that stay
// come back. With pages of a size, not 0, it also proposes stitches, if less memory is needed with them. What has a place by like stays there.
func lodge(ctx context.Context, q *plan.Problem, index []int, homes []home, page uint64, improve time.Duration, like *agreement) (rest []int, lodgers []lodger, stitches []newStitch) {
	keep := like.of(index)
	best := fill(ctx, q, homes, stitching{}, keep)
	if page != 0 {
		best = fillWithStitches(ctx, q, homes, page, improve, keep, best)
	}
	gone := make([]bool, len(q.Buffers))
	for _, r := range best.rooms {
		if len(r.in) == 0 {
			continue
		}
		if r.stitch != nil {
			stitches = append(stitches, *r.stitch)
		}
		for _, x := range r.in {
			gone[x.buffer] = true
			lodgers = append(lodgers, lodger{index[x.buffer], r.b, len(stitches) - 1, r.home.at + x.at})
		}
	}
	var stay []plan.Buffer
	for i, b := range q.Buffers {
		if !gone[i] {
			stay, rest = append(stay, b), append(rest, index[i])
		}
	}
	q.Buffers = stay
	return rest, lodgers, stitches
}

// stitching is a way to make stitches. No single one is the best for all programs.
type stitching struct {
	page      uint64 // bytes; 0 if pages are not mapped twice
	mostPages uint64 // of its own that a stitch may have
	thrift    int64  // what a byte of a page's end counts that a stitch leaves unused, against one that it uses
}

// fillWithStitches tries several ways, the first one to its end and the others as long as there is time, and returns what needs the least memory.
func fillWithStitches(ctx context.Context, q *plan.Problem, homes []home, page uint64, improve time.Duration, keep []keptPlace, best *lodgings) *lodgings {
	rest, cancel := context.WithTimeout(ctx, improve)
	defer cancel()
	within := ctx
	for _, most := range []uint64{unlimited, 32, 8, 2, 1} {
		for _, thrift := range []int64{1, 0, 4} {
			if within.Err() != nil {
				return best
			}
			if l := fill(within, q, homes, stitching{page, most, thrift}, keep); l.total(page) < best.total(page) {
				best = l
			}
			within = rest
		}
	}
	return best
}

// fill always looks at the time when the arena would hold most, and takes the largest buffer alive then that finds room.
func fill(ctx context.Context, q *plan.Problem, homes []home, way stitching, keep []keptPlace) *lodgings {
	l := &lodgings{q: q, load: loadOf(q), stitching: way, order: make([]int, len(q.Buffers))}
	for i := range l.order {
		l.order[i] = i
	}
	slices.SortStableFunc(l.order, func(i, j int) int { return cmp.Compare(q.Buffers[j].Size, q.Buffers[i].Size) })
	for _, h := range homes {
		if way.page == 0 || h.ends == nil {
			l.add(&room{home: h})
			continue
		}
		for _, e := range h.ends {
			if e.first {
				l.tails = append(l.tails, e)
			} else {
				l.heads = append(l.heads, e)
			}
		}
	}
	l.heads, l.tails = longest(l.heads), longest(l.tails)
	done := make([]bool, len(l.order)) // lodged, or without room for ever
	for _, k := range keep {
		l.keep(k, done)
	}
	for ctx.Err() == nil && l.next(done) {
	}
	for _, r := range slices.Backward(l.rooms) {
		if l.worthless(r) {
			r.in = nil
		}
	}
	return l
}

// keep leaves a buffer where it is: in the arena, or in a room.
func (l *lodgings) keep(k keptPlace, done []bool) {
	done[k.buffer] = true
	if k.home == nil {
		return
	}
	b := l.q.Buffers[k.buffer]
	for _, r := range l.rooms {
		if r.b == k.home && k.at >= r.home.at && k.at+b.Size <= r.home.at+r.size {
			r.put(lodging{b, k.buffer, k.at - r.home.at})
			l.load.add(b, -1)
			return
		}
	}
	done[k.buffer] = false // nobody lends it any more
}

// put adds a buffer.
func (r *room) put(x lodging) {
	r.in = append(r.in, x)
	slices.SortFunc(r.in, func(x, y lodging) int { return cmp.Compare(x.at, y.at) })
}

// mostEnds is how many ends of pages of each kind are tried for a stitch: all pairs of them are looked at.
const mostEnds = 64

func longest(ends []pageEnd) []pageEnd {
	slices.SortStableFunc(ends, func(x, y pageEnd) int { return cmp.Compare(y.size, x.size) })
	return ends[:min(len(ends), mostEnds)]
}

// add keeps rooms sorted by size, so that the first with room is the smallest.
func (l *lodgings) add(r *room) {
	i, _ := slices.BinarySearchFunc(l.rooms, r.size, func(x *room, size uint64) int {
		if x.size <= size {
			return -1
		}
		return 1
	})
	l.rooms = slices.Insert(l.rooms, i, r)
}

// next lodges one buffer. It reports false if none that is alive at the arena's fullest finds room.
func (l *lodgings) next(done []bool) bool {
	at := l.load.busiest()
	for _, i := range l.order {
		b := l.q.Buffers[i]
		if done[i] || !meet(b, plan.Buffer{From: at, To: at + 1}, l.q.Cycle) {
			continue
		}
		done[i] = true
		r, offset := l.roomFor(b)
		if r == nil {
			if r = l.join(b.Size); r == nil {
				continue
			}
			l.add(r)
		}
		r.put(lodging{b, i, offset})
		l.load.add(b, -1)
		return true
	}
	return false
}

// roomFor finds the smallest room for a buffer, and where in it.
func (l *lodgings) roomFor(b plan.Buffer) (*room, uint64) {
	for _, r := range l.rooms {
		if b.Size <= r.size {
			if at, ok := firstFit(r.in, b, r.size, l.q.Cycle); ok {
				return r, at
			}
		}
	}
	return nil, 0
}

// join makes a room for size bytes of two ends of pages, or one, and as many pages between as are needed: those that hold the most of
// it and are left with the least. It returns nil if no pages would be saved.
func (l *lodgings) join(size uint64) *room {
	best, head, tail := int64(-1)<<62, -1, -1
	for i := -1; i < len(l.heads); i++ {
		for j := -1; j < len(l.tails); j++ {
			ends := endsOf(l.heads, i) + endsOf(l.tails, j)
			pages := roundUp(size-min(size, ends), max(l.page, 1))
			if ends == 0 || pages >= size || pages/max(l.page, 1) > l.mostPages {
				continue
			}
			held := int64(size - pages)
			if score := held - l.thrift*(int64(ends)-held); score > best {
				best, head, tail = score, i, j
			}
		}
	}
	if head < 0 && tail < 0 {
		return nil
	}
	s := &newStitch{head: take(&l.heads, head), tail: take(&l.tails, tail)}
	ends := s.head.size + s.tail.size
	s.pages = roundUp(size-min(size, ends), l.page)
	for _, e := range []pageEnd{s.head, s.tail} {
		if e.size == ends && e.whole && s.pages == 0 { // all of a block alone
			return &room{home: home{b: e.b, size: ends}}
		}
	}
	return &room{home: home{size: ends + s.pages, pages: s.pages}, stitch: s}
}

// take takes an end out of a list.
func take(list *[]pageEnd, i int) (e pageEnd) {
	if i >= 0 {
		e = (*list)[i]
		*list = slices.Delete(*list, i, i+1)
	}
	return e
}

// endsOf is the size of an end of a page, 0 for none.
func endsOf(list []pageEnd, i int) uint64 {
	if i < 0 {
		return 0
	}
	return list[i].size
}

// total is how much memory the step needs, but for what can not be given back.
func (l *lodgings) total(page uint64) (bytes uint64) {
	for _, r := range l.rooms {
		if len(r.in) != 0 {
			bytes += r.pages
		}
	}
	return bytes + roundUp(uint64(l.load[l.load.busiest()]), page)
}

// worthless reports whether the arena would grow by less without a room than can be given back of it: then it counts what is there. It
// leaves the load as it is then, and else unchanged.
func (l *lodgings) worthless(r *room) bool {
	before := l.load[l.load.busiest()]
	for _, x := range r.in {
		l.load.add(x.Buffer, 1)
	}
	if l.load[l.load.busiest()]-before < int64(r.pages) {
		return true
	}
	for _, x := range r.in {
		l.load.add(x.Buffer, -1)
	}
	return false
}

// firstFit finds the lowest offset for a buffer beside others, which are by offset.
func firstFit(here []lodging, b plan.Buffer, size uint64, cycle int) (at uint64, ok bool) {
	for _, l := range here {
		if l.at >= at+b.Size {
			break
		}
		if l.at+l.Size > at && meet(l.Buffer, b, cycle) {
			at = l.at + l.Size
		}
	}
	return at, at+b.Size <= size
}

// meet reports whether two buffers are alive at the same time.
func meet(x, y plan.Buffer, cycle int) bool {
	return x.From < y.To && y.From < x.To || x.From+cycle < y.To || y.From+cycle < x.To
}

// load is how many bytes are alive at each time of a step.
type load []int64

func loadOf(q *plan.Problem) load {
	l := make(load, max(q.Cycle, 1))
	for _, b := range q.Buffers {
		l.add(b, 1)
	}
	return l
}

// add counts a buffer, or takes it away with sign -1.
func (l load) add(b plan.Buffer, sign int64) {
	for t := b.From; t < b.To; t++ {
		l[t%len(l)] += sign * int64(b.Size)
	}
}

// busiest is the first time at which most is alive.
func (l load) busiest() (at int) {
	for t, n := range l {
		if n > l[at] {
			at = t
		}
	}
	return at
}
