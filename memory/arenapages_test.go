package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// learned takes steps of a program whose requests live until the step ends, in reverse, and returns its plan.
func learned(t *testing.T, r *rig, sizes ...uint64) *Plan {
	p, err := r.a.NewPlan(PlanWait(longWait))
	require.NoError(t, err)
	for range 4 {
		require.NoError(t, p.Step())
		var live []Block
		for _, n := range sizes {
			live = append(live, r.alloc(n, 0))
		}
		r.free(live...)
	}
	return p
}

// An arena has the pages that its blocks lie in, and no others: not those before the first block of a step, nor those between blocks that are in use.
func TestArena_HasPagesWhereBlocksAre(t *testing.T) {
	for _, conf := range []string{"expandable_segments:True", compacting102} {
		r := newRig(t, 4096*mib, conf)
		p := learned(t, r, 4*mib, 40*mib, 8*mib, 16*mib)
		require.Zero(t, p.Stats().Deviations())
		r.empty()
		require.Zero(t, p.Stats().Arena)
		require.NoError(t, p.Step())
		var live []Block
		sum := uint64(0)
		for _, n := range []uint64{4 * mib, 40 * mib, 8 * mib, 16 * mib} {
			live = append(live, r.alloc(n, 0))
			sum += n
			require.Equal(t, sum, p.Stats().Arena, conf)
			require.Equal(t, sum, r.reserved(), conf)
			r.check()
			requireSnapshotTellsAll(t, r, sum)
		}
		r.free(live[2])
		r.empty()
		require.Equal(t, sum-8*mib, r.reserved(), "in the middle or not")
		requireSnapshotTellsAll(t, r, sum-8*mib)
		live[2] = r.alloc(16*mib, 0) // another size: the caching allocator's
		reserved := r.reserved()
		require.Greater(t, reserved, sum)

		// All becomes a segment, with its holes.
		r.a.mu.Lock()
		_, err := r.a.adopt()
		r.a.mu.Unlock()
		require.NoError(t, err)
		r.check()
		require.Zero(t, p.Stats().Arena)
		require.LessOrEqual(t, r.reserved(), reserved)
		requireSnapshotTellsAll(t, r, r.reserved())
		r.free(live...)
		require.NoError(t, p.Close())
		r.empty()
		require.Zero(t, r.reserved())
	}
}

// requireSnapshotTellsAll compares the segments of a snapshot with what is reserved.
func requireSnapshotTellsAll(t *testing.T, r *rig, reserved uint64) {
	t.Helper()
	sum := uint64(0)
	for _, seg := range r.a.Snapshot().Segments {
		sum += seg.TotalSize
	}
	require.Equal(t, reserved, sum)
}

// A block that stays where another one should be refuses that one, and not also those whose places are free: what is refused lies where it is in nobody's way.
func TestPlan_RefusesWhatIsInTheWayAlone(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True"} { // with compaction a plan of so few requests gives up all
		r := newRig(t, 4096*mib, conf)
		sizes := []uint64{6 * mib, 6 * mib, 6 * mib, 6 * mib, 6 * mib, 6 * mib}
		p := learned(t, r, sizes...)
		var stays Block
		for step := range 2 {
			require.NoError(t, p.Step())
			before := p.Stats()
			var live []Block
			for _, n := range sizes {
				live = append(live, r.alloc(n, 0))
			}
			if step == 0 {
				stays = live[2]
				live = append(live[:2], live[3:]...)
			} else {
				after := p.Stats()
				require.EqualValues(t, 1, after.Refused-before.Refused, conf)
				require.EqualValues(t, len(sizes)-1, after.Served-before.Served, conf)
				live = append(live, stays)
			}
			r.free(live...)
			r.check()
		}
		require.NoError(t, p.Close())
	}
}

// A program that has no places of its own, and is served by those of another one, has that one's memory.
func TestSteps_EnoughForWhoServes(t *testing.T) {
	old := &stepProgram{size: 30 * mib, used: 2, proven: true}
	once := &stepProgram{size: 20 * mib, used: 98}
	st := &steps{epoch: 100, programs: []*stepProgram{{size: 10 * mib, used: 99, proven: true}, old, once}}
	require.EqualValues(t, 10*mib, st.enough(), "one has not come for long, and one has come once")
	once.used = 99
	require.EqualValues(t, 20*mib, st.enough())
	old.served = 99
	require.EqualValues(t, 30*mib, st.enough())
	old.served = 98
	require.EqualValues(t, 20*mib, st.enough())
}

// Pages of stitches come in place of what others have cached, as all pages do.
func TestStitch_TakesTheCachesPlace(t *testing.T) {
	s := newStitchProgram(t)
	var peaks [2]int64
	for i := range peaks {
		s.free(s.alloc(24*mib, 1))
		s.a.ResetPeakStats()
		s.step()
		peaks[i] = s.a.Stats().ReservedBytes.All.Peak
	}
	require.NotEmpty(t, s.kept[0].b.shard.steps.stitches)
	require.LessOrEqual(t, peaks[1], peaks[0])
	s.free(s.kept...)
	require.NoError(t, s.plan.Close())
}
