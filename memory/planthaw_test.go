package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// thaw is training of a model most of whose parameters are frozen until a step; those have gradients, and states of the optimizer, from then on.
func (r *turns) thaw(steps, change int, size, activation uint64) {
	const layers = 7
	var kept []Block
	keep := func(bytes uint64) { kept = append(kept, r.alloc(bytes, 0)) }
	for range layers {
		keep(size)
		keep(4 * kib)
	}
	first := layers * 2 / 3
	known := layers
	for i := range steps {
		if i == change {
			first = 0
		}
		r.most = 0
		require.NoError(r.t, r.plan.Step())
		var live, gradients []Block
		for range layers {
			for range 3 {
				live = append(live, r.alloc(activation, 0))
				r.most = max(r.most, r.reserved())
			}
		}
		for k := layers - 1; k >= 0; k-- {
			g := r.alloc(activation, 0)
			if k >= first {
				gradients = append(gradients, r.alloc(size, 0), r.alloc(4*kib, 0))
			}
			r.most = max(r.most, r.reserved())
			r.free(live[3*k:]...)
			live = live[:3*k]
			r.free(g)
		}
		for known > first {
			known--
			for range 2 {
				keep(size)
				keep(4 * kib)
			}
		}
		for _, g := range gradients {
			t := r.alloc(g.Size(), 0)
			r.free(t, g)
		}
	}
	r.free(kept...)
}

// States that are made in the middle of a training have places of the plan. What the steps take when they are refused those is what a placement around them may take.
func TestPlan_GoesOnWithMoreParameters(t *testing.T) {
	for size, activation := range map[uint64]uint64{4_000_000: 6_000_000, 2_500_000: 4_096_000} {
		r := newTurns(t)
		r.thaw(40, 15, size, activation)
		now := r.plan.Stats()
		require.Less(t, now.Refused, uint64(100), size) // of 63 in each step
		require.Less(t, now.Placed, 12, size)
		require.Less(t, float64(r.most), 1.045*float64(r.a.Stats().AllocatedBytes.All.Peak), size)
	}
}
