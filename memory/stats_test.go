package memory

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

func TestStats_ActiveFallsWhenTheEventCompletesAllocatedAtOnce(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(1000, 0)
	r.record(b, 1)
	r.free(b)
	s := r.a.Stats()
	require.Zero(t, s.Allocation.All.Current)
	require.Zero(t, s.AllocatedBytes.All.Current)
	require.EqualValues(t, 1, s.Active.All.Current)
	require.EqualValues(t, 1024, s.ActiveBytes.All.Current)
	require.EqualValues(t, 1000, s.RequestedBytes.All.Current, "requested bytes fall with active")
	r.complete(1)
	r.free(r.alloc(30*mib, 0)) // somebody looks at the events
	s = r.a.Stats()
	require.Zero(t, s.Active.All.Current)
	require.Zero(t, s.ActiveBytes.All.Current)
	require.Zero(t, s.RequestedBytes.All.Current)
}

// The history of inactive splits sees only the net of a free, not each neighbour: PyTorch's arithmetic.
func TestStats_InactiveSplitsCountTheNetOfAFree(t *testing.T) {
	r := newRig(t, gib, "")
	a, b, c := r.alloc(4*mib, 0), r.alloc(4*mib, 0), r.alloc(4*mib, 0)
	r.free(a) // | 4 cached | 4 | 4 | 8 cached |
	split := func() (n, bytes Stat) {
		s := r.a.Stats()
		return s.InactiveSplit.LargePool, s.InactiveSplitBytes.LargePool
	}
	n, bytes := split()
	require.Equal(t, Stat{Current: 2, Peak: 2, Allocated: 2, Freed: 0}, n)
	require.Equal(t, Stat{Current: 12 * mib, Peak: 16 * mib, Allocated: 20 * mib, Freed: 8 * mib}, bytes)
	r.free(b) // | 8 cached | 4 | 8 cached |
	n, bytes = split()
	require.Equal(t, Stat{Current: 2, Peak: 2, Allocated: 2, Freed: 0}, n, "one merged in, one more: nothing moves")
	require.Equal(t, Stat{Current: 16 * mib, Peak: 16 * mib, Allocated: 24 * mib, Freed: 8 * mib}, bytes)
	r.free(c) // | 20 cached |: whole, no split any more
	n, bytes = split()
	require.Equal(t, Stat{Current: 0, Peak: 2, Allocated: 2, Freed: 2}, n)
	require.Equal(t, Stat{Current: 0, Peak: 16 * mib, Allocated: 24 * mib, Freed: 24 * mib}, bytes)
}

func TestStats_PoolIsThatOfTheSegment(t *testing.T) {
	r := newRig(t, gib, "")
	r.alloc(512, 0)
	r.alloc(2*mib, 0)
	s := r.a.Stats()
	for _, arr := range s.arrays() {
		require.Equal(t, arr.All.Current, arr.SmallPool.Current+arr.LargePool.Current)
		require.Positive(t, arr.SmallPool.Current)
		require.Positive(t, arr.LargePool.Current)
	}
	require.EqualValues(t, 2*mib, s.ReservedBytes.SmallPool.Current)
	require.EqualValues(t, 20*mib, s.ReservedBytes.LargePool.Current)
}

func TestStats_OversizeBlocksAreCountedApart(t *testing.T) {
	r := newRig(t, gib, "max_split_size_mb:100")
	a, b := r.alloc(98*mib+512*kib, 0), r.alloc(100*mib, 0) // the segment of a has 100 MiB too
	s := r.a.Stats()
	require.Equal(t, Stat{Current: 1, Peak: 1, Allocated: 1}, s.OversizeAllocations)
	require.Equal(t, Stat{Current: 2, Peak: 2, Allocated: 2}, s.OversizeSegments)
	require.EqualValues(t, 100*mib, s.MaxSplitSize)
	r.free(a, b)
	r.empty()
	s = r.a.Stats()
	require.Equal(t, Stat{Current: 0, Peak: 1, Allocated: 1, Freed: 1}, s.OversizeAllocations)
	require.Equal(t, Stat{Current: 0, Peak: 2, Allocated: 2, Freed: 2}, s.OversizeSegments)
	require.EqualValues(t, -1, newRig(t, gib, "").a.Stats().MaxSplitSize, "no limit")
}

func TestResetPeakStats_SetsPeaksToTheCurrentValues(t *testing.T) {
	r := newRig(t, gib, "")
	a, b := r.alloc(3*mib, 0), r.alloc(5*mib, 1)
	r.free(a)
	r.a.ResetPeakStats()
	s := r.a.Stats()
	for _, arr := range s.arrays() {
		arr.each(func(st *Stat) { require.Equal(t, st.Current, st.Peak) })
	}
	require.EqualValues(t, 5*mib, s.AllocatedBytes.All.Peak)
	r.free(b)
	r.free(r.alloc(4*mib, 1))
	require.EqualValues(t, 5*mib, r.a.Stats().AllocatedBytes.All.Peak, "4 MiB is no new peak")
	r.alloc(6*mib, 0)
	require.EqualValues(t, 6*mib, r.a.Stats().AllocatedBytes.All.Peak)
	r.check()
}

