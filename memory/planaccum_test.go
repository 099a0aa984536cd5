package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Gradients that are added to over some steps are made in the first of them and given back at the end of the last; in the others what is added goes at once. All of them have the same
// requests. They are one program, whose gradients stay; and that nothing of them stays every few steps is no other model.
func TestPlan_OfGradientsThatAddUp(t *testing.T) {
	for _, conf := range []string{"expandable_segments:True,expandable_segments_compaction:1.02", "expandable_segments:True", ""} {
		for _, parts := range []int{3, 4} {
			var most [2]uint64
			for with := range most {
				r := &turns{rig: newRig(t, 8192*mib, conf)}
				if with == 1 {
					var err error
					r.plan, err = r.a.NewPlan(PlanWait(longWait))
					require.NoError(t, err)
				}
				var before PlanStats
				for i := range 150 {
					if i == 64 {
						before, r.most = r.plan.Stats(), 0
					}
					r.accumulate(i, parts)
				}
				now := r.plan.Stats()
				require.LessOrEqual(t, now.Refused-before.Refused+now.Unknown-before.Unknown, uint64(2*24), "%q %d", conf, parts)
				if with == 1 {
					require.Greater(t, now.Served-before.Served, uint64(80*12), "%q %d", conf, parts)
				}
				most[with] = r.most
				require.NoError(t, r.plan.Close())
			}
			require.LessOrEqual(t, most[1], most[0], "%q %d", conf, parts)
		}
	}
}

// accumulate is a step, the n-th, of a program that adds up the gradients of so many.
func (r *turns) accumulate(n, parts int) {
	if r.plan != nil {
		require.NoError(r.t, r.plan.Step())
	}
	var activations []Block
	for range 12 {
		activations = append(activations, r.alloc(30*mib, 0))
	}
	for k := range activations {
		g := r.alloc(20*mib, 0)
		r.most = max(r.most, r.reserved())
		if n%parts == 0 {
			r.kept = append(r.kept, g)
		} else {
			r.free(g)
		}
		r.free(activations[len(activations)-1-k])
	}
	if n%parts == parts-1 {
		r.free(r.kept...)
		r.kept = nil
	}
}

// What a step is that comes after the programs were forgotten tells whether it is the same model: one that makes a model was there before, but long ago.
func TestPlan_RemembersProgramsThatGoOn(t *testing.T) {
	for _, another := range []bool{false, true} {
		r := newTurns(t)
		build, ops := all(0, 5, 6, 7), all(0, 8, 30, 14, 6)
		r.step(build)
		for range 12 {
			r.step(ops)
		}
		require.NoError(t, r.plan.Step())
		st := (*r.a.shards.Load())[0].steps
		require.Len(t, st.programs, 2)
		st.forget()
		if another {
			r.within(build)
		} else {
			r.within(ops)
		}
		require.NoError(t, r.plan.Step())
		require.Equal(t, another, len(st.programs) == 1)
		require.Equal(t, !another, st.others.pause > 1)
		require.Empty(t, st.aside)
	}
}
