package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
)

func failFrees(c sim.Call) error {
	if c.Kind == sim.CallFree {
		return errInjected
	}
	return nil
}

// The rung of the ladder before the last, with max_split_size_mb only: one block that is large enough, or else the largest
// ones until their sum is.

func TestReleaseOversize_LooksAtTheRequestsStreamOnly(t *testing.T) {
	r := newRig(t, 100*mib, "max_split_size_mb:20")
	r.holes(0, 30*mib, 60*mib)
	r.calls = nil
	r.alloc(21*mib, 1)
	require.Equal(t, []string{"X 23068672", "F 0", "F 1", "M 2 23068672"}, r.takeLog(), "stream 0's go with the whole cache")
	require.EqualValues(t, 1, r.a.Stats().NumAllocRetries)
}

func TestReleaseOversize_TakesTheSmallestThatSuffices(t *testing.T) {
	r := newRig(t, 200*mib, "max_split_size_mb:20")
	r.holes(0, 60*mib, 50*mib, 80*mib) // 190 MiB
	r.calls = nil
	r.alloc(30*mib, 0) // 50 is not below 30+20, so nothing cached serves
	require.Equal(t, []string{"X 31457280", "F 1", "M 3 31457280"}, r.takeLog())
}

func TestReleaseOversize_ElseTheLargestUntilTheSumSuffices(t *testing.T) {
	r := newRig(t, 150*mib, "max_split_size_mb:20")
	r.holes(0, 24*mib, 50*mib, 30*mib, 40*mib) // 144 MiB
	r.calls = nil
	r.alloc(90*mib, 0)
	require.Equal(t, []string{"X 94371840", "F 1", "F 3", "M 4 94371840"}, r.takeLog(), "50 + 40 is exactly enough")
	require.EqualValues(t, 90*mib+24*mib+30*mib, r.reserved())
}

// Blocks given back in vain stay given back.
func TestReleaseOversize_NotEnoughIsNoAttempt(t *testing.T) {
	r := newRig(t, 100*mib, "max_split_size_mb:20")
	r.alloc(50*mib, 0)
	r.holes(0, 24*mib, 22*mib)
	r.calls = nil
	_, err := r.tryAlloc(60*mib, 0)
	requireOOM(t, err, ErrDeviceFull)
	require.Equal(t, []string{"X 62914560", "F 1", "F 2", "X 62914560"}, r.takeLog())
	require.EqualValues(t, 50*mib, r.reserved())
}

// For requests below max_split_size the key is max_split_size: smaller blocks are not looked at.
func TestReleaseOversize_SmallRequestsTakeABlockOfAtLeastMaxSplit(t *testing.T) {
	r := newRig(t, 100*mib, "max_split_size_mb:40")
	r.holes(0, 30*mib, 44*mib)
	held := r.alloc(24*mib, 1)
	r.calls = nil
	r.alloc(31*mib, 0)
	require.Equal(t, []string{"X 33554432", "F 1", "M 3 33554432"}, r.takeLog())
	r.free(held)
}

func TestReleaseOversize_IsOffWithoutMaxSplit(t *testing.T) {
	r := newRig(t, 100*mib, "")
	r.holes(0, 30*mib, 60*mib)
	r.calls = nil
	r.alloc(80*mib, 0)
	require.Equal(t, []string{"X 83886080", "F 0", "F 1", "M 2 83886080"}, r.takeLog())
	require.EqualValues(t, 1, r.a.Stats().NumAllocRetries)
}

func TestReleaseOversize_ReturnsTheErrorOfTheDriver(t *testing.T) {
	r := newRig(t, 100*mib, "max_split_size_mb:20")
	r.holes(0, 24*mib, 50*mib)
	r.dev.Inject(failFrees)
	_, err := r.tryAlloc(90*mib, 0)
	require.ErrorIs(t, err, errInjected)
	r.dev.Inject(nil)
	require.EqualValues(t, 74*mib, r.reserved())
}
