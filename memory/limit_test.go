package memory

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

func TestSetMemoryFraction_LimitsReservedBytes(t *testing.T) {
	r := newRig(t, 1000*mib, "")
	require.NoError(t, r.a.SetMemoryFraction(0.5))
	b := r.alloc(499*mib, 0) // a segment of 500 MiB: the limit itself is allowed
	_, err := r.tryAlloc(1, 0)
	oom := requireOOM(t, err, ErrLimit)
	require.True(t, oom.LimitHit)
	require.EqualValues(t, 500*mib, oom.Limit)
	require.EqualValues(t, 500*mib, oom.DeviceFree)
	r.free(b)
	r.alloc(1, 0) // the ladder gave the cached segment back
}

// test_set_per_process_memory_fraction and test_get_per_process_memory_fraction.
func TestSetMemoryFraction_ChecksItsArgument(t *testing.T) {
	r := newRig(t, 1000*mib, "")
	for _, f := range []float64{-0.1, 2, math.NaN(), math.Inf(1)} {
		var ce *ConfigError
		require.ErrorAs(t, r.a.SetMemoryFraction(f), &ce, "%v", f)
		require.Equal(t, "per_process_memory_fraction", ce.Key)
	}
	f, err := r.a.MemoryFraction()
	require.NoError(t, err)
	require.EqualValues(t, 1, f, "refused values change nothing")
	require.NoError(t, r.a.SetMemoryFraction(0.25))
	f, err = r.a.MemoryFraction()
	require.NoError(t, err)
	require.EqualValues(t, 0.25, f)
	require.NoError(t, r.a.SetMemoryFraction(1))
	f, err = r.a.MemoryFraction()
	require.NoError(t, err)
	require.EqualValues(t, 1, f)
	r.alloc(1000*mib, 0)
}

func TestSetMemoryFraction_RoundsToTheNearestByte(t *testing.T) {
	r := newRig(t, 3*mib+1, "")
	require.NoError(t, r.a.SetMemoryFraction(0.5)) // 1.5 MiB and half a byte
	_, err := r.tryAlloc(1, 0)
	require.EqualValues(t, 1536*kib+1, requireOOM(t, err, ErrLimit).Limit)
}

func TestSetMemoryFraction_NothingAtAll(t *testing.T) {
	r := newRig(t, 1000*mib, "per_process_memory_fraction:0")
	_, err := r.tryAlloc(1, 0)
	requireOOM(t, err, ErrLimit)
	require.Zero(t, r.dev.Calls().Count[sim.CallMalloc], "the driver is not asked")
}

func TestSetMemoryLimit_LoweringFreesNothingAndAllowsNothingMore(t *testing.T) {
	r := newRig(t, 1000*mib, "")
	a, b := r.alloc(100*mib, 0), r.alloc(100*mib, 0)
	r.a.SetMemoryLimit(100 * mib)
	require.EqualValues(t, 200*mib, r.reserved())
	r.free(a)
	require.Equal(t, r.place(a), r.place(r.alloc(100*mib, 0)), "the cache still serves")
	_, err := r.tryAlloc(2*mib, 0)
	requireOOM(t, err, ErrLimit)
	r.a.SetMemoryLimit(0)
	r.alloc(2*mib, 0)
	r.free(b)
}

func TestSetMemoryLimit_AndFractionReplaceEachOther(t *testing.T) {
	r := newRig(t, 1000*mib, "")
	require.NoError(t, r.a.SetMemoryFraction(0.1))
	r.a.SetMemoryLimit(300 * mib)
	r.alloc(250*mib, 0)
	require.NoError(t, r.a.SetMemoryFraction(0.1))
	_, err := r.tryAlloc(12*mib, 0)
	requireOOM(t, err, ErrLimit)
}

// test_allocator_memory_fraction_setting.
func TestSetConfig_FractionIsKeptUntilAnotherIsGiven(t *testing.T) {
	r := newRig(t, 1000*mib, "per_process_memory_fraction:0.5")
	r.conf("max_split_size_mb:100")
	f, err := r.a.MemoryFraction()
	require.NoError(t, err)
	require.EqualValues(t, 0.5, f)
	r.conf("per_process_memory_fraction:1.0")
	f, err = r.a.MemoryFraction()
	require.NoError(t, err)
	require.EqualValues(t, 1, f)
}

func TestSetConfig_ThatFailsChangesNothing(t *testing.T) {
	r := newRig(t, 1000*mib, "max_split_size_mb:100")
	half := 0.5
	r.dev.FailNext(sim.CallMemInfo, 1, errInjected)
	require.ErrorIs(t, r.a.SetConfig(Config{MemoryFraction: &half, ExpandableSegments: true}), errInjected)
	require.Equal(t, Config{MaxSplitBytes: 100 * mib}, r.a.Config())
	require.Error(t, r.a.SetConfig(Config{MaxSplitBytes: 1}))
	require.Equal(t, Config{MaxSplitBytes: 100 * mib}, r.a.Config())
	require.EqualValues(t, 100*mib, r.a.Stats().MaxSplitSize)
}

