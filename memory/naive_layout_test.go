package memory

import "slices"

// This file is what naive knows of exact addresses and of checkpoints.

// transient runs steps of which callers see only the end: what is counted adds up over all steps, and a peak is one of the end.
func (n *naive) transient(steps func()) {
	var before []int64
	each := func(f func(s *Stat)) {
		for _, arr := range n.stats.arrays() {
			arr.each(f)
		}
		f(&n.stats.OversizeAllocations)
	}
	each(func(s *Stat) { before = append(before, s.Peak) })
	steps()
	each(func(s *Stat) { s.Peak, before = max(before[0], s.Current), before[1:] })
}

// allocAt takes the bytes at an offset of a segment out of the free block that has them all; nil if there is none.
func (n *naive) allocAt(bytes uint64, stream int, seg *naiveSegment, offset uint64) (got *naiveBlock) {
	n.poll()
	size := n.round(bytes)
	large := size > mib
	i := slices.IndexFunc(seg.blocks, func(b *naiveBlock) bool {
		return b.state == stateCached && b.offset <= offset && offset+size <= b.offset+b.size
	})
	if i < 0 || seg.stream != stream || seg.large != large {
		return nil
	}
	n.transient(func() {
		b := seg.blocks[i]
		var prefix *naiveBlock
		if b.offset < offset {
			prefix = n.handOutExactly(b, offset-b.offset, offset-b.offset)
			b = prefix.neighbour(1)
		}
		got = n.handOut(b, size, bytes)
		if prefix != nil {
			n.free(prefix)
		}
	})
	return got
}

// handOutExactly is handOut that splits off whatever is left.
func (n *naive) handOutExactly(b *naiveBlock, size, requested uint64) *naiveBlock {
	conf := n.conf
	defer func() { n.conf = conf }()
	if b.size > size {
		n.conf.ExpandableSegments = true
	}
	oversize := size >= conf.MaxSplitBytes
	n.conf.MaxSplitBytes = unlimited
	b = n.handOut(b, size, requested)
	if oversize {
		bumpOne(&n.stats.OversizeAllocations, 1)
	}
	return b
}

// naiveLayout is a checkpoint.
type naiveLayout struct {
	seg    *naiveSegment
	blocks []naiveBlock
}

// idle reports whether no block waits for other streams, or will.
func (n *naive) idle(users bool) bool {
	for _, seg := range n.segments {
		for _, b := range seg.blocks {
			if b.state == statePending || users && len(b.users) > 0 {
				return false
			}
		}
	}
	return true
}

func (n *naive) checkpoint() (list []naiveLayout) {
	for _, seg := range n.segments {
		l := naiveLayout{seg: seg}
		for _, b := range seg.blocks {
			l.blocks = append(l.blocks, *b)
		}
		list = append(list, l)
	}
	return list
}

// restore frees everything, then allocates all blocks of each layout, and frees those that were free in it. It returns those that
// were not, and false if a segment is gone.
func (n *naive) restore(layouts []naiveLayout) (live []*naiveBlock, ok bool) {
	for _, l := range layouts {
		if !slices.Contains(n.segments, l.seg) {
			return nil, false
		}
	}
	n.transient(func() {
		for _, seg := range n.segments {
			for i := 0; i < len(seg.blocks); i++ {
				if b := seg.blocks[i]; b.state == stateAllocated {
					n.free(b)
					i = b.index()
				}
			}
		}
		for _, l := range layouts {
			var gaps []*naiveBlock
			for i, was := range l.blocks {
				requested := was.requested
				if was.state == stateCached {
					requested = was.size
				}
				b := n.handOutExactly(l.seg.blocks[i], was.size, requested)
				if was.state == stateCached {
					gaps = append(gaps, b)
				} else {
					live = append(live, b)
				}
			}
			for _, b := range gaps {
				n.free(b)
			}
		}
	})
	return live, true
}
