package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// A first request of a device that has no room for its segment is told of the segment, and of smaller ones where they would do.
func TestAdvice_OfASegmentThatIsTooLarge(t *testing.T) {
	const smaller = "There is room for a smaller segment: with large_segment_size_mb:11, by SetConfig now or from the start on, this request of 1.50 MiB is served."
	for capacity, hint := range map[uint64]string{10 * mib: "The device has less than that in all.", 15 * mib: smaller} {
		r := newRig(t, capacity, "")
		oom := requireOOM(t, r.try(3*mib/2, 0), ErrDeviceFull)
		require.ErrorContains(t, oom, "Tried to allocate 20.00 MiB. ")
		require.ErrorContains(t, oom, "The request is for 1.50 MiB, which takes a segment of 20.00 MiB. ")
		require.Equal(t, hint, oom.Hint)
		c := r.a.Config()
		c.LargeSegmentBytes = 11 * mib
		require.NoError(t, r.a.SetConfig(c))
		require.Equal(t, hint == smaller, r.try(3*mib/2, 0) == nil)
	}
	for _, limit := range []uint64{5 * mib, 12 * mib} {
		r := newRig(t, 100*mib, "")
		r.dev.Occupy(85 * mib)
		r.a.SetMemoryLimit(limit)
		oom := requireOOM(t, r.try(3*mib/2, 0), ErrLimit)
		if limit == 5*mib {
			require.Equal(t, "The limit is not alone in the way: the device has not as much free.", oom.Hint)
		} else {
			require.Equal(t, smaller, oom.Hint)
		}
	}
}

// A large part of what is free that is refused all the same is no want of memory here.
func TestAdvice_OfADeviceThatRefusesWhatItHas(t *testing.T) {
	for _, history := range []recording{withoutHistory, withHistory} {
		r := recorded(t, 100*mib, "", history)
		r.alloc(30*mib, 0)
		r.dev.Inject(func(c sim.Call) error {
			if c.Kind == sim.CallMalloc {
				return device.ErrOutOfMemory
			}
			return nil
		})
		oom := requireOOM(t, r.try(40*mib, 0), ErrDeviceFull)
		require.Equal(t, "The device reports that 70.00 MiB is free, and refused 40.00 MiB: what it has is in pieces, or its driver has another limit, or it was freed since. "+
			"expandable_segments:True, which asks for pages in place of one piece, may serve it in the first case.", oom.Hint)
		require.Empty(t, oom.Setting)
	}
}

// A limit of nothing is a limit.
func TestOOMError_TellsALimitOfNothing(t *testing.T) {
	r := newRig(t, 100*mib, "per_process_memory_fraction:0")
	oom := requireOOM(t, r.try(1, 0), ErrLimit)
	require.True(t, oom.LimitHit)
	require.Zero(t, oom.Limit)
	require.ErrorContains(t, oom, " 0 bytes allowed; ")
	require.Contains(t, oom.Hint, "SetMemoryFraction: 0.02). What follows may need more.")
}

// What pools without splits hold beyond what was asked for is in the way of the program.
func TestAdvice_OfPoolsThatDoNotSplit(t *testing.T) {
	r := newRig(t, 100*mib, "")
	p := r.a.NewPool(PoolNoSplit())
	for range 5 {
		r.allocIn(p, 2*mib, 0)
	}
	_, err := p.Alloc(2*mib, r.stream(0))
	oom := requireOOM(t, err, ErrDeviceFull)
	require.Contains(t, oom.Hint, "Pools with PoolNoSplit hand out whole segments: theirs of 100.00 MiB are for 10.00 MiB that was asked for.")
	require.ErrorContains(t, err, "The request is for 2.00 MiB, which takes a segment of 20.00 MiB.")
}

// A limit is the least for one request: who holds the most is named with it.
func TestAdvice_OnLimitsNamesWhoHoldsTheMost(t *testing.T) {
	r := recorded(t, 100*mib, "", withHistory)
	r.a.SetMemoryLimit(50 * mib)
	r.alloc(40*mib, 0)
	require.Regexp(t, `\(SetMemoryLimit\)\. What follows may need more\. The most is held by rig_test\.go:\d+ \(40\.00 MiB in 1 block\)\.$`,
		requireOOM(t, r.try(20*mib, 0), ErrLimit).Hint)
}
