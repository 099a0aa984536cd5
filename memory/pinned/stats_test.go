package pinned

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

// requireStats compares the statistics, times left out, but for their counts.
func (r *rig) requireStats(want Stats) {
	r.t.Helper()
	got := r.p.Stats()
	want.HostAllocTime.Count, want.HostFreeTime.Count = want.NumHostAlloc, want.NumHostFree
	got.HostAllocTime = DurationStat{Count: got.HostAllocTime.Count}
	got.HostFreeTime = DurationStat{Count: got.HostFreeTime.Count}
	require.Equal(r.t, want, got)
}

// counts is a Stat in the order current, peak, allocated, freed.
func counts(current, peak, allocated, freed int64) memory.Stat {
	return memory.Stat{Current: current, Peak: peak, Allocated: allocated, Freed: freed}
}

// test_host_memory_stats: 10*1024 float32 are 64 KiB, 20*1024 are 128 KiB.
func TestPinnedStats_OfTwoAllocations(t *testing.T) {
	const one, both = 64 * kib, 192 * kib
	r := newRig(t, "")
	r.requireStats(Stats{})

	a := r.alloc(10 * 1024 * 4)
	r.requireStats(Stats{Allocations: counts(1, 1, 1, 0), ActiveRequests: counts(1, 1, 1, 0),
		AllocatedBytes: counts(one, one, one, 0), ActiveBytes: counts(one, one, one, 0), NumHostAlloc: 1})

	b := r.alloc(20 * 1024 * 4)
	two := Stats{Allocations: counts(2, 2, 2, 0), ActiveRequests: counts(2, 2, 2, 0),
		AllocatedBytes: counts(both, both, both, 0), ActiveBytes: counts(both, both, both, 0), NumHostAlloc: 2}
	r.requireStats(two)
	r.empty()
	r.requireStats(two)

	r.free(a, b)
	r.requireStats(Stats{Allocations: counts(2, 2, 2, 0), ActiveRequests: counts(0, 2, 2, 2),
		AllocatedBytes: counts(both, both, both, 0), ActiveBytes: counts(0, both, both, both), NumHostAlloc: 2})
	a = r.alloc(10 * 1024 * 4) // reused: no driver call
	r.requireStats(Stats{Allocations: counts(2, 2, 2, 0), ActiveRequests: counts(1, 2, 3, 2),
		AllocatedBytes: counts(both, both, both, 0), ActiveBytes: counts(one, both, both+one, both), NumHostAlloc: 2})
	r.free(a)
	r.empty()
	r.requireStats(Stats{Allocations: counts(0, 2, 2, 2), ActiveRequests: counts(0, 2, 3, 3),
		AllocatedBytes: counts(0, both, both, both), ActiveBytes: counts(0, both, both+one, both+one), NumHostAlloc: 2, NumHostFree: 2})

	r.p.ResetPeakStats()
	r.p.ResetAccumulatedStats()
	r.requireStats(Stats{})
}

func TestPinnedStats_ActiveFallsOnBothPathsOfFree(t *testing.T) {
	r := newRig(t, "")
	a, b := r.alloc(4096), r.alloc(4096)
	r.free(a)
	require.Equal(t, counts(4096, 8192, 8192, 4096), r.p.Stats().ActiveBytes, "without events at once")
	r.record(b, 1)
	r.free(b)
	require.Equal(t, counts(4096, 8192, 8192, 4096), r.p.Stats().ActiveBytes, "a pending block is active")
	r.complete(1)
	r.p.pollEvents()
	require.Equal(t, counts(0, 8192, 8192, 8192), r.p.Stats().ActiveBytes, "when the events have completed, once")
	require.Equal(t, counts(0, 2, 2, 2), r.p.Stats().ActiveRequests)
}

func TestPinnedStats_PeaksAreNotSumsOfBuckets(t *testing.T) {
	r := newRig(t, "")
	for _, n := range []uint64{4096, 8192, 16384, 8192} {
		r.free(r.alloc(n))
	}
	require.EqualValues(t, 16384, r.p.Stats().ActiveBytes.Peak)
	require.EqualValues(t, 1, r.p.Stats().ActiveRequests.Peak)
}

