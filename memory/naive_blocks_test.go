package memory

import (
	"cmp"
	"slices"
)

// This file is what naive does with blocks: search, split, hand out, merge.

// naiveBlock is a piece of a segment.
type naiveBlock struct {
	seg          *naiveSegment
	offset, size uint64
	requested    uint64
	state        blockState
	users        []int
	events       int
	gcBase       uint64
}

// cached lists the free blocks of a stream's pool by size, age and address.
func (n *naive) cached(stream int, large bool) []*naiveBlock {
	var list []*naiveBlock
	for _, seg := range n.segments {
		if seg.stream != stream || seg.large != large {
			continue
		}
		for _, b := range seg.blocks {
			if b.state == stateCached {
				list = append(list, b)
			}
		}
	}
	slices.SortFunc(list, func(x, y *naiveBlock) int {
		return cmp.Or(cmp.Compare(x.size, y.size), cmp.Compare(x.seg.number, y.seg.number), cmp.Compare(x.offset, y.offset))
	})
	return list
}

func (n *naive) search(stream int, large bool, size uint64) *naiveBlock {
	list := n.cached(stream, large)
	i := slices.IndexFunc(list, func(b *naiveBlock) bool { return b.size >= size })
	if i < 0 {
		return nil
	}
	if n.conf.ExpandableSegments {
		for list[i].seg.page != 0 && i+1 < len(list) && list[i+1].growable() < list[i].growable() {
			i++
		}
	} else {
		for list[i].seg.page != 0 {
			if i++; i == len(list) {
				return nil
			}
		}
	}
	b := list[i]
	if size < n.conf.MaxSplitBytes && b.size >= n.conf.MaxSplitBytes {
		return nil
	}
	if size >= n.conf.MaxSplitBytes && b.size >= size+n.conf.MaxNonSplitRoundingBytes {
		return nil
	}
	return b
}

// growable is a block's size with the unmapped range behind it.
func (b *naiveBlock) growable() uint64 {
	if next := b.neighbour(1); next != nil && next.state == stateUnmapped {
		return b.size + next.size
	}
	return b.size
}

func (b *naiveBlock) index() int { return slices.Index(b.seg.blocks, b) }

func (b *naiveBlock) neighbour(step int) *naiveBlock {
	i := b.index() + step
	if i < 0 || i >= len(b.seg.blocks) {
		return nil
	}
	return b.seg.blocks[i]
}

func (b *naiveBlock) whole() bool { return len(b.seg.blocks) == 1 }

// cut divides b after size bytes and returns the second part.
func (b *naiveBlock) cut(size uint64) *naiveBlock {
	rest := &naiveBlock{seg: b.seg, offset: b.offset + size, size: b.size - size, state: b.state, gcBase: b.gcBase}
	b.seg.blocks = slices.Insert(b.seg.blocks, b.index()+1, rest)
	b.size = size
	return rest
}

// absorb makes a neighbour part of b.
func (b *naiveBlock) absorb(other *naiveBlock) {
	b.offset = min(b.offset, other.offset)
	b.size += other.size
	i := other.index()
	b.seg.blocks = slices.Delete(b.seg.blocks, i, i+1)
}

func (n *naive) handOut(b *naiveBlock, size, requested uint64) *naiveBlock {
	large, plain, wasSplit := b.seg.large, b.seg.page == 0, !b.whole()
	rest := b.size - size
	split := rest > mib && size < n.conf.MaxSplitBytes
	if !large || n.conf.ExpandableSegments {
		split = rest >= 512
	}
	switch {
	case split:
		n.cache(b.cut(size))
		if plain && wasSplit {
			bump(&n.stats.InactiveSplitBytes, large, -int64(size))
		} else if plain {
			bump(&n.stats.InactiveSplitBytes, large, int64(rest))
			bump(&n.stats.InactiveSplit, large, 1)
		}
	case plain && wasSplit:
		bump(&n.stats.InactiveSplitBytes, large, -int64(b.size))
		bump(&n.stats.InactiveSplit, large, -1)
	}
	b.state, b.requested = stateAllocated, requested
	bump(&n.stats.Allocation, large, 1)
	bump(&n.stats.AllocatedBytes, large, int64(b.size))
	bump(&n.stats.Active, large, 1)
	bump(&n.stats.ActiveBytes, large, int64(b.size))
	bump(&n.stats.RequestedBytes, large, int64(requested))
	if b.size >= n.conf.MaxSplitBytes {
		bumpOne(&n.stats.OversizeAllocations, 1)
	}
	return b
}

// cache marks b free.
func (n *naive) cache(b *naiveBlock) {
	b.state, b.gcBase = stateCached, n.searches[b.seg.large]
}

// merge takes the neighbours in a state into b and returns how that changes the number and bytes of others.
func (n *naive) merge(b *naiveBlock, state blockState) (count, bytes int64) {
	for _, step := range []int{-1, 1} {
		if other := b.neighbour(step); other != nil && other.state == state {
			count, bytes = count-1, bytes-int64(other.size)
			b.absorb(other)
		}
	}
	return count, bytes
}
