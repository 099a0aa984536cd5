package memory

// This file is the expandable segments of naive.

// expand maps pages behind the first run of free and unmapped blocks that is long enough, or into a new range.
func (n *naive) expand(stream int, large bool, size uint64) *naiveBlock {
	b := n.room(stream, large, size)
	if b == nil {
		page := uint64(2 * mib)
		if large {
			page = (n.conf.LargeSegmentBytes + 2*mib - 1) / (2 * mib) * (2 * mib)
		}
		bytes := (n.capacity + n.capacity/8 + page - 1) / page * page
		if bytes < size {
			return nil
		}
		seg := n.addSegment(stream, large, bytes, page)
		seg.blocks[0].state = stateUnmapped
		n.logf("R %d %d", seg.number, bytes)
		b = seg.blocks[0]
	}
	if b.state == stateUnmapped && !n.mapPages(b, size) {
		return nil
	}
	for b.size < size {
		next := b.neighbour(1)
		if !n.mapPages(next, size-b.size) {
			return nil
		}
		b = next // it has absorbed b
	}
	return b
}

func (n *naive) room(stream int, large bool, size uint64) *naiveBlock {
	for _, seg := range n.segments {
		if seg.stream != stream || seg.large != large || seg.page == 0 {
			continue
		}
		for i, b := range seg.blocks {
			if b.state != stateUnmapped {
				continue
			}
			if i > 0 && seg.blocks[i-1].state == stateCached {
				i--
			}
			var sum uint64
			for _, c := range seg.blocks[i:] {
				if c.state != stateCached && c.state != stateUnmapped {
					break
				}
				sum += c.size
			}
			if sum >= size {
				return seg.blocks[i]
			}
		}
	}
	return nil
}

// mapPages puts memory behind the front of an unmapped block. It takes all pages before it maps the first.
func (n *naive) mapPages(b *naiveBlock, want uint64) bool {
	page := b.seg.page
	size := min((want+page-1)/page*page, b.size)
	for taken := page; taken <= size; taken += page {
		if n.used+taken > n.capacity {
			n.logf("x %d", page)
			return false
		}
	}
	n.used += size
	for at := b.offset; at < b.offset+size; at += page {
		n.logf("P %d %d %d", b.seg.number, at, page)
	}
	if size < b.size {
		b.cut(size)
	}
	n.merge(b, stateCached)
	n.cache(b)
	bump(&n.stats.ReservedBytes, b.seg.large, int64(size))
	n.stats.NumDeviceAlloc++
	return true
}

// trim unmaps the whole pages inside a free block, after the work on its stream.
func (n *naive) trim(b *naiveBlock) {
	seg, page := b.seg, b.seg.page
	from, to := (b.offset+page-1)/page*page, (b.offset+b.size)/page*page
	if from >= to {
		return
	}
	n.completeStream(seg.stream)
	for at := from; at < to; at += page {
		n.logf("U %d %d %d", seg.number, at, page)
	}
	n.used -= to - from
	if from > b.offset {
		rest := b.cut(from - b.offset)
		n.cache(b)
		b = rest
	}
	if b.offset+b.size > to {
		n.cache(b.cut(to - b.offset))
	}
	b.state = stateUnmapped
	n.merge(b, stateUnmapped)
	bump(&n.stats.ReservedBytes, seg.large, -int64(to-from))
	n.stats.NumDeviceFree++
	if b.whole() {
		n.logf("r %d %d", seg.number, seg.size)
		n.dropSegment(seg)
	}
}