func TestPinnedStats_ResetKeepsWhatIsThere(t *testing.T) {
	r := newRig(t, "")
	a, b := r.alloc(4096), r.alloc(8192)
	r.free(b)
	r.p.ResetPeakStats()
	r.requireStats(Stats{Allocations: counts(2, 2, 2, 0), ActiveRequests: counts(1, 1, 2, 1),
		AllocatedBytes: counts(12288, 12288, 12288, 0), ActiveBytes: counts(4096, 4096, 12288, 8192), NumHostAlloc: 2})
	r.p.ResetAccumulatedStats()
	r.requireStats(Stats{Allocations: counts(2, 2, 0, 0), ActiveRequests: counts(1, 1, 0, 0),
		AllocatedBytes: counts(12288, 12288, 0, 0), ActiveBytes: counts(4096, 4096, 0, 0)})
	r.free(a)
	r.empty()
	r.requireStats(Stats{Allocations: counts(0, 2, 0, 2), ActiveRequests: counts(0, 1, 0, 1),
		AllocatedBytes: counts(0, 12288, 0, 12288), ActiveBytes: counts(0, 4096, 0, 4096), NumHostFree: 2})
}

// slowPin takes as long as the test says.
type slowPin struct {
	*sim.Device
	next time.Duration
}

func (d *slowPin) AllocPinned(n uint64) ([]byte, error) {
	<-time.After(d.next)
	return d.Device.AllocPinned(n)
}

func (d *slowPin) FreePinned(b []byte) error {
	<-time.After(d.next)
	return d.Device.FreePinned(b)
}

func TestPinnedStats_TimesOfDriverCalls(t *testing.T) {
	slow := &slowPin{}
	r := buildRig(t, "", func(d *sim.Device) Driver { slow.Device = d; return slow })
	synctest.Test(t, func(t *testing.T) {
		step := func(d time.Duration, n uint64) {
			slow.next = d
			r.free(r.alloc(n))
		}
		step(3*time.Millisecond, 1)
		step(time.Millisecond, 2)
		step(8*time.Millisecond+999*time.Nanosecond, 4)
		step(time.Hour, 4) // cached: not timed
		require.Equal(t, DurationStat{Total: 12000, Max: 8000, Min: 1000, Count: 3, Avg: 4000, seen: true}, r.p.Stats().HostAllocTime)
		require.Equal(t, DurationStat{}, r.p.Stats().HostFreeTime)

		slow.next = 2 * time.Millisecond
		r.empty()
		require.Equal(t, DurationStat{Total: 6000, Max: 2000, Min: 2000, Count: 3, Avg: 2000, seen: true}, r.p.Stats().HostFreeTime)

		r.p.ResetPeakStats()
		step(0, 1)
		require.Equal(t, DurationStat{Total: 12000, Count: 4, Avg: 3000, seen: true}, r.p.Stats().HostAllocTime, "0 µs are a time, too")
		r.p.ResetAccumulatedStats()
		step(5*time.Millisecond, 8)
		require.Equal(t, DurationStat{Total: 5000, Max: 5000, Count: 1, Avg: 5000, seen: true}, r.p.Stats().HostAllocTime)
	})
}

func TestPinnedStats_HavePyTorchsKeys(t *testing.T) {
	r := newRig(t, "")
	r.alloc(4096)
	flat := maps.Collect(r.p.Stats().Flat())
	keys := []string{"num_host_alloc", "num_host_free", "num_free_errors"}
	for _, k := range []string{"allocations", "active_requests", "allocated_bytes", "active_bytes"} {
		keys = append(keys, k+".current", k+".peak", k+".allocated", k+".freed")
	}
	for _, k := range []string{"host_alloc_time", "host_free_time"} {
		keys = append(keys, k+".total", k+".max", k+".min", k+".count", k+".avg")
	}
	require.ElementsMatch(t, keys, slices.Collect(maps.Keys(flat)))
	require.EqualValues(t, 4096, flat["active_bytes.peak"])
	require.EqualValues(t, 1, flat["host_alloc_time.count"])

	// The nested form has the same names and numbers.
	raw, err := json.Marshal(r.p.Stats())
	require.NoError(t, err)
	var nested map[string]any
	require.NoError(t, json.Unmarshal(raw, &nested))
	require.Len(t, nested, 9)
	require.EqualValues(t, 4096, nested["allocated_bytes"].(map[string]any)["current"])

	var sorted []string
	for k := range r.p.Stats().Flat() {
		if sorted = append(sorted, k); len(sorted) == 20 {
			break
		}
	}
	require.True(t, slices.IsSorted(sorted))
}
