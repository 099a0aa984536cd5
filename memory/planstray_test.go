package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The first step under autocast casts each weight where it is used first, and all later ones cast all weights at once: the second step has the requests of the first in another order. What
// the plan has of memory then serves small requests too, and no more is reserved for long.
func TestPlan_OfWeightsThatAreCastAtOnce(t *testing.T) {
	r := newRig(t, 8192*mib, compacting102)
	plan, err := r.a.NewPlan(PlanWait(longWait))
	require.NoError(t, err)
	const layers = 24
	weights := func(i int) uint64 { return 400*kib + uint64(i%3)*64*kib }
	most, active := uint64(0), uint64(0)
	for step := range 6 {
		require.NoError(t, plan.Step())
		var live []Block
		for i := range layers {
			if step > 0 {
				live = append(live, r.alloc(weights(i), 0))
			}
		}
		for i := range layers {
			if step == 0 {
				live = append(live, r.alloc(weights(i), 0))
			}
			live = append(live, r.alloc(768*kib, 0), r.alloc(256*kib+uint64(i%2)*128*kib, 0))
			r.free(r.alloc(900*kib, 0))
			live = append(live, r.alloc(640*kib, 0))
		}
		most, active = max(most, r.reserved()), max(active, uint64(r.a.Stats().ActiveBytes.All.Peak))
		r.free(live...)
	}
	s := plan.Stats()
	require.Positive(t, s.Missed)
	require.NoError(t, plan.Close())
	require.LessOrEqual(t, most, active+active/50+4*mib, "%d MiB for %d", most/mib, active/mib)
}

// A step that leaves out its first requests, as one does that has its batch already, and another one later, is the same step.
func TestPlan_OfStepsWithoutTheirFirstRequests(t *testing.T) {
	r := newRig(t, 8192*mib, compacting102)
	plan, err := r.a.NewPlan(PlanWait(longWait))
	require.NoError(t, err)
	step := func(from, without int) {
		require.NoError(t, plan.Step())
		var live []Block
		for i := from; i < 24; i++ {
			if i == without {
				continue
			}
			live = append(live, r.alloc(uint64(1+i%7)*300*kib+uint64(i)*4*kib, 0))
		}
		r.free(live...)
	}
	for range 4 {
		step(0, -1)
	}
	before := plan.Stats()
	step(6, 9)
	after := plan.Stats()
	require.EqualValues(t, 17, after.Served-before.Served)
	require.Equal(t, before.Deviations(), after.Deviations())
	require.NoError(t, plan.Close())
}

// A request that fails leaves nothing out: what was expected when it came is expected still.
func TestPlan_AFailedRequestLeavesNothingOut(t *testing.T) {
	r := newRig(t, 64*mib, "")
	plan, err := r.a.NewPlan(PlanWait(longWait))
	require.NoError(t, err)
	sizes := []uint64{2 * mib, 3 * mib, 4 * mib, 5 * mib, 30 * mib}
	for range 4 {
		require.NoError(t, plan.Step())
		for _, n := range sizes {
			r.free(r.alloc(n, 0))
		}
	}
	require.NoError(t, plan.Step())
	r.free(r.alloc(sizes[0], 0))
	full := r.alloc(sizes[4], 0) // three are left out
	st := (*r.a.shards.Load())[0].steps
	require.Equal(t, 3, st.skipped)
	_, err = r.a.Alloc(60*mib, r.stream(0))
	require.Error(t, err)
	require.Equal(t, 3, st.skipped)
	w := &request{shard: st.sh, size: mib, answer: answer{epoch: st.epoch, count: &st.missed, next: st.next - 4, after: st.next, entries: len(st.now.entries)}}
	w.withdraw()
	require.Zero(t, st.skipped)
	r.free(full)
	require.NoError(t, plan.Close())
}
