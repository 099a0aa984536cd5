package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that resets the peaks in each step, to log that of each, is as one that does not: what it had in use before the last reset counts for the bound of compaction, and a plan does not stand
// aside for it.
func TestResetPeakStats_InEachStepIsNothingToPlans(t *testing.T) {
	for at, name := range []string{"before Step", "after it", "in the middle", "at the end"} {
		t.Run(name, func(t *testing.T) {
			r := newTurns(t)
			stays := r.alloc(300*mib, 0)
			reset := func(now int) {
				if now == at {
					r.a.ResetPeakStats()
				}
			}
			for range 3 * watched {
				reset(0)
				require.NoError(t, r.plan.Step())
				reset(1)
				var live []Block
				for j := range 20 {
					live = append(live, r.alloc(uint64(10+j)*mib, 0))
					if j == 10 {
						reset(2)
					}
				}
				r.free(live...)
				reset(3)
			}
			s := r.plan.Stats()
			require.Zero(t, s.Aside)
			require.Zero(t, s.Deviations())
			calls := r.a.Stats().NumDeviceAlloc
			for range 8 {
				reset(0)
				r.step(all(0, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29))
				reset(3)
			}
			require.Equal(t, calls, r.a.Stats().NumDeviceAlloc)
			r.free(stays)
		})
	}
}

// The second reset in a row forgets what was in use before the first.
func TestResetPeakStats_TwiceLowersTheBound(t *testing.T) {
	r := newRig(t, 4096*mib, "expandable_segments:True,expandable_segments_compaction:1.02")
	r.free(r.alloc(300*mib, 0))
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	require.Equal(t, uint64(300*mib), r.a.allocatedPeak())
	for _, want := range []uint64{300 * mib, 0} {
		r.a.mu.Unlock()
		r.a.ResetPeakStats()
		r.a.mu.Lock()
		require.Equal(t, want, r.a.allocatedPeak())
	}
}