// The reason given is that of the last attempt.
func TestOOM_LimitAndFullDeviceAreToldApart(t *testing.T) {
	r := newRig(t, 100*mib, "")
	r.alloc(40*mib, 0)
	r.a.SetMemoryLimit(90 * mib)
	_, err := r.tryAlloc(60*mib, 0)
	requireOOM(t, err, ErrLimit)
	r.dev.Occupy(30 * mib)
	_, err = r.tryAlloc(40*mib, 0)
	requireOOM(t, err, ErrDeviceFull)

	// First the limit, with the cache full; after the cache was given back, the device.
	r.a.SetMemoryLimit(95 * mib)
	r.hole(30*mib, 0)
	r.dev.Occupy(40 * mib)
	r.calls = nil
	_, err = r.tryAlloc(50*mib, 0)
	requireOOM(t, err, ErrDeviceFull)
	require.Equal(t, []string{"F 1", "X 52428800"}, r.takeLog(), "the driver was asked only within the limit")
}

// test_throw_on_cudamalloc_oom.
func TestRejectOverFraction_RefusesAtOnceAndKeepsTheCache(t *testing.T) {
	r := newRig(t, 1000*mib, "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True")
	r.hole(300*mib, 0)
	r.calls = nil
	_, err := r.tryAlloc(301*mib, 1)
	oom := requireOOM(t, err, ErrLimit)
	require.True(t, oom.Rejected)
	require.Empty(t, r.takeLog())
	s := r.a.Stats()
	require.EqualValues(t, 1, s.NumOOMRejections)
	require.Zero(t, s.NumOOMs)
	require.Zero(t, s.NumAllocRetries)
	require.EqualValues(t, 300*mib, r.reserved())
	r.alloc(200*mib, 1)
}

func TestUsage_DividesTheDevice(t *testing.T) {
	r := newRig(t, 100*mib, "")
	r.dev.Occupy(10 * mib)
	b := r.alloc(12*mib, 0)
	r.hole(20*mib, 0)
	r.record(b, 1)
	r.free(b)
	u, err := r.a.Usage()
	require.NoError(t, err)
	require.Equal(t, Usage{Total: 100 * mib, Free: 58 * mib, Reserved: 32 * mib, Allocated: 12 * mib, Other: 10 * mib}, u)
	info, err := r.a.MemInfo()
	require.NoError(t, err)
	require.EqualValues(t, 58*mib, info.Free)
	r.dev.FailNext(sim.CallMemInfo, 1, errInjected)
	_, err = r.a.Usage()
	require.ErrorIs(t, err, errInjected)
}

func TestUsage_NamesOtherProcessesWhereTheDeviceCan(t *testing.T) {
	r := newRig(t, 100*mib, "")
	small, large := device.Process{PID: 7, Name: "editor", Memory: 3 * mib}, device.Process{PID: 8, Memory: 10 * mib}
	r.dev.OccupyBy(small, large)
	r.alloc(12*mib, 0)
	context, err := r.dev.Malloc(5 * mib) // what is not the allocator's
	require.NoError(t, err)
	defer func() { require.NoError(t, r.dev.Free(context)) }()
	u, err := r.a.Usage()
	require.NoError(t, err)
	require.Equal(t, Usage{Total: 100 * mib, Free: 70 * mib, Reserved: 12 * mib, Allocated: 12 * mib, Other: 18 * mib,
		Own: 5 * mib, Processes: []device.Process{large, small}}, u)
}

func TestReserve_TakesSegmentsAheadOfUse(t *testing.T) {
	r := newRig(t, 400*mib, "")
	require.NoError(t, r.a.Reserve(100*mib, r.stream(0)))
	require.EqualValues(t, 100*mib, r.reserved())
	require.NoError(t, r.a.Reserve(60*mib, r.stream(0)), "what is cached counts")
	require.EqualValues(t, 100*mib, r.reserved())
	r.calls = nil
	r.alloc(30*mib, 0)
	r.alloc(60*mib, 0)
	require.Empty(t, r.takeLog())

	_, err := r.a.Stats(), r.a.Reserve(500*mib, r.stream(1))
	requireOOM(t, err, ErrDeviceFull)
	require.EqualValues(t, 100*mib, r.reserved())
	r.check()
}

func TestReserve_TakesSeveralPiecesBelowMaxSplit(t *testing.T) {
	r := newRig(t, 400*mib, "max_split_size_mb:40")
	require.NoError(t, r.a.Reserve(100*mib, r.stream(0)))
	require.Equal(t, []string{"M 0 39845888", "M 1 39845888", "M 2 25165824"}, r.takeLog())
	require.Zero(t, r.a.Stats().Allocation.All.Current)
	// All or nothing.
	require.ErrorIs(t, r.a.Reserve(500*mib, r.stream(1)), ErrOutOfMemory)
	require.Zero(t, r.a.Stats().Allocation.All.Current)
	r.check()
}
