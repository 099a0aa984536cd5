package memory

import (
	"fmt"
	"slices"
	"strings"
)

// naive is PyTorch's allocator in the plainest form that the rules allow: a list of segments, linear searches, one statistic
// moved at a time, a device that is three numbers. It has nothing of Caching but the types of its settings and statistics.
// What a caller can see of the two must be equal: places, statistics with their peaks, driver calls, the final segments.
type naive struct {
	conf     Config
	limit    uint64 // 0 is none
	capacity uint64
	used     uint64 // of the capacity
	numbers  int    // segments made so far
	segments []*naiveSegment
	searches map[bool]uint64 // by pool, true is large: the clock of garbage collection
	put      map[int]uint64  // pieces of work enqueued on each stream
	done     map[int]uint64  // of them finished
	queues   map[int][]naiveEvent
	later    []*naiveBlock // freed, by somebody who may not wait
	stats    Stats
	log      []string // driver calls, as sim.Call.LogLine writes them
}

type naiveSegment struct {
	number int
	stream int
	large  bool
	size   uint64
	page   uint64 // 0 if the segment is not expandable
	blocks []*naiveBlock
}

type naiveEvent struct {
	at    uint64 // position on the stream
	block *naiveBlock
}

func newNaive(capacity uint64, conf Config) *naive {
	n := &naive{
		capacity: capacity, searches: map[bool]uint64{}, put: map[int]uint64{}, done: map[int]uint64{},
		queues: map[int][]naiveEvent{},
	}
	n.setConfig(conf)
	return n
}

func (n *naive) setConfig(c Config) {
	n.conf = c
	if c.LargeSegmentBytes == 0 {
		n.conf.LargeSegmentBytes = 20 * mib
	}
	if c.MaxNonSplitRoundingBytes == 0 {
		n.conf.MaxNonSplitRoundingBytes = n.conf.LargeSegmentBytes
	}
	n.stats.MaxSplitSize = -1
	if c.MaxSplitBytes == 0 {
		n.conf.MaxSplitBytes = unlimited
	} else {
		n.stats.MaxSplitSize = int64(c.MaxSplitBytes)
	}
}

// round is the block size of a request, found by counting up.
func (n *naive) round(request uint64) uint64 {
	if request < 512 {
		return 512
	}
	octave, power := 0, uint64(1)
	for 2*power <= request {
		power *= 2
		octave++
	}
	step := uint64(512)
	if d := uint64(n.conf.RoundupDivisions[min(max(octave-20, 0), 15)]); d > 1 && request > 512*d {
		step = power / d
	}
	size := power
	if step == 512 {
		size = 512
	}
	for size < request {
		size += step * max(1, (request-size)/step/2) // not a step at a time: requests are large
	}
	return size
}

func (n *naive) segmentSize(size uint64) uint64 {
	switch {
	case size <= mib:
		return 2 * mib
	case size < 10*mib:
		return n.conf.LargeSegmentBytes
	}
	return (size + 2*mib - 1) / (2 * mib) * (2 * mib)
}

// alloc returns nil when the memory cannot be had.
func (n *naive) alloc(bytes uint64, stream int) *naiveBlock {
	n.poll()
	if bytes >= 1<<60 {
		n.stats.NumOOMs++
		return nil
	}
	size := n.round(bytes)
	large := size > mib
	if n.limit != 0 && n.conf.GarbageCollectionThreshold > 0 {
		n.searches[large]++
	}
	b := n.search(stream, large, size)
	if b == nil {
		b = n.grow(stream, large, size)
	}
	if b == nil {
		n.stats.NumOOMs++
		return nil
	}
	return n.handOut(b, size, bytes)
}

// grow is everything that may follow when no cached block serves.
func (n *naive) grow(stream int, large bool, size uint64) *naiveBlock {
	n.collect()
	if b := n.attempt(stream, large, size); b != nil {
		return b
	}
	if n.releaseOversize(stream, large, size) {
		if b := n.attempt(stream, large, size); b != nil {
			return b
		}
	}
	n.releaseAll()
	n.stats.NumAllocRetries++
	if b := n.attempt(stream, large, size); b != nil {
		return b
	}
	return n.search(stream, large, size) // of what waited for other streams' work
}

func (n *naive) free(b *naiveBlock) {
	large := b.seg.large
	bump(&n.stats.Allocation, large, -1)
	bump(&n.stats.AllocatedBytes, large, -int64(b.size))
	if b.size >= n.conf.MaxSplitBytes {
		bumpOne(&n.stats.OversizeAllocations, -1)
	}
	if len(b.users) == 0 {
		n.complete(b)
		return
	}
	b.state = statePending
	for _, s := range b.users {
		n.put[s]++
		n.queues[s] = append(n.queues[s], naiveEvent{n.put[s], b})
		b.events++
	}
	b.users = nil
}

// freeLater is a free that the next call which looks at events makes.
func (n *naive) freeLater(b *naiveBlock) {
	n.stats.NumDeferredFrees++
	n.later = append(n.later, b)
}

func (n *naive) drain() {
	later := n.later
	n.later = nil
	for _, b := range later {
		n.free(b)
	}
}

// complete is the end of a free.
func (n *naive) complete(b *naiveBlock) {
	large := b.seg.large
	bump(&n.stats.Active, large, -1)
	bump(&n.stats.ActiveBytes, large, -int64(b.size))
	bump(&n.stats.RequestedBytes, large, -int64(b.requested))
	b.requested = 0
	count, bytes := n.merge(b, stateCached)
	if !b.whole() {
		count, bytes = count+1, bytes+int64(b.size)
	}
	if b.seg.page == 0 {
		bump(&n.stats.InactiveSplit, large, count)
		bump(&n.stats.InactiveSplitBytes, large, bytes)
	}
	n.cache(b)
}

func (n *naive) record(b *naiveBlock, stream int) {
	if stream != b.seg.stream && !slices.Contains(b.users, stream) {
		b.users = append(b.users, stream)
	}
}

// bump moves a statistic for all and for one pool.
func bump(arr *StatArray, large bool, n int64) {
	bumpOne(&arr.All, n)
	if large {
		bumpOne(&arr.LargePool, n)
	} else {
		bumpOne(&arr.SmallPool, n)
	}
}

func bumpOne(s *Stat, n int64) {
	s.Current += n
	if n > 0 {
		s.Allocated += n
	} else {
		s.Freed -= n
	}
	if s.Current > s.Peak {
		s.Peak = s.Current
	}
}

// picture is Caching's drawing.
func (n *naive) picture() string {
	var s strings.Builder
	for _, seg := range n.segments {
		pool := "small"
		if seg.large {
			pool = "large"
		}
		fmt.Fprintf(&s, "segment %d  %s  %s pool  stream %d\n", seg.number, pictureBytes(seg.size), pool, seg.stream)
		for _, b := range seg.blocks {
			fmt.Fprintf(&s, "| %s %s ", pictureBytes(b.size), b.state)
			if b.state == statePending {
				fmt.Fprintf(&s, "(%d events) ", b.events)
			}
		}
		s.WriteString("|\n")
	}
	return s.String()
}
