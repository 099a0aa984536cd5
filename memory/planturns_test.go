package memory

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// turns is a program that has steps of several kinds, on streams of their own or on one.
type turns struct {
	*rig
	plan *Plan
	most uint64 // bytes that were reserved at once since it was last set to 0
	peak uint64 // bytes in use at once
	kept []Block
}

func newTurns(t *testing.T) *turns {
	return newTurnsWith(t, "expandable_segments:True,expandable_segments_compaction:1.02")
}

func newTurnsWith(t *testing.T, conf string) *turns {
	r := &turns{rig: newRig(t, 4096*mib, conf)}
	var err error
	r.plan, err = r.a.NewPlan(PlanWait(longWait))
	require.NoError(t, err)
	return r
}

// turnOp is a request of a step, of so many MiB, and before which later one it is freed.
type turnOp struct {
	size   uint64
	stream int
	end    int
}

// all are requests on a stream whose blocks are all freed at the end.
func all(stream int, sizes ...uint64) (ops []turnOp) {
	for _, n := range sizes {
		ops = append(ops, turnOp{n, stream, len(sizes)})
	}
	return ops
}

// step runs a step of a kind.
func (r *turns) step(ops []turnOp) {
	require.NoError(r.t, r.plan.Step())
	r.within(ops)
}

// within does it as a part of a step.
func (r *turns) within(ops []turnOp) {
	live := map[int]Block{}
	free := func(at int) {
		for i := range ops {
			if b, ok := live[i]; ok && ops[i].end <= at {
				r.free(b)
				delete(live, i)
			}
		}
	}
	for i, op := range ops {
		free(i)
		live[i] = r.alloc(op.size*mib, op.stream)
		r.most = max(r.most, r.reserved())
		r.peak = max(r.peak, uint64(r.a.Stats().AllocatedBytes.All.Peak))
	}
	free(len(ops))
}

// requireBound asserts that no more was reserved than 1.02 of what was in use at most, or a page more.
func (r *turns) requireBound(what string) {
	bound := max(r.peak+2*mib, uint64(float64(r.peak)*1.02))
	require.LessOrEqual(r.t, r.most, bound, "%s: peak %d MiB, reserved %d", what, r.peak/mib, r.most/mib)
}

// Training and evaluation in turn need as much as the larger of them, and every step has its places.
func TestPlan_ProgramsInTurnShareTheMemory(t *testing.T) {
	for stream := range 2 {
		r := newTurns(t)
		var before PlanStats
		for i := range 60 {
			if i == 20 {
				r.most, before = 0, r.plan.Stats()
			}
			r.step(all(0, 24, 16, 40))
			if i%5 == 4 {
				r.step(all(stream, 24, 48))
			}
		}
		s := r.plan.Stats()
		r.requireBound(fmt.Sprint("stream ", stream))
		require.Equal(t, before.Refused, s.Refused, "stream %d", stream)
		require.Equal(t, before.Missed, s.Missed, "stream %d", stream)
		require.Equal(t, before.Unknown, s.Unknown, "stream %d", stream)
		require.EqualValues(t, 80*mib, s.Bound)
		require.LessOrEqual(t, s.Arena, uint64(82*mib))
		require.NoError(t, r.plan.Close())
	}
}

// So do a stream's programs and those of another one that are in turn within each step.
func TestPlan_StreamsInTurnWithinAStep(t *testing.T) {
	r := newTurns(t)
	for i := range 40 {
		if i == 20 {
			r.most = 0
		}
		r.step(all(0, 24, 16, 40))
		r.within(all(1, 24, 48))
	}
	r.requireBound("two streams")
	s := r.plan.Stats()
	require.EqualValues(t, 152*mib, s.Bound, "the sum over the streams")
	require.NoError(t, r.plan.Close())
}

// Random programs, which have several kinds of steps on several streams in any order, keep the bound once all kinds are known. In a few no place is found for
// what kinds have in common: what is refused then is above the bound until the step ends, or the plan stands aside.
func TestPlan_RandomProgramsInTurnKeepTheBound(t *testing.T) {
	refusing, seeds := 0, planSeeds()/2
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			r := newTurns(t)
			kinds := randomKinds(rng)
			rest := uint64(0)
			var before PlanStats
			for i := range 90 {
				k := i % len(kinds)
				if i >= 3*len(kinds) {
					k = rng.IntN(len(kinds))
				}
				r.step(kinds[k])
				if i == 50 {
					r.most, before = 0, r.plan.Stats()
				}
				if i > 50 {
					require.NoError(t, r.plan.Step())
					rest = max(rest, r.reserved())
				}
			}
			if s := r.plan.Stats(); s.Refused != before.Refused {
				refusing++
				r.most = rest
			}
			if r.plan.unrest.stand != serving { // it has what the program takes without a plan
				return
			}
			r.requireBound(fmt.Sprintf("kinds %v, %+v", kinds, r.plan.Stats()))
			require.NoError(t, r.plan.Close())
		})
	}
	require.LessOrEqual(t, refusing, max(1, seeds/20))
}

// randomKinds are kinds of steps that may begin alike.
func randomKinds(rng *rand.Rand) [][]turnOp {
	kinds := make([][]turnOp, 2+rng.IntN(3))
	common := rng.IntN(4) // requests with which all steps begin
	for k := range kinds {
		n := common + 1 + rng.IntN(8)
		stream := rng.IntN(3)
		for i := range n {
			op := turnOp{2 * uint64(1+rng.IntN(30)), stream, i + 1 + rng.IntN(n-i)}
			if i < common && k > 0 {
				op.size = kinds[0][i].size
			}
			kinds[k] = append(kinds[k], op)
		}
	}
	return kinds
}

// Streams that work one after the other, with many blocks none of which is large: a step begins to work on each of them before much of it is served without places, and
// has them in either order.
func TestPlan_StreamsOneAfterTheOther(t *testing.T) {
	for first := range 2 {
		r := newTurns(t)
		alloc := func(size uint64, stream int) Block { // without a check of all that there is, which takes long
			b, err := r.a.Alloc(size, r.stream(stream))
			require.NoError(t, err)
			return b
		}
		work := func(stream, n int, size uint64) {
			var live []Block
			for i := range n {
				live = append(live, alloc(size+uint64(i)*4*kib, stream))
			}
			for i := range live {
				b := alloc(size*2/3, stream)
				require.NoError(t, r.a.Free(live[n-1-i]))
				require.NoError(t, r.a.Free(b))
			}
			r.check()
		}
		var before PlanStats
		for i := range 8 {
			if i == 3 {
				before = r.plan.Stats()
			}
			require.NoError(t, r.plan.Step())
			for k := range 2 {
				if k == first {
					work(0, 200, 300*kib)
				} else {
					work(1, 150, 400*kib)
				}
			}
		}
		require.Equal(t, uint64(5*2*(200+150)), r.plan.Stats().Served-before.Served, first)
	}
}
