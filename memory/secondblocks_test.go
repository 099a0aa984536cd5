package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A block outlives its step, and the same request of the steps that follow is for one that goes at once: those lie in the arena, beside nobody, and the driver is not called. What the
// arena is needed for meanwhile is not in the way. Now and then the programs are forgotten, as another model's may come.
func TestPlan_SecondBlocksLieInTheArena(t *testing.T) {
	for _, c := range []struct {
		kinds []string
		calls int64 // at most, in the last steps
	}{
		{[]string{"+0=64 -0 +9=8", "+0=64 -0 +1=8 -1 -9"}, 0},
		{[]string{"+0=64 -0 +9=8", "+0=64 -0 +1=8 -1", "+0=64 -0 +1=8 -1 -9"}, 4},
		{[]string{"+0=64 -0 +9=8", "+0=64 -0 +1=8 -1", "+0=64 -0 +1=8 -1", "+0=64 -0 +1=8 -1 -9"}, 4},
		{[]string{"+0=64 -0 +9=8 +2=40 -2", "+0=64 -0 +1=8 +2=40 -1 -2 -9"}, 0},
		{[]string{"+0=64 -0 +9=8 +2=62 -2", "+0=64 -0 +1=8 +2=62 -1 -2 -9"}, 4 * restLast}, // no room
	} {
		r := newKindsProgram(t, compacting102, true)
		var before PlanStats
		calls := int64(0)
		for i := range restSteps {
			if i == restSteps-restLast {
				r.a.ResetPeakStats()
				before, calls = r.plan.Stats(), r.calls()
			}
			r.step(c.kinds[i%len(c.kinds)])
		}
		r.check()
		s := r.a.Stats()
		require.LessOrEqual(t, r.calls()-calls, c.calls, "%q", c.kinds)
		require.LessOrEqual(t, s.ReservedBytes.All.Peak, s.ActiveBytes.All.Peak+2*mib, "%q", c.kinds)
		require.Equal(t, before.Refused, r.plan.Stats().Refused, "%q", c.kinds)
	}
}

// The newest block counts, and one that is freed does not.
func TestFirstBlocks(t *testing.T) {
	f := firstBlocks{}
	require.False(t, f.has(3, 0))
	p := &stepProgram{sizes: []uint64{512, 1024}, stays: []bool{false, true}}
	r := &stepRecord{entries: make([]entry, 2), open: []int32{0, 1}}
	f.keep(r, p, 7)
	require.False(t, f.has(0, 512), "it is expected to be freed as the next step begins")
	require.True(t, f.has(1, 1024))
	require.False(t, f.has(1, 512), "another program's request")
	f.keep(r, p, 9)
	f.freed(1, 7)
	require.True(t, f.has(1, 1024))
	f.freed(1, 9)
	require.False(t, f.has(1, 1024))
	r.entries[1].end = 1
	f.keep(r, p, 10)
	require.Empty(t, f)
}

// After one that stays, twice as many must have gone.
func TestSeconds(t *testing.T) {
	var s seconds
	for round := range 3 {
		for range firstBrief << round {
			require.False(t, s.goes())
			s.lived(3, 10)
		}
		require.True(t, s.goes())
		require.EqualValues(t, 3, s.end)
		s.lived([]int32{0, 12, 0}[round], 10)
	}
	s.lived(12, 10)
	require.EqualValues(t, firstBrief<<3, s.enough, "only where it was not expected")
}
