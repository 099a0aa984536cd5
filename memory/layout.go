package memory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fpstack"
)

// segmentLayout is a copy of a segment, from which snapshots and pictures are made when the locks are free again.
type segmentLayout struct {
	number     uint64 // how many segments the allocator took before
	ptr        device.Ptr
	size       uint64 // of an expandable one, the range of addresses
	kind       poolKind
	expandable bool
	stream     device.StreamID
	pool       PoolID
	stack      fpstack.ID
	blocks     []blockLayout // by address; they fill the segment
}

type blockLayout struct {
	ptr       device.Ptr
	size      uint64
	requested uint64
	state     blockState
	events    int32
	stack     fpstack.ID

	generation uint64
}

// layout copies the segments of a private pool, or all if want is nil, the oldest first. Caller holds a.mu and all shards.
func (a *Caching) layout(want *Pool) []segmentLayout {
	list := make([]segmentLayout, 0, len(a.segments))
	for _, seg := range a.segments {
		if want != nil && seg.shard.pool != want {
			continue
		}
		l := segmentLayout{number: seg.reg, ptr: seg.ptr, size: seg.size, kind: seg.kind, expandable: seg.vm != nil,
			stream: seg.shard.id(), pool: seg.shard.poolID(), stack: seg.stack}
		for b := seg.head; b != nil; b = b.next {
			if b.state == stateLent {
				l.blocks = append(l.blocks, seg.shard.steps.partsOf(b)...)
				continue
			}
			l.blocks = append(l.blocks, blockLayout{ptr: b.ptr, size: b.size, requested: b.requested, state: b.state,
				events: b.events, stack: b.stack, generation: b.generation})
		}
		list = append(list, l)
	}
	for _, sh := range *a.shards.Load() {
		if want == nil {
			list = append(list, sh.steps.layout()...)
		}
	}
	slices.SortFunc(list, func(x, y segmentLayout) int { return cmp.Compare(x.number, y.number) })
	return list
}

// picture draws the segments now.
func (a *Caching) picture() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	shards := a.lockShards()
	defer unlockShards(shards)
	return drawSegments(a.layout(nil))
}

// drawSegments draws segments in the form of doc.go, of the scripted tests, and of bug reports.
func drawSegments(segments []segmentLayout) string {
	var s strings.Builder
	for _, seg := range segments {
		fmt.Fprintf(&s, "segment %d  %s  %s pool  stream %d\n", seg.number, pictureBytes(seg.size), seg.kind, seg.stream)
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

// pictureBytes writes a size exactly, in the largest unit that divides it.
func pictureBytes(n uint64) string {
	switch {
	case n%(512*kib) == 0 && n >= mib:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/mib), ".0") + " MiB"
	case n%minBlock == 0 && n >= kib:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/kib), ".0") + " KiB"
	}
	return fmt.Sprintf("%d B", n)
}
