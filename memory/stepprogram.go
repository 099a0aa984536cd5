package memory

import (
	"slices"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/plan"
)

// program is a step that was learned: its requests, how long each block lives, and, once it was placed, where each one goes.
type stepProgram struct {
	sizes    []uint64
	ends     []int32   // as in entry, the latest seen; 0 if not known
	stays    []bool    // blocks that live until the same request of the next step, or longer: they are no part of the plan
	brief    []brief   // of those: how it has been since
	seconds  []seconds // and of those that were asked for beside an older one
	used     uint32    // the last step that had these requests
	served   uint32    // the last step that had places of it, although it may have gone another way
	away     uint32    // the longest time after which another one had them, in steps
	proven   bool      // another step had them
	needs    uint64    // how much would be reserved with the placement in force. It is not while a step takes less without it
	had      uint64    // how much was reserved at once in the last step that had these requests and was not served
	seizes   int       // steps in which it had memory that others have places in, as it has none
	insists  bool      // it is to have places in the arena, whatever becomes of others
	lost     int       // times that its places were taken back, lately,
	lostIn   uint32    // the last time in this step,
	waitsFor uint32    // and for so many steps it has no others
	least    uint64    // how much of what is placed is alive at once, if measured; see alive
	measured bool
	dirty    bool // lifetimes have changed since it was placed
	stale    bool // its slots are of lifetimes before, as those of now, around so many pins, needed too much
	around   int
	agreed   int       // times in a row that it was to be placed again for the sake of others
	attempt  int       // at a placement that does not need too much
	again    time.Time // until then there is none, as it would take too much time in vain
	alone    bool      // no memory is borrowed for it: the step took it back before it was known where things go
	placed   *placement
	heeds    []*stepProgram // those that begin alike, and were known when it was placed
	until    []int32        // how long its blocks have their places, if placed: ends, or longer for the sake of those

	slots []slot // as placed; none before
	turns []turn // of the slots
	size  uint64 // of the arena that it needs
	bound uint64 // the least that any placement needs
	pins  int    // that it was placed around
}

// slot is the place of one request. Its block is nil if the plan has none for it.
type slot struct {
	size   uint64
	b      *block  // an object of its own, used again in each step
	home   *block  // the lent block that it is in; nil in the arena
	end    uint64  // of the bytes, in the arena; 0 elsewhere
	before []int32 // slots that had its bytes last in the step
	turn   *turn
	left   bool // listed in steps.left
}

// bytes are those of the arena that a slot has.
func (s *slot) bytes() run { return run{s.end - min(s.end, s.size), s.end} }

// holds reports whether all of a slot that has a place in the arena has memory.
func (ar *arena) holds(s *slot) bool {
	return s.end <= ar.memory.head || ar.memory.has(s.end-s.size, s.end)
}

// turn is what other slots ask about a slot, for each request: twice the last step that it was handed out in, and one more while its block is in use, or pending. Beside
// each other, all of a program's are in the processor's nearest cache.
type turn uint32

func takenIn(epoch uint32) turn { return turn(epoch<<1 | 1) }

// over is the turn of a slot that was handed out in a step, and whose block is free again.
func over(epoch uint32) turn { return turn(epoch << 1) }

func (t turn) taken() bool { return t&1 != 0 }

// free makes it that of a slot whose block is free.
func (t *turn) free() { *t &^= 1 }

// placement is what package plan finds for a program, in the background.
type placement struct {
	like   *agreement // with a larger program, if there is one that begins alike
	shared []int      // requests whose blocks smaller programs that begin alike have in use when they part from this one
	until  []int32    // see stepProgram
	pins   []pin      // where no block can go
	room   uint64     // bytes that the arena has for other programs in turn
	low    bool       // what is in use for long should lie low, see lower
	done   chan struct{}
	late   bool          // a step has waited for it in vain
	took   time.Duration // when done is closed

	places              // when done is closed
	clash  *stepProgram // the larger program, if nothing was found that agrees with it
}

// places are where blocks go.
type places struct {
	index    []int    // the request of each buffer of the arena
	homes    []lodger // those in borrowed memory
	stitches []newStitch
	plan.Placement
	err error
}

// hashSizes is FNV-1a over the sizes.
func hashSizes(entries []entry) uint64 {
	h := uint64(14695981039346656037)
	for _, e := range entries {
		h = (h ^ e.size) * 1099511628211
	}
	return h
}

// learn makes a program of a recording.
func learn(r *stepRecord) *stepProgram {
	p := &stepProgram{sizes: make([]uint64, len(r.entries)), ends: make([]int32, len(r.entries)), stays: make([]bool, len(r.entries)), brief: make([]brief, len(r.entries)), seconds: make([]seconds, len(r.entries)), dirty: true}
	for i, e := range r.entries {
		p.sizes[i] = e.size
	}
	return p
}

// has reports whether a recording has the program's requests.
func (p *stepProgram) has(r *stepRecord) bool {
	entries, sizes := r.entries, p.sizes
	if len(entries) != len(sizes) {
		return false
	}
	for i := range entries {
		if entries[i].size != sizes[i] {
			return false
		}
	}
	return true
}

