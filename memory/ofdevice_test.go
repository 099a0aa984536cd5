package memory

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

func TestOfDevice_AsksTheDevicesAllocator(t *testing.T) {
	dev := sim.New(device.GiB)
	require.Zero(t, Allocated(dev)+MaxAllocated(dev)+Reserved(dev)+MaxReserved(dev))
	require.NoError(t, ResetPeak(dev))
	require.NoError(t, EmptyCache(dev))
	StopHistory(dev)
	require.Nil(t, lookup(dev), "none of that makes an allocator")

	require.NoError(t, RecordHistory(dev, HistoryOptions{}))
	a, err := For(dev)
	require.NoError(t, err)
	defer func() { require.NoError(t, Drop(dev)) }()
	b, err := a.Alloc(3*mib, dev.DefaultStream())
	require.NoError(t, err)
	require.EqualValues(t, 3*mib, Allocated(dev))
	require.EqualValues(t, 20*mib, Reserved(dev))
	require.NoError(t, a.Free(b))
	require.Zero(t, Allocated(dev))
	require.EqualValues(t, 3*mib, MaxAllocated(dev))
	require.NoError(t, ResetPeak(dev))
	require.Zero(t, MaxAllocated(dev))
	require.EqualValues(t, 20*mib, MaxReserved(dev))
	require.NoError(t, EmptyCache(dev))
	require.Zero(t, Reserved(dev))

	s := a.(*Caching).Snapshot()
	require.Len(t, s.DeviceTraces[dev.ID().Index], 5, "a segment, a block, its free, the segment's end")
	StopHistory(dev)
	require.False(t, a.(*Caching).HistoryEnabled())

	require.NoError(t, SetFraction(dev, 0.01))
	_, err = a.Alloc(20*mib, dev.DefaultStream())
	require.ErrorIs(t, err, ErrLimit)
	var bad *ConfigError
	require.ErrorAs(t, SetFraction(dev, math.NaN()), &bad)
}

func TestOfDevice_RefusesWhatAnAllocatorDoesNotHave(t *testing.T) {
	t.Setenv("CISTERN_NO_MEMORY_CACHING", "1")
	dev := sim.New(device.GiB)
	_, err := For(dev)
	require.NoError(t, err)
	defer func() { require.NoError(t, Drop(dev)) }()
	var wrong *ArgumentError
	require.ErrorAs(t, RecordHistory(dev, HistoryOptions{}), &wrong)
	require.ErrorAs(t, SetFraction(dev, 0.5), &wrong)
	require.ErrorAs(t, ResetPeak(dev), &wrong)
	require.ErrorAs(t, RecordHistory(nil, HistoryOptions{}), &wrong)
	require.ErrorAs(t, SetFraction(nil, 0.5), &wrong)
	require.ErrorAs(t, ResetPeak(nil), &wrong)
	require.ErrorAs(t, EmptyCache(nil), &wrong)
	require.Zero(t, Allocated(nil))
	StopHistory(nil)
}
