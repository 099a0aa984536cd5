package memory

import (
	"cmp"
	"slices"

	"github.com/cistern-ml/cistern/device"
)

// Snapshot is the state of an allocator at one moment.
type Snapshot struct {
	Segments []SegmentInfo `json:"segments"` // by address
}

// SegmentInfo is one segment: a piece of memory got from the driver.
type SegmentInfo struct {
	Device        int             `json:"device"`
	Address       device.Ptr      `json:"address"`
	TotalSize     uint64          `json:"total_size"`
	AllocatedSize uint64          `json:"allocated_size"` // held by callers
	ActiveSize    uint64          `json:"active_size"`    // and freed, but waiting for events
	RequestedSize uint64          `json:"requested_size"` // what callers asked for, of the active blocks
	Stream        device.StreamID `json:"stream"`
	Type          string          `json:"segment_type"` // "small" or "large"
	PoolID        [2]uint64       `json:"segment_pool_id"`
	Expandable    bool            `json:"is_expandable"`
	Blocks        []BlockInfo     `json:"blocks"` // by address; their sizes add up to TotalSize
}

// BlockInfo is one block of a segment.
type BlockInfo struct {
	Address       device.Ptr `json:"address"`
	Size          uint64     `json:"size"`
	RequestedSize uint64     `json:"requested_size"` // 0 when inactive
	State         BlockState `json:"state"`
}

// BlockState is where a block stands, in PyTorch's words.
type BlockState string

// The states of blocks in a snapshot.
const (
	ActiveAllocated   BlockState = "active_allocated"    // held by a caller
	ActivePendingFree BlockState = "active_pending_free" // freed, waiting for events
	Inactive          BlockState = "inactive"            // cached
)

// Snapshot returns the segments and their blocks.
func (a *Caching) Snapshot() Snapshot { return a.snapshot(nil) }

// snapshot is Snapshot of one private pool, or of everything.
func (a *Caching) snapshot(want *Pool) Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	shards := a.lockShards()
	defer unlockShards(shards)
	var s Snapshot
	for _, seg := range a.segments {
		if want == nil || seg.shard.pool == want {
			s.Segments = append(s.Segments, a.segmentInfos(seg)...)
		}
	}
	slices.SortFunc(s.Segments, func(x, y SegmentInfo) int { return cmp.Compare(x.Address, y.Address) })
	return s
}

// segmentInfos describes a segment; an expandable one has an entry for each run of mapped blocks.
func (a *Caching) segmentInfos(seg *segment) []SegmentInfo {
	var infos []SegmentInfo
	var cur *SegmentInfo
	for b := seg.head; b != nil; b = b.next {
		if b.state == stateUnmapped {
			cur = nil
			continue
		}
		if cur == nil {
			infos = append(infos, SegmentInfo{Device: a.id.Index, Address: b.ptr, Stream: seg.shard.id, Type: seg.kind.String(),
				PoolID: seg.shard.poolID(), Expandable: seg.vm != nil})
			cur = &infos[len(infos)-1]
		}
		cur.add(b)
	}
	return infos
}

func (s *SegmentInfo) add(b *block) {
	info := BlockInfo{Address: b.ptr, Size: b.size, State: Inactive}
	s.TotalSize += b.size
	if b.state != stateCached {
		info.RequestedSize, info.State = b.requested, ActivePendingFree
		s.ActiveSize += b.size
		s.RequestedSize += b.requested
	}
	if b.state == stateAllocated {
		info.State = ActiveAllocated
		s.AllocatedSize += b.size
	}
	s.Blocks = append(s.Blocks, info)
}
