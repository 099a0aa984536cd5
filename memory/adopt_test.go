package memory

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that fits without a plan fits with one. Two streams have nearly all that there is at different times of a step, and the first keeps a block in the middle
// of its arena while the second works.
func TestPlan_GivesUpEverythingBeforeARequestFails(t *testing.T) {
	for _, conf := range []string{"expandable_segments:True,expandable_segments_compaction:1.02", "expandable_segments:True", "", sharing + ",expandable_segments:True,expandable_segments_compaction:1.02"} {
		for _, scale := range []uint64{mib, 100 * kib} {
			capacity := 310 * scale
			if !strings.Contains(conf, "compaction") {
				capacity += 60 * mib // what segments of usual sizes take more, with or without a plan
			}
			r := &turns{rig: newRig(t, capacity, conf)}
			var err error
			r.plan, err = r.a.NewPlan(PlanWait(longWait))
			require.NoError(t, err)
			for step := range 60 {
				require.NoError(t, r.plan.Step())
				x := r.alloc(70*scale, 0)
				y := r.alloc(160*scale, 0)
				r.free(y)
				z, err := r.tryAlloc(150*scale, 1)
				require.NoError(t, err, "%q %d, step %d", conf, scale, step)
				r.free(x, z)
				require.NoError(t, r.a.check())
			}
			require.NoError(t, r.plan.Close())
			r.empty()
			require.Zero(t, r.a.Stats().ReservedBytes.All.Current)
		}
	}
}

// What fills a borrowed block all by itself is no inactive split any more when the plan gives everything up.
func TestPlan_AdoptsBorrowedBlocksThatAreFull(t *testing.T) {
	r := newRig(t, 4096*mib, "")
	p, err := r.a.NewPlan(PlanWait(longWait))
	require.NoError(t, err)
	x, hole, y := r.alloc(6*mib, 0), r.alloc(5*mib, 0), r.alloc(6*mib, 0)
	r.free(hole)
	var b Block
	for range 4 {
		r.free(b)
		require.NoError(t, p.Step())
		b = r.alloc(5*mib, 0)
	}
	require.Equal(t, b.Size(), b.b.slot.home.size)
	r.a.mu.Lock()
	_, err = r.a.adopt()
	r.a.mu.Unlock()
	require.NoError(t, err)
	r.check()
	r.free(x, y, b)
	require.NoError(t, p.Close())
}
