package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a step keeps for once, and had from a gap of the arena, is in the way of those that follow, until they are placed around it; and again when it is gone. Where pages move, the arena becomes
// segments then, and there is a new one.
func TestPlan_PlacesAroundWhatStaysInTheArena(t *testing.T) {
	r := newTurnsWith(t, "expandable_segments:True")
	ops := all(0, 8, 30, 14, 6, 22, 8, 40, 3)
	for range 6 {
		r.step(ops)
	}
	require.NoError(t, r.plan.Step())
	first := r.alloc(8*mib, 0)
	stays := r.alloc(12*mib, 0) // nobody expected it
	r.free(first)
	in := (*r.a.shards.Load())[0].steps
	require.NotNil(t, stays.b.slot)
	served := func(steps int) (all int) {
		before := r.plan.Stats()
		r.most = 0
		for range steps {
			r.step(ops)
		}
		now := r.plan.Stats()
		require.Zero(t, now.Refused-before.Refused)
		return int(now.Served - before.Served)
	}
	for range 4 {
		r.step(ops)
	}
	require.Equal(t, 8*len(ops), served(8))
	require.Len(t, in.pins(), 1)
	require.Equal(t, 1, in.programs[0].pins)
	r.requireBound("around it")
	r.free(stays)
	for range 8 {
		r.step(ops)
	}
	require.Equal(t, 8*len(ops), served(8))
	require.Zero(t, in.programs[0].pins)
	r.requireBound("after it")
}

// A step that keeps what others free is one of a kind: its requests are planned again when that was so for some steps.
func TestPlan_MakesRoomBesideWhatStays(t *testing.T) {
	for _, conf := range []string{"expandable_segments:True,expandable_segments_compaction:1.02", "expandable_segments:True", ""} {
		r := &turns{rig: newRig(t, 4096*mib, conf)}
		var err error
		r.plan, err = r.a.NewPlan(PlanWait(longWait))
		require.NoError(t, err)
		ops := all(0, 8, 30, 14, 6, 22, 8, 40, 3)
		for range 6 {
			r.step(ops)
		}
		require.NoError(t, r.plan.Step())
		var stays, goes []Block
		for i, op := range ops {
			b := r.alloc(op.size*mib, 0)
			if i%3 == 1 {
				stays = append(stays, b)
			} else {
				goes = append(goes, b)
			}
		}
		r.free(goes...)
		var before PlanStats
		for i := range 16 {
			if i == 8 {
				before, r.most = r.plan.Stats(), 0
			}
			r.step(ops)
		}
		now := r.plan.Stats()
		require.Zero(t, now.Deviations()-before.Deviations(), conf)
		require.Equal(t, now.Served-before.Served, uint64(8*len(ops)), conf)
		if conf != "" {
			r.requireBound(conf)
		}
		r.free(stays...)
		r.step(ops)
		require.NoError(t, r.plan.Close())
	}
}

// Models one after the other, each with parameters, and states that its first step makes, which are asked for as the temporary blocks of all other steps are. In a
// fresh process the plan of the second one would be as good as that of the first. So it is here: the states are not put where the first one's temporary blocks were.
func TestPlan_LearnsAnotherModelAnew(t *testing.T) {
	r := newTurns(t)
	states := []uint64{22, 14, 6, 8, 30}
	ops := all(0, 40, 30, 14, 8)
	for i := range ops {
		ops[i].end += len(states)
	}
	for _, n := range states {
		ops = append(ops, turnOp{n, 0, len(ops) + 1})
	}
	for range 3 {
		r.peak, r.most = 0, 0
		r.a.ResetPeakStats()
		require.NoError(t, r.plan.Step())
		var model []Block
		for _, n := range states {
			model = append(model, r.alloc(n*mib, 0))
		}
		require.NoError(t, r.plan.Step())
		var activations []Block
		for _, op := range ops[:4] {
			activations = append(activations, r.alloc(op.size*mib, 0))
		}
		for _, n := range states {
			model = append(model, r.alloc(n*mib, 0))
			r.free(r.alloc(n*mib, 0))
		}
		r.free(activations...)
		for range 2 {
			r.step(ops)
		}
		before := r.plan.Stats()
		for i := range 2 * recentSteps {
			if i == recentSteps { // the arena is large enough for the first step until then
				r.most = 0
			}
			r.step(ops)
		}
		now := r.plan.Stats()
		require.Zero(t, now.Deviations()-before.Deviations())
		require.Equal(t, uint64(2*recentSteps*len(ops)), now.Served-before.Served)
		r.requireBound("steps")
		r.free(model...)
	}
}

// What comes and goes, as a cache does between two requests, is no reason to learn anew each time.
func TestPlan_IsPatientWithModelsInTurn(t *testing.T) {
	r := newTurns(t)
	ops := all(0, 8, 30, 14, 6)
	unknown := func() uint64 { return r.plan.Stats().Unknown }
	for range 8 { // sequences
		cache := r.alloc(200*mib, 0)
		for range 20 {
			r.step(ops)
		}
		r.free(cache)
	}
	before := unknown()
	for range 8 {
		cache := r.alloc(200*mib, 0)
		for range 20 {
			r.step(ops)
		}
		r.free(cache)
	}
	require.LessOrEqual(t, unknown()-before, uint64(8*20*len(ops)/20), "of %d requests", 8*20*len(ops))
}

