package memtest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
)

var statsTests = []test{
	{"CurrentPeakAllocatedFreedMoveAsTheyShould", testStatsMove},
	{"RequestedBytesAreWhatCallersAskedFor", testStatsRequested},
	{"AllIsTheSumOfThePools", testStatsPools},
}

// arrays lists the statistics that exist by pool.
func arrays(s memory.Stats) map[string]memory.StatArray {
	return map[string]memory.StatArray{
		"allocation": s.Allocation, "segment": s.Segment, "active": s.Active, "inactive_split": s.InactiveSplit,
		"allocated_bytes": s.AllocatedBytes, "reserved_bytes": s.ReservedBytes, "active_bytes": s.ActiveBytes,
		"inactive_split_bytes": s.InactiveSplitBytes, "requested_bytes": s.RequestedBytes,
	}
}

// contradiction returns what does not hold although it must for the statistics of any allocator at any time, or "".
func contradiction(s memory.Stats) string {
	switch {
	case s.ReservedBytes.All.Current < s.ActiveBytes.All.Current:
		return "reserved < active"
	case s.ActiveBytes.All.Current < s.AllocatedBytes.All.Current:
		return "active < allocated"
	case s.ActiveBytes.All.Current < s.RequestedBytes.All.Current:
		return "active < requested"
	case s.Active.All.Current < s.Allocation.All.Current:
		return "fewer blocks active than allocated"
	}
	for name, arr := range arrays(s) {
		for _, st := range [...]memory.Stat{arr.All, arr.SmallPool, arr.LargePool} {
			if st.Current < 0 || st.Peak < st.Current || st.Current != st.Allocated-st.Freed {
				return fmt.Sprintf("%s is %+v", name, st)
			}
		}
	}
	return ""
}

func testStatsMove(f *fixture) {
	a := f.take(3*device.MiB, f.streams[0])
	b := f.take(5*device.MiB, f.streams[0])
	sum := int64(a.block.Size() + b.block.Size())
	f.give(a)
	f.give(f.take(device.MiB, f.streams[0]))
	f.give(b)
	s := f.alloc.Stats()
	require.Equal(f.t, memory.Stat{Current: 0, Peak: 2, Allocated: 3, Freed: 3}, s.Allocation.All)
	require.Equal(f.t, sum, s.AllocatedBytes.All.Peak)
	require.Equal(f.t, s.AllocatedBytes.All.Allocated, s.AllocatedBytes.All.Freed)
	require.Positive(f.t, s.NumDeviceAlloc)
	require.Equal(f.t, memory.Stat{Peak: 2, Allocated: 3, Freed: 3}, s.Active.All)
}

func testStatsRequested(f *fixture) {
	a := f.take(1000, f.streams[0])
	b := f.take(2*device.MiB+1, f.streams[1])
	require.EqualValues(f.t, 1000+2*device.MiB+1, f.alloc.Stats().RequestedBytes.All.Current)
	f.give(a)
	require.EqualValues(f.t, 2*device.MiB+1, f.alloc.Stats().RequestedBytes.All.Current)
	f.give(b)
	require.Zero(f.t, f.alloc.Stats().RequestedBytes.All.Current)
}

func testStatsPools(f *fixture) {
	f.take(1000, f.streams[0])
	f.take(3*device.MiB, f.streams[1])
	f.give(f.take(12*device.MiB, f.streams[2]))
	for name, arr := range arrays(f.alloc.Stats()) {
		if arr.SmallPool == (memory.Stat{}) && arr.LargePool == (memory.Stat{}) {
			continue // not kept by pool
		}
		require.Equal(f.t, arr.All.Current, arr.SmallPool.Current+arr.LargePool.Current, "%s", name)
		require.Equal(f.t, arr.All.Allocated, arr.SmallPool.Allocated+arr.LargePool.Allocated, "%s", name)
		require.LessOrEqual(f.t, arr.All.Peak, arr.SmallPool.Peak+arr.LargePool.Peak, "%s", name)
	}
	f.giveAll()
}
