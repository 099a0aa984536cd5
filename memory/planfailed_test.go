package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that asks for more than there is, as those do that look for the largest workspace, and goes on without: what failed is no request of the step. Memory
// between blocks that stay is borrowed.
func TestPlan_ForgetsRequestsThatFail(t *testing.T) {
	for _, conf := range []string{"expandable_segments:True,expandable_segments_compaction:1.02", "expandable_segments:True", ""} {
		for first := range 2 {
			r := &turns{rig: newRig(t, 1500*mib, conf)}
			var err error
			r.plan, err = r.a.NewPlan(PlanWait(longWait))
			require.NoError(t, err)
			var stay, goes []Block
			for i := range 8 {
				b := r.alloc(3*mib+uint64(i)*100*kib, 0)
				if i%2 == 0 {
					stay = append(stay, b)
				} else {
					goes = append(goes, b)
				}
			}
			r.free(goes...)
			probe := func(mibs uint64) {
				_, err := r.tryAlloc(mibs*mib, 0)
				requireOOM(t, err, ErrDeviceFull)
			}
			step := func() {
				require.NoError(t, r.plan.Step())
				if first == 0 {
					probe(1490)
				}
				x := r.alloc(100*mib, 0)
				probe(1490)
				probe(1600)
				var live []Block
				for i := range 20 {
					live = append(live, r.alloc(15*mib+uint64(i)*20*kib, 0))
				}
				for i, b := range live {
					y := r.alloc(10*mib, 0)
					if i == 10 {
						probe(1420)
					}
					r.free(b, y)
				}
				r.free(x)
			}
			for range 3 {
				step()
			}
			before := r.plan.Stats()
			for range 5 {
				step()
			}
			now := r.plan.Stats()
			require.Equal(t, [4]uint64{5 * 41, 0, 0, 0}, [4]uint64{now.Served - before.Served, now.Missed - before.Missed, now.Unknown - before.Unknown, now.Refused - before.Refused}, "%q %d", conf, first)
			require.Equal(t, 1, now.Programs)
			require.Equal(t, before.Placed, now.Placed)
			r.free(stay...)
			require.NoError(t, r.plan.Close())
		}
	}
}
