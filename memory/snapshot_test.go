package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

func TestSnapshot_HasSegmentsByAddressWithTheirBlocks(t *testing.T) {
	r := newRig(t, gib, "")
	a := r.alloc(3*mib, 2)
	b := r.alloc(5*mib, 2)
	r.alloc(1000, 1)
	r.record(a, 1)
	r.free(a)
	s := r.a.Snapshot()
	require.Len(t, s.Segments, 2)
	large, small := s.Segments[0], s.Segments[1]
	require.Equal(t, SegmentInfo{
		Device: r.dev.ID().Index, Address: a.Ptr(), TotalSize: 20 * mib, AllocatedSize: 5 * mib, ActiveSize: 8 * mib,
		RequestedSize: 8 * mib, Stream: 2, Type: "large",
	}, withoutDetails(large))
	require.Equal(t, []blockSummary{
		{a.Ptr(), 3 * mib, 3 * mib, ActivePendingFree}, {b.Ptr(), 5 * mib, 5 * mib, ActiveAllocated},
		{b.Ptr().Add(5 * mib), 12 * mib, 0, Inactive},
	}, blockSummaries(large))
	require.Equal(t, SegmentInfo{
		Device: r.dev.ID().Index, Address: small.Address, TotalSize: 2 * mib, AllocatedSize: 1024, ActiveSize: 1024,
		RequestedSize: 1000, Stream: 1, Type: "small",
	}, withoutDetails(small))
}

// blockSummary is what of a BlockInfo does not depend on recorded history.
type blockSummary struct {
	address   device.Ptr
	size      uint64
	requested uint64
	state     BlockState
}

func blockSummaries(s SegmentInfo) []blockSummary {
	var list []blockSummary
	for _, b := range s.Blocks {
		list = append(list, blockSummary{b.Address, b.Size, b.RequestedSize, b.State})
	}
	return list
}

// withoutDetails leaves the blocks out, and what only recorded history fills.
func withoutDetails(s SegmentInfo) SegmentInfo {
	return SegmentInfo{
		Device: s.Device, Address: s.Address, TotalSize: s.TotalSize, AllocatedSize: s.AllocatedSize, ActiveSize: s.ActiveSize,
		RequestedSize: s.RequestedSize, Stream: s.Stream, Type: s.Type, Expandable: s.Expandable,
	}
}

// An expandable range has an entry for each run of pages.
func TestSnapshot_ShowsTheMappedRunsOfARange(t *testing.T) {
	r := newRig(t, 200*mib, expandable)
	a, b, c := r.alloc(20*mib, 0), r.alloc(40*mib, 0), r.alloc(30*mib, 0)
	r.free(b)
	r.empty()
	s := r.a.Snapshot()
	require.Len(t, s.Segments, 2)
	require.Equal(t, SegmentInfo{
		Device: r.dev.ID().Index, Address: a.Ptr(), TotalSize: 20 * mib, AllocatedSize: 20 * mib, ActiveSize: 20 * mib,
		RequestedSize: 20 * mib, Type: "large", Expandable: true,
	}, withoutDetails(s.Segments[0]))
	require.Equal(t, SegmentInfo{
		Device: r.dev.ID().Index, Address: c.Ptr(), TotalSize: 40 * mib, AllocatedSize: 30 * mib, ActiveSize: 30 * mib,
		RequestedSize: 30 * mib, Type: "large", Expandable: true,
	}, withoutDetails(s.Segments[1]))
}

func TestSnapshot_OfAnUnusedAllocatorIsEmpty(t *testing.T) {
	r := newRig(t, gib, "")
	require.Empty(t, r.a.Snapshot().Segments)
}
