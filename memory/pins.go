package memory

import (
	"slices"

	"github.com/cistern-ml/cistern/memory/plan"
)

// A block that the plan has placed may live for longer than its step, and for good: the states of another model's optimizer, say, which were asked for as the
// gradients of the first one had been. Those whose places it has would be refused in each step from then on. So the programs are placed anew, around such blocks: they
// are pins.

// pinAge is how many steps after its own a block is taken to stay, if it is in use still.
const pinAge = 2

// pin is a part of the arena that is not to be had, in bytes from its beginning.
type pin struct{ at, size uint64 }

func (st *steps) isOld(b *block) bool { return st.epoch-b.step >= pinAge }

// pins are the blocks of old steps in the arena, by address. Caller holds the shard.
func (st *steps) pins() (list []pin) {
	for _, b := range st.left {
		if b.slot.home == nil && st.isOld(b) {
			list = append(list, pin{uint64(b.ptr - st.arena.seg.ptr), b.size})
		}
	}
	return list
}

// pinned are the blocks of old steps in borrowed memory, by address. Caller holds the shard.
func (st *steps) pinned() map[*block][]*block {
	in := map[*block][]*block{}
	for _, b := range st.left {
		if h := b.slot.home; h != nil && st.isOld(b) {
			in[h] = append(in[h], b)
		}
	}
	return in
}

// repin has the programs placed anew if the step that is over refused requests while blocks of old steps had places of the plan, or if there are fewer of those than
// the programs were placed around. The more often that has been so, the longer it waits for the next time: what lives for three steps comes again and again. Caller holds
// the shard.
func (st *steps) repin(refused bool) {
	if st.repins.waits() {
		return
	}
	most := 0
	for _, p := range st.programs {
		if p.slots != nil {
			most = max(most, p.pins)
		}
	}
	if !st.repins.again(refused && slices.ContainsFunc(st.left, st.isOld) || most > len(st.pins())) {
		return
	}
	for _, p := range st.programs {
		p.dirty = true
	}
	st.expect()
}

// gaps are the parts of a borrowed block that no block of old steps has, which are by address.
func gaps(b *block, old []*block) (list []home) {
	from := uint64(0)
	look := func(to uint64) {
		if to >= from+leastLent {
			list = append(list, home{b: b, at: from, size: to - from})
		}
	}
	for _, x := range old {
		at := uint64(x.ptr - b.ptr)
		look(at)
		from = at + x.size
	}
	look(b.size)
	return list
}

// around adds pins to what is to be placed, and to what has its place.
func (k *packing) around(kept map[int]uint64) (plan.Problem, map[int]uint64) {
	if len(k.pins) == 0 {
		return k.q, kept
	}
	q, all := k.q, map[int]uint64{}
	for i, at := range kept {
		if !k.hits(at, q.Buffers[i].Size) {
			all[i] = at
		}
	}
	q.Buffers = slices.Clone(q.Buffers)
	for _, p := range k.pins {
		all[len(q.Buffers)] = p.at
		q.Buffers = append(q.Buffers, plan.Buffer{Size: p.size, To: q.Cycle})
	}
	return q, all
}

// hits reports whether a pin has some of so many bytes of the arena.
func (k *packing) hits(at, size uint64) bool {
	return slices.ContainsFunc(k.pins, func(p pin) bool { return at < p.at+p.size && p.at < at+size })
}
