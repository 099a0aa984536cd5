package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// churn makes n searches of the large pool on a stream of its own.
func (r *rig) churn(n int) {
	for range n {
		r.free(r.alloc(2*mib, 9))
	}
}

// The worked example: limit 10 GiB, threshold 0.6, 7 GiB reserved. Three free segments of 0.5 GiB are 10, 6 and 2 searches
// old; the average is 6, and the two oldest cover the 1 GiB wanted.
func TestGarbageCollection_FreesTheOldestUntilBelowTheThreshold(t *testing.T) {
	r := newRig(t, 20*gib, "garbage_collection_threshold:0.6")
	r.a.SetMemoryLimit(10 * gib)
	r.alloc(5*gib+512*mib-20*mib, 0) // with the 20 MiB of churn: 7 GiB in all
	old, middle, young := r.alloc(512*mib, 0), r.alloc(512*mib, 1), r.alloc(512*mib, 2)
	r.churn(1) // takes its segment, which is cached from here on, and young when looked at
	r.free(old)
	r.churn(4)
	r.free(middle)
	r.churn(4)
	r.free(young)
	r.churn(1)
	require.EqualValues(t, 7*gib, r.reserved())
	r.calls = nil

	r.alloc(2*gib, 0) // the search for this is the last: ages 10, 6, 2, and 1 for the segment of churn
	log := r.takeLog()
	require.Equal(t, []string{"F 1", "F 2", "M 5 2147483648"}, log)
}

func TestGarbageCollection_NeedsALimit(t *testing.T) {
	r := newRig(t, gib, "garbage_collection_threshold:0.01")
	b := r.alloc(100*mib, 0)
	r.free(b)
	r.calls = nil
	r.alloc(200*mib, 0)
	require.Equal(t, []string{"M 1 209715200"}, r.takeLog())
}

func TestGarbageCollection_DoesNothingUpToTheThreshold(t *testing.T) {
	r := newRig(t, gib, "garbage_collection_threshold:0.5")
	r.a.SetMemoryLimit(400 * mib)
	r.hole(200*mib, 0)
	r.calls = nil
	r.alloc(100*mib, 1)
	require.Equal(t, []string{"M 1 104857600"}, r.takeLog(), "200 MiB reserved is not above 200 MiB")
	r.alloc(20*mib, 1)
	require.Equal(t, []string{"F 0", "M 2 20971520"}, r.takeLog())
}

// Only whole free segments of the large pool are candidates.
func TestGarbageCollection_LeavesSmallPoolAndSplitSegmentsAlone(t *testing.T) {
	r := newRig(t, gib, "garbage_collection_threshold:0.1")
	r.a.SetMemoryLimit(100 * mib)
	small := r.alloc(512, 0)
	r.alloc(2*mib, 0) // a piece of a segment of 20 MiB
	r.free(small)
	r.calls = nil
	r.alloc(30*mib, 0)
	require.Equal(t, []string{"M 2 31457280"}, r.takeLog())
}

func TestGarbageCollection_ReuseResetsTheAge(t *testing.T) {
	r := newRig(t, gib, "garbage_collection_threshold:0.5")
	r.a.SetMemoryLimit(480 * mib)
	r.churn(1)
	h := r.holes(0, 100*mib, 130*mib) // 250 MiB reserved: above the threshold of 240
	r.churn(5)
	r.free(r.alloc(100*mib, 0)) // it is the younger now
	r.calls = nil
	r.alloc(150*mib, 1)
	require.Equal(t, []string{"F 2", "M 3 157286400"}, r.takeLog())
	require.Equal(t, h[0], r.place(r.alloc(100*mib, 0)))
}

// An error of the driver ends the request; what was found stays cached.
func TestGarbageCollection_ReturnsTheErrorOfTheDriver(t *testing.T) {
	r := newRig(t, gib, "garbage_collection_threshold:0.5")
	r.a.SetMemoryLimit(400 * mib)
	h := r.hole(300*mib, 0)
	r.dev.Inject(failFrees)
	_, err := r.tryAlloc(50*mib, 1)
	require.ErrorIs(t, err, errInjected)
	r.dev.Inject(nil)
	require.Equal(t, h, r.place(r.alloc(300*mib, 0)))
}
