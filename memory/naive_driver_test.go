package memory

import (
	"cmp"
	"fmt"
	"slices"
)

// This file is the side of naive that speaks to the device: events, new segments, expandable segments, giving back.

func (n *naive) logf(format string, args ...any) { n.log = append(n.log, fmt.Sprintf(format, args...)) }

// poll makes the frees that were put off, and completes frees from the front of each queue up to the first event that has not completed. Streams are walked from
// the highest number.
func (n *naive) poll() {
	n.drain()
	for _, s := range n.queuedStreams() {
		for len(n.queues[s]) > 0 && n.queues[s][0].at <= n.done[s] {
			n.pop(s)
		}
	}
}

func (n *naive) queuedStreams() []int {
	var streams []int
	for s := range n.queues {
		streams = append(streams, s)
	}
	slices.SortFunc(streams, func(x, y int) int { return cmp.Compare(y, x) })
	return streams
}

func (n *naive) pop(stream int) {
	e := n.queues[stream][0]
	n.queues[stream] = n.queues[stream][1:]
	if e.block.events--; e.block.events == 0 {
		n.complete(e.block)
	}
}

// sync waits for all events: each wait finishes the work before it.
func (n *naive) sync() {
	n.stats.NumSyncAllStreams++
	for _, s := range n.queuedStreams() {
		for len(n.queues[s]) > 0 {
			n.done[s] = max(n.done[s], n.queues[s][0].at)
			n.pop(s)
		}
	}
}

// completeStream finishes the work on a stream.
func (n *naive) completeStream(s int) { n.done[s] = n.put[s] }

// attempt asks the device for a segment.
func (n *naive) attempt(stream int, large bool, size uint64) *naiveBlock {
	bytes := n.segmentSize(size)
	if n.limit != 0 && uint64(n.stats.ReservedBytes.All.Current)+bytes > n.limit {
		return nil
	}
	if n.conf.ExpandableSegments {
		return n.expand(stream, large, size)
	}
	if n.used+bytes > n.capacity {
		n.logf("X %d", bytes)
		return nil
	}
	n.used += bytes
	seg := n.addSegment(stream, large, bytes, 0)
	n.logf("M %d %d", seg.number, bytes)
	bump(&n.stats.ReservedBytes, large, int64(bytes))
	bump(&n.stats.Segment, large, 1)
	n.stats.NumDeviceAlloc++
	if bytes >= n.conf.MaxSplitBytes {
		bumpOne(&n.stats.OversizeSegments, 1)
	}
	return seg.blocks[0]
}

func (n *naive) addSegment(stream int, large bool, size, page uint64) *naiveSegment {
	seg := &naiveSegment{number: n.numbers, stream: stream, large: large, size: size, page: page}
	seg.blocks = []*naiveBlock{{seg: seg, size: size}}
	n.numbers++
	n.segments = append(n.segments, seg)
	return seg
}

func (n *naive) dropSegment(seg *naiveSegment) {
	n.segments = slices.DeleteFunc(n.segments, func(s *naiveSegment) bool { return s == seg })
}

// release gives a plain segment back.
func (n *naive) release(b *naiveBlock) {
	seg := b.seg
	n.dropSegment(seg)
	n.used -= seg.size
	n.logf("F %d", seg.number)
	bump(&n.stats.ReservedBytes, seg.large, -int64(seg.size))
	bump(&n.stats.Segment, seg.large, -1)
	n.stats.NumDeviceFree++
	if seg.size >= n.conf.MaxSplitBytes {
		bumpOne(&n.stats.OversizeSegments, -1)
	}
}

// allCached lists the free blocks of a pool on all streams.
func (n *naive) allCached(large bool) []*naiveBlock {
	var streams []int
	for _, seg := range n.segments {
		streams = append(streams, seg.stream)
	}
	slices.Sort(streams)
	var list []*naiveBlock
	for _, s := range slices.Compact(streams) {
		list = append(list, n.cached(s, large)...)
	}
	return list
}

func (n *naive) releaseAll() {
	n.drain()
	n.sync()
	for _, large := range []bool{true, false} {
		for _, b := range n.allCached(large) {
			if b.seg.page == 0 && b.whole() {
				n.release(b)
			}
		}
		for _, b := range n.allCached(large) {
			if b.seg.page != 0 {
				n.trim(b)
			}
		}
	}
}

// collect is garbage collection.
func (n *naive) collect() {
	reserved := uint64(n.stats.ReservedBytes.All.Current)
	threshold := uint64(n.conf.GarbageCollectionThreshold * float64(n.limit))
	if n.limit == 0 || n.conf.GarbageCollectionThreshold == 0 || reserved <= threshold {
		return
	}
	age := func(b *naiveBlock) uint64 { return n.searches[true] - b.gcBase }
	var sum, reclaimed uint64
	blocks := slices.DeleteFunc(n.allCached(true), func(b *naiveBlock) bool { return !b.whole() })
	for _, b := range blocks {
		sum += age(b)
	}
	for freed := true; freed && reclaimed < reserved-threshold && len(blocks) > 0; {
		freed = false
		average := float64(sum) / float64(len(blocks))
		for _, b := range slices.Clone(blocks) {
			if b.seg.page == 0 && float64(age(b)) >= average {
				n.release(b)
				freed, reclaimed, sum = true, reclaimed+b.size, sum-age(b)
				blocks = slices.DeleteFunc(blocks, func(x *naiveBlock) bool { return x == b })
			}
		}
	}
}

// releaseOversize gives just enough oversize blocks of one pool back.
func (n *naive) releaseOversize(stream int, large bool, size uint64) bool {
	if n.conf.MaxSplitBytes == unlimited {
		return false
	}
	key := max(size, n.conf.MaxSplitBytes)
	list := n.cached(stream, large)
	i := slices.IndexFunc(list, func(b *naiveBlock) bool { return b.size >= key })
	if i >= 0 && list[i].seg.page == 0 && list[i].whole() {
		n.release(list[i])
		return true
	}
	if i < 0 {
		i = len(list)
	}
	var sum uint64
	for i--; i >= 0 && sum < key && list[i].size >= n.conf.MaxSplitBytes; i-- {
		if list[i].seg.page == 0 && list[i].whole() {
			n.release(list[i])
			sum += list[i].size
		}
	}
	return sum >= key
}