func TestResetAccumulatedStats_SetsTotalsAndCountersToZero(t *testing.T) {
	r := newRig(t, 30*mib, "max_split_size_mb:20")
	b := r.alloc(20*mib, 0)
	_, err := r.tryAlloc(40*mib, 0)
	require.Error(t, err)
	r.a.FreeLater(b)
	r.alloc(512, 0)
	before := r.a.Stats()
	require.NotZero(t, before.NumOOMs)
	require.NotZero(t, before.NumAllocRetries)
	r.a.ResetAccumulatedStats()
	s := r.a.Stats()
	for i, arr := range s.arrays() {
		old := before.arrays()[i]
		require.Equal(t, Stat{Current: old.All.Current, Peak: old.All.Peak}, arr.All)
	}
	require.Equal(t, Stat{Current: 0, Peak: 1}, s.OversizeAllocations)
	require.Equal(t, []int64{0, 0, 0, 0, 0, 0}, []int64{
		s.NumAllocRetries, s.NumOOMs, s.NumSyncAllStreams, s.NumDeviceAlloc, s.NumDeviceFree, s.NumDeferredFrees,
	})
	c := r.alloc(512, 0)
	require.EqualValues(t, 512, r.a.Stats().AllocatedBytes.All.Allocated)
	r.free(c)
	require.EqualValues(t, 512, r.a.Stats().AllocatedBytes.All.Freed)
}

// Names and nesting are those of torch.cuda.memory_stats, so that scripts for PyTorch read them.
func TestStats_JSONHasPyTorchsKeys(t *testing.T) {
	r := newRig(t, gib, "")
	r.alloc(1000, 0)
	raw, err := json.Marshal(r.a.Stats())
	require.NoError(t, err)
	var nested map[string]map[string]map[string]int64
	_ = json.Unmarshal(raw, &nested) // the scalars do not fit, and are left out
	require.EqualValues(t, 1024, nested["allocated_bytes"]["all"]["current"])
	require.EqualValues(t, 1000, nested["requested_bytes"]["small_pool"]["peak"])
	flat := map[string]int64{}
	var keys []string
	for k, v := range r.a.Stats().Flat() {
		flat[k] = v
		keys = append(keys, k)
	}
	require.True(t, slices.IsSorted(keys))
	require.EqualValues(t, 1024, flat["allocated_bytes.all.allocated"])
	require.EqualValues(t, 2*mib, flat["reserved_bytes.small_pool.current"])
	require.EqualValues(t, 1, flat["num_device_alloc"])
	require.EqualValues(t, -1, flat["max_split_size"])
	require.Len(t, keys, 9*3*4+2*4+8)
}

// After any history: reserved >= active >= allocated >= requested by blocks held, and the sums of the snapshot are the
// statistics.
func TestStats_IdentitiesHoldAfterAnyHistory(t *testing.T) {
	for _, conf := range []string{"", "max_split_size_mb:20", "expandable_segments:True", "roundup_power2_divisions:2"} {
		t.Run(conf, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 5))
			r := newRig(t, 200*mib, conf)
			var live []Block
			for step := range 600 {
				switch {
				case rng.IntN(10) < 6 || len(live) == 0:
					if b, err := r.tryAlloc(1+rng.Uint64N(1<<(6+rng.Uint64N(19))), rng.IntN(3)); err == nil {
						live = append(live, b)
					}
				default:
					i := rng.IntN(len(live))
					if rng.IntN(3) == 0 {
						r.record(live[i], rng.IntN(3))
					}
					r.free(live[i])
					live = slices.Delete(live, i, i+1)
				}
				if rng.IntN(20) == 0 {
					r.complete(rng.IntN(3))
				}
				if step%7 == 0 {
					requireIdentities(t, r.a, r.dev.ID())
				}
			}
		})
	}
}

func requireIdentities(t *testing.T, a *Caching, id device.ID) {
	t.Helper()
	s := a.Stats()
	require.GreaterOrEqual(t, s.ReservedBytes.All.Current, s.ActiveBytes.All.Current)
	require.GreaterOrEqual(t, s.ActiveBytes.All.Current, s.AllocatedBytes.All.Current)
	require.GreaterOrEqual(t, s.ActiveBytes.All.Current, s.RequestedBytes.All.Current)
	var total, active, allocated, requested uint64
	for _, seg := range a.Snapshot().Segments {
		require.Equal(t, id.Index, seg.Device)
		total, active, allocated = total+seg.TotalSize, active+seg.ActiveSize, allocated+seg.AllocatedSize
		requested += seg.RequestedSize
		var sum uint64
		for _, b := range seg.Blocks {
			require.Equal(t, seg.Address.Add(sum), b.Address)
			sum += b.Size
		}
		require.Equal(t, seg.TotalSize, sum)
	}
	require.EqualValues(t, s.ReservedBytes.All.Current, total)
	require.EqualValues(t, s.ActiveBytes.All.Current, active)
	require.EqualValues(t, s.AllocatedBytes.All.Current, allocated)
	require.EqualValues(t, s.RequestedBytes.All.Current, requested)
	for _, arr := range s.arrays() {
		arr.each(func(st *Stat) {
			require.GreaterOrEqual(t, st.Peak, st.Current)
			require.Equal(t, st.Current, st.Allocated-st.Freed)
		})
		require.LessOrEqual(t, arr.All.Peak, arr.SmallPool.Peak+arr.LargePool.Peak)
	}
}