// begins reports whether a step that had some requests, and now has one of a size, may be this program's.
func (p *stepProgram) begins(so []entry, size uint64) bool {
	if len(p.sizes) <= len(so) || p.sizes[len(so)] != size {
		return false
	}
	for i, e := range so {
		if p.sizes[i] != e.size {
			return false
		}
	}
	return true
}

// merge takes in the lifetimes of a recording that is over, but for the blocks that the next step may free. Lifetimes only grow: so blocks that live now
// shorter, now longer have a place for the longer time.
func (p *stepProgram) merge(r *stepRecord) {
	r.open = r.open[:0]
	entries := r.entries
	ends, stays := p.ends[:len(entries)], p.stays[:len(entries)]
	for i := range entries {
		e := &entries[i]
		if e.end != 0 && e.end <= ends[i] && !stays[i] { // steps that are all the same teach nothing
			continue
		}
		if e.end == 0 {
			r.open = append(r.open, int32(i))
		}
		p.lived(i, *e, false)
	}
}

// mergeLate takes in the lifetimes of the blocks that were in use when the recording ended: they had another step to be freed in.
func (p *stepProgram) mergeLate(r *stepRecord) {
	for _, i := range r.open {
		p.lived(int(i), r.entries[i], true)
	}
}

// lived takes in how long the block of a request lived; over says that it is in use still if that is not known.
func (p *stepProgram) lived(i int, e entry, over bool) {
	n := int32(len(p.sizes))
	switch {
	case e.renewed:
	case p.stays[i]:
		if e.second && !over {
			p.seconds[i].lived(e.end, n)
		}
		if p.brief[i].again(e.end, n) {
			p.stays[i], p.ends[i] = false, p.brief[i].end
			p.changed()
		}
	case e.end > n && e.end > int32(i)+n-n/8 || e.end == 0 && over: // there when the next step begins, and nearly always
		p.stays[i] = true
		p.changed()
	case e.end > p.ends[i]:
		p.ends[i] = e.end
		p.changed()
	case e.end == 0 && p.ends[i] < n: // gradients, as a rule: the next step begins with freeing them
		p.ends[i] = n
		p.changed()
	}
}

// brief is how long the blocks of a request lived that are no part of the plan because one of them has stayed: in one step that was unlike all others, perhaps.
type brief struct {
	times  int32 // in a row that they were gone at the end of their step
	enough int32 // times until they are planned again: many more after each that has stayed since
	end    int32 // the latest, as in entry
}

// firstBrief is how many times that must have been at first.
const firstBrief = 4

// relapse is how many times as long it takes after each of them that has stayed: what does so twice does it again, and placing others anew each time costs more than its place is worth.
const relapse = 64

// again takes in when one was free, in a step of n requests, and reports whether they are to be planned again.
func (b *brief) again(end, n int32) bool {
	if end == 0 || end > n {
		b.times, b.end = 0, 0
		return false
	}
	b.times, b.end = b.times+1, max(b.end, end)
	b.enough = max(b.enough, firstBrief)
	if b.times < b.enough {
		return false
	}
	b.times, b.enough = 0, min(relapse*b.enough, lastSettled)
	return true
}

// outlived looks at what the step before left, now that the next one begins to work. merge has taken all that was in use at its end for
// gradients that go with the next step; what is in use still is something else. Many in a row are states that an optimizer has made, once. A few at the end are
// the batch of the next step, which has memory all the time. Those of the sizes of parameters are gradients that are kept and added to: those that follow in their place are given back at once.
// Others are what variables of a loop hold until they are set anew, such as a batch, a loss and what it was computed of: how long those that follow live is not known.
func (st *steps) outlived(before func() map[uint64]int) {
	p := st.last.program
	if p == nil || p.slots != nil || p.proven {
		return
	}
	n := len(p.sizes)
	kept := func(i int) bool { return i < n && st.last.entries[i].end == 0 && !p.stays[i] && int(p.ends[i]) == n }
	var alone []int
	for i := 0; i < n; i++ {
		from := i
		for kept(i) {
			i++
		}
		for k := from; k < i; k++ {
			p.ends[k] = 0
			p.changed()
			switch {
			case i-from >= lookahead:
			case i == n:
				p.stays[k] = true
			default:
				alone = append(alone, k)
			}
		}
	}
	if len(alone) == 0 {
		return
	}
	parameters := before()
	for _, k := range slices.Backward(alone) { // of as many as there are parameters the last ones
		if parameters[p.sizes[k]] == 0 {
			continue
		}
		parameters[p.sizes[k]]--
		p.ends[k] = int32(min(k+briefly, n))
	}
}

