package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// turns is a program that has steps of several kinds, on streams of their own or on one.
type turns struct {
	*rig
	plan *Plan
	most uint64 // bytes that were reserved at once since it was last set to 0
	peak uint64 // bytes in use at once
}

func newTurns(t *testing.T) *turns {
	r := &turns{rig: newRig(t, 4096*mib, "expandable_segments:True,expandable_segments_compaction:1.02")}
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

// Streams in turn within each step need as much as the one that needs most.
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
