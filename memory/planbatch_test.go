package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// newMovingRig is an allocator as a plan likes it: with pages that move.
func newMovingRig(t *testing.T) (*rig, *Plan) {
	r := newRig(t, 4096*mib, "expandable_segments:True,expandable_segments_compaction:1.02")
	p, err := r.a.NewPlan(PlanWait(longWait))
	require.NoError(t, err)
	return r, p
}

// A batch that is made before the step begins is a request of the step before.
func TestPlan_BatchesMadeBeforeTheStep(t *testing.T) {
	r, p := newMovingRig(t)
	leaf := r.alloc(200*mib, 0)
	for i := range 8 {
		x := r.alloc(14*mib, 0)
		require.NoError(t, p.Step())
		h := r.alloc(50*mib, 0)
		g := r.alloc(30*mib, 0)
		r.free(h)
		u := r.alloc(20*mib, 0)
		r.free(g, u, x)
		if i == 2 {
			r.a.ResetPeakStats()
		}
	}
	require.LessOrEqual(t, float64(r.a.Stats().ReservedBytes.All.Peak), 1.02*294*mib)
	require.EqualValues(t, 0, p.Stats().Refused)
	r.free(leaf)
}

// Training and evaluation in turn, with a batch that is smaller at the end of each.
func TestPlan_ProgramsInTurnTakeNoMoreThanWithout(t *testing.T) {
	run := func(r *rig, step func()) uint64 {
		leaf := r.alloc(20*mib, 0)
		train := func(n uint64) {
			x := r.alloc(n*mib/8, 0)
			step()
			a := r.alloc(2*n*mib, 0)
			b := r.alloc(3*n*mib, 0)
			r.free(a)
			c := r.alloc(n*mib, 0)
			r.free(b, c, x)
		}
		evaluate := func(n uint64) {
			x := r.alloc(n*mib/8, 0)
			step()
			a := r.alloc(3*n*mib/2, 0)
			b := r.alloc(n*mib, 0)
			r.free(a, b, x)
		}
		for range 4 {
			for range 5 {
				train(16)
			}
			train(8)
			for range 3 {
				evaluate(16)
			}
			evaluate(4)
		}
		r.free(leaf)
		return uint64(r.a.Stats().ReservedBytes.All.Peak)
	}
	r, p := newMovingRig(t)
	with := run(r, func() { require.NoError(t, p.Step()) })
	without := run(newRig(t, 4096*mib, "expandable_segments:True,expandable_segments_compaction:1.02"), func() {})
	require.LessOrEqual(t, float64(with), 1.02*float64(without))
	require.NotZero(t, p.Stats().Served)
}