func TestPatience_DoublesAndEnds(t *testing.T) {
	var p patience
	var done []int
	for step := range 300 {
		if !p.waits() && p.again(true) {
			done = append(done, step)
		}
	}
	require.Equal(t, []int{0, 2, 5, 10, 19, 36, 69, 134, 199, 264}, done)
	for range mostPause + longAgo + 1 {
		if !p.waits() {
			require.False(t, p.again(false))
		}
	}
	require.True(t, p.again(true))
	require.Equal(t, 1, p.pause)
}

// A step of many blocks alike begins to work with the first of them, though each is a small part of what is needed.
func TestPlan_OfManyBlocksAlive(t *testing.T) {
	for _, n := range []int{256, 257, 1000} {
		r := newTurns(t)
		sizes := make([]uint64, n)
		for i := range sizes {
			sizes[i] = 3
		}
		ops := all(0, sizes...)
		for range 3 {
			r.step(ops)
		}
		before := r.plan.Stats()
		r.step(ops)
		require.Equal(t, uint64(n), r.plan.Stats().Served-before.Served, n)
	}
}

// stages is a training whose optimizer keeps one block for each parameter until a step, and more, or other ones, from then on.
func (r *turns) stages(steps, change int, more bool) {
	const params = 20
	size := func(i int) uint64 { return 3_600_000 + uint64(i)*30_000 }
	var states []Block
	keep := func(times int) {
		for range times {
			for i := range params {
				states = append(states, r.alloc(size(i), 0))
			}
		}
	}
	keep(1) // parameters
	for i := range steps {
		require.NoError(r.t, r.plan.Step())
		var activations, gradients []Block
		for i := range params {
			activations = append(activations, r.alloc(18_000_000+uint64(i)*18_000, 0))
		}
		for _, b := range activations {
			g := r.alloc(12_000_000, 0)
			r.free(b, g)
		}
		for i := range params {
			gradients = append(gradients, r.alloc(size(i), 0))
		}
		switch {
		case i == 0 || i == change && more:
			keep(1)
		case i == change:
			r.free(states[params:]...)
			states = states[:params]
			keep(2)
		}
		for _, g := range gradients {
			b := r.alloc(6_000_000, 0)
			r.free(b, g)
		}
	}
	r.free(states...)
}

// Another optimizer, or an average of the parameters, is learned like what was there first: nothing is refused for good, and nothing placed again and again.
func TestPlan_GoesOnWithOtherStates(t *testing.T) {
	for _, more := range []bool{false, true} {
		r := newTurns(t)
		r.stages(80, 15, more)
		now := r.plan.Stats()
		require.Less(t, now.Placed, 20, more)
		require.Less(t, now.Deviations()+now.Unknown, uint64(500), more) // of 80 in each step
		require.Greater(t, now.Served, uint64(80*80*9/10), more)
	}
}

// Blocks nearly alike, none of which is a large part of what is alive: the plan is there before the caching allocator has given them segments that it does not need.
func TestPlan_OfManyBlocksNearlyAlike(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True"} {
		r := newRig(t, 16*1024*mib, conf)
		p, err := r.a.NewPlan(PlanWait(longWait))
		require.NoError(t, err)
		const n = 290
		alloc := func(size uint64) Block { // without a check of all that there is, which takes long
			b, err := r.a.Alloc(size*mib, r.stream(0))
			require.NoError(t, err)
			return b
		}
		free := func(b Block) { require.NoError(t, r.a.Free(b)) }
		for range 2 * recentSteps {
			require.NoError(t, p.Step())
			var odd, later []Block
			for i := range uint64(n) {
				if b := alloc(11 + i%3); i%2 == 1 {
					odd = append(odd, b)
				} else {
					later = append(later, b)
				}
			}
			for _, b := range later {
				free(b)
			}
			later = nil
			for i := range uint64(n / 3) {
				later = append(later, alloc(14+i%2))
			}
			for _, b := range append(odd, later...) {
				free(b)
			}
		}
		r.check()
		require.Less(t, float64(r.reserved()), 1.02*float64(r.a.Stats().AllocatedBytes.All.Peak), conf)
		require.NoError(t, p.Close())
	}
}

// A block that is kept for some steps, and given back, is no model that goes.
func TestPlan_TellsKeptBlocksFromModels(t *testing.T) {
	r := newTurns(t)
	ops := all(0, 8, 30, 14, 6)
	for i := range 60 {
		r.step(ops)
		switch {
		case i%10 == 4:
			r.kept = append(r.kept, r.alloc(20*mib, 0))
		case i%10 == 7:
			r.free(r.kept...)
			r.kept = nil
		}
	}
	st := (*r.a.shards.Load())[0].steps
	require.Zero(t, st.others.steps+st.others.mistakes, "nothing was forgotten")
}

// Of a request whose blocks have been planned again and stay once more, many must have gone until that is done again.
func TestBrief(t *testing.T) {
	var b brief
	for _, times := range []int{firstBrief, firstBrief * relapse, lastSettled, lastSettled} {
		for range times - 1 {
			require.False(t, b.again(3, 10))
		}
		require.True(t, b.again(3, 10))
		require.False(t, b.again(0, 10), "it stays")
	}
}