// inUseBefore is how many blocks of each size are in use from before the step that is over. Caller holds a.mu and the shard.
func (a *Caching) inUseBefore(sh *shard) map[uint64]int {
	sizes := map[uint64]int{}
	p := a.policy.Load()
	for _, seg := range a.segments {
		if seg.shard != sh {
			continue
		}
		for b := seg.head; b != nil; b = b.next {
			if b.state == stateAllocated && (b.entry == 0 || sh.steps.epoch-b.step > 1) {
				sizes[p.blockSize(b.requested)]++
			}
		}
	}
	return sizes
}

// briefly is how long a block is taken to live of which nothing is known but that it goes soon, in requests.
const briefly = 3

// once reports whether a request may be one of the first step alone, such as for an optimizer's state: its block has outlived the step, and
// none that followed it.
func (p *stepProgram) once(i int) bool { return p.ends[i] == 0 && !p.proven }

// changed notes that lifetimes have.
func (p *stepProgram) changed() { p.dirty, p.measured, p.agreed = true, false, 0 }

// mostAgreed is how often that is tried.
const mostAgreed = 8

// placeAgain has a program placed again for the sake of others, unless nothing has come of that so far.
func (p *stepProgram) placeAgain() {
	if p.dirty || p.agreed == mostAgreed {
		return
	}
	p.dirty = true
	p.agreed++
}

// alive is how much of what is to be placed is alive at once, in bytes.
func (p *stepProgram) alive() uint64 {
	if !p.measured {
		q, _ := p.problem()
		p.least, p.measured = q.Bound(), true
	}
	return p.least
}

// problem is what is to be placed, and which request each buffer is.
func (p *stepProgram) problem() (plan.Problem, []int) { return p.problemWith(p.ends) }

func (p *stepProgram) problemWith(ends []int32) (plan.Problem, []int) {
	q := plan.Problem{Cycle: len(p.sizes)}
	var index []int
	for i, size := range p.sizes {
		if p.ends[i] != 0 && !p.stays[i] {
			q.Buffers = append(q.Buffers, plan.Buffer{Size: size, From: i, To: int(ends[i])})
			index = append(index, i)
		}
	}
	return q, index
}

// arrange makes the slots of a placement. Blocks of the slots before that are in use stay what they are.
func (p *stepProgram) arrange(pl *placement, sh *shard, seg *segment) {
	p.slots, p.turns, p.size, p.until, p.pins = make([]slot, len(p.sizes)), make([]turn, len(p.sizes)), pl.Size, pl.until, len(pl.pins)
	at := make([]uint64, len(p.sizes)) // in a space of the arena and, behind it, the lent blocks
	for i, size := range p.sizes {
		p.slots[i].size, p.slots[i].turn = size, &p.turns[i]
	}
	for k, i := range pl.index {
		s := &p.slots[i]
		s.end, at[i] = pl.Offsets[k]+s.size, pl.Offsets[k]
		s.makeBlock(sh, seg, seg.ptr.Add(pl.Offsets[k]), largePool)
	}
	bases, next := map[*block]uint64{}, pl.Size
	for _, l := range pl.homes {
		if _, ok := bases[l.home]; !ok {
			bases[l.home], next = next, next+l.home.size
		}
		s := &p.slots[l.request]
		s.home, at[l.request] = l.home, bases[l.home]+l.offset
		s.makeBlock(sh, l.home.seg, l.home.ptr.Add(l.offset), l.home.kind)
	}
	var (
		last   occupants
		before []int32 // of all slots, one after the other
		ends   = make([]int, len(p.slots))
	)
	for i, s := range p.slots {
		if s.b != nil {
			before = last.take(before, at[i], at[i]+s.size, int32(i))
		}
		ends[i] = len(before)
	}
	from := 0
	for i, end := range ends {
		p.slots[i].before, from = before[from:end:end], end
	}
}

func (s *slot) makeBlock(sh *shard, seg *segment, ptr device.Ptr, k poolKind) {
	s.b = &block{shard: sh}
	s.b.size, s.b.ptr, s.b.reg, s.b.kind, s.b.seg = s.size, ptr, seg.reg, k, seg
	s.b.state, s.b.slot = stateVacant, s
}

// occupants says who had each byte of the arena last: runs by address, without gaps between what was ever used.
type occupants []occupant

type occupant struct {
	from, to uint64
	slot     int32
}

// take gives [from, to) to a slot, and appends those that had parts of it to list, each once.
func (o *occupants) take(list []int32, from, to uint64, slot int32) []int32 {
	first, _ := slices.BinarySearchFunc(*o, from, func(r occupant, at uint64) int {
		if r.to <= at {
			return -1
		}
		return 1
	})
	end, start := first, len(list)
	runs := []occupant{{from, to, slot}}
	for ; end < len(*o) && (*o)[end].from < to; end++ {
		r := (*o)[end]
		if !slices.Contains(list[start:], r.slot) {
			list = append(list, r.slot)
		}
		if r.from < from {
			runs = slices.Insert(runs, 0, occupant{r.from, from, r.slot})
		}
		if r.to > to {
			runs = append(runs, occupant{to, r.to, r.slot})
		}
	}
	*o = slices.Replace(*o, first, end, runs...)
	return list
}
