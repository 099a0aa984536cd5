package plan

// holes are the free ranges of addresses below a top, above which all is free: the free list of the sweep. Neighbours are always joined,
// and none touches the top.
type holes struct {
	top    uint64
	byAddr *treap // (address, bytes)
	bySize *treap // (bytes, address); nil unless best fit is wanted
}

func newHoles(best bool) *holes {
	h := &holes{byAddr: newTreap()}
	if best {
		h.bySize = newTreap()
	}
	return h
}

func (h *holes) insert(at, size uint64) {
	h.byAddr.insert(at, size)
	if h.bySize != nil {
		h.bySize.insert(size, at)
	}
}

func (h *holes) remove(at, size uint64) {
	h.byAddr.remove(at, size)
	if h.bySize != nil {
		h.bySize.remove(size, at)
	}
}

// find returns the lowest hole of at least size bytes, or with best fit the smallest.
func (h *holes) find(size uint64) (at, room uint64, ok bool) {
	if h.bySize != nil {
		room, at, ok = h.bySize.from(size, 0)
		return at, room, ok
	}
	return h.byAddr.firstLarge(0, size)
}

// next returns the hole after one that find or next returned, in the same order.
func (h *holes) next(at, room, size uint64) (uint64, uint64, bool) {
	if h.bySize != nil {
		room, at, ok := h.bySize.from(room, at+1)
		return at, room, ok
	}
	return h.byAddr.firstLarge(at+1, size)
}

// take takes [at, at+size) out of the hole of room bytes at hole.
func (h *holes) take(hole, room, at, size uint64) {
	h.remove(hole, room)
	if at > hole {
		h.insert(hole, at-hole)
	}
	if end := at + size; end < hole+room {
		h.insert(end, hole+room-end)
	}
}

// push takes [at, at+size) above the top.
func (h *holes) push(at, size uint64) {
	if at > h.top {
		h.insert(h.top, at-h.top)
	}
	h.top = at + size
}

// claim takes [at, at+size), which must be free.
func (h *holes) claim(at, size uint64) {
	if at >= h.top {
		h.push(at, size)
		return
	}
	hole, room, _ := h.byAddr.before(at+1, 0)
	h.take(hole, room, at, size)
}

// free gives [at, at+size) back.
func (h *holes) free(at, size uint64) {
	if below, room, ok := h.byAddr.before(at, 0); ok && below+room == at {
		h.remove(below, room)
		at, size = below, size+room
	}
	if at+size == h.top {
		h.top = at
		return
	}
	if above, room, ok := h.byAddr.from(at+size, 0); ok && above == at+size {
		h.remove(above, room)
		size += room
	}
	h.insert(at, size)
}
