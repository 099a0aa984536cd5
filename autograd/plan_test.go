package autograd_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// plan makes a plan of the rig's allocator, whose placements are there when a step begins.
func (r *rig) plan() *memory.Plan {
	r.t.Helper()
	b, err := r.alloc.Alloc(1, r.dev.DefaultStream()) // the stream is known then, and counts its steps
	require.NoError(r.t, err)
	require.NoError(r.t, r.alloc.Free(b))
	p, err := r.alloc.(*memory.Caching).NewPlan(memory.PlanWait(time.Minute))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, p.Close()) })
	return p
}

// passes are a forward and a backward pass over a matrix of its own, of so many MiB, whose function in the middle is checkpointed.
func (r *rig) passes(g *autograd.Graph, rows int) {
	r.t.Helper()
	defer g.Release()
	x, err := tensor.Zeros(r.exec, tensor.Float32, rows, 1<<18)
	require.NoError(r.t, err)
	defer x.Release()
	leaf := g.Input(x, autograd.RequiresGrad())
	y := autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable { return in[0].Exp().Sin() }, leaf.Tanh())
	require.NoError(r.t, y.Mean(nil, false).Backward())
}

func TestWithPlan_EachGraphThatHasItBeginsAStep(t *testing.T) {
	r := onSim(t)
	p := r.plan()
	for step := range 5 {
		require.Equal(t, step, p.Stats().Steps)
		r.passes(r.graph(autograd.WithPlan(p)), 2)
	}
	s := p.Stats()
	require.Zero(t, s.Deviations())
	require.Equal(t, 1, s.Programs, "the second run of the checkpoint has begun no step")
	each := s.Served / 4 // the first step taught it
	require.Greater(t, each, uint64(5))
	require.Equal(t, 4*each, s.Served)

	more := r.graph(autograd.NoGrad(), autograd.WithPlan(p))
	defer more.Release()
	require.Equal(t, 6, p.Stats().Steps, "also without gradients, and before the first operation")
}

// Parts of a batch whose gradients add up are one step, if the first alone has the option.
func TestWithPlan_GraphsWithoutItAreOfTheStepUnderWay(t *testing.T) {
	r := onSim(t)
	p := r.plan()
	for range 4 {
		first := r.graph(autograd.WithPlan(p))
		second := r.graph()
		r.passes(first, 2)
		r.passes(second, 3)
	}
	s := p.Stats()
	require.Equal(t, 4, s.Steps)
	require.Equal(t, 1, s.Programs)
	require.Zero(t, s.Deviations())
	require.Equal(t, s.Bound, s.Size, "the parts have the same memory, one after the other")
}

func TestWithPlan_NilAndClosedAreNone(t *testing.T) {
	r := onSim(t)
	r.passes(r.graph(autograd.WithPlan(nil)), 1)
	p := r.plan()
	for range 3 {
		r.passes(r.graph(autograd.WithPlan(p)), 1)
	}
	require.NoError(t, p.Close())
	r.passes(r.graph(autograd.WithPlan(p)), 1)
	again := r.plan()
	before := again.Stats().Steps
	r.passes(r.graph(autograd.WithPlan(p)), 1)
	require.Equal(t, before, again.Stats().Steps, "the closed plan is not the one that came after it")
	r.passes(r.graph(autograd.WithPlan(p), autograd.WithPlan(again)), 1)
	r.passes(r.graph(autograd.WithPlan(again), autograd.WithPlan(nil)), 1)
	require.Equal(t, before+1, again.Stats().Steps, "the last option counts")
	other := onSim(t)
	foreign := other.plan()
	require.NoError(t, foreign.Close())
	r.passes(r.graph(autograd.WithPlan(foreign)), 1) // whose allocator it was is no matter any more
}

func TestWithPlan_OfAnotherAllocatorIsAnError(t *testing.T) {
	r, other := onSim(t), onSim(t)
	p := other.plan()
	pool := r.alloc.(*memory.Caching).NewPool()
	defer func() { require.NoError(t, pool.Close()) }()
	own := r.plan()
	for name, g := range map[string]*autograd.Graph{
		"another device":   r.graph(autograd.WithPlan(p)),
		"its own pool":     r.graph(autograd.WithAllocator(pool), autograd.WithPlan(own)),
		"no cache":         r.graph(autograd.WithAllocator(memory.NewDirect(r.dev)), autograd.WithPlan(own)),
		"that of a device": autograd.NewGraph(r.dev, autograd.WithPlan(own)),
	} {
		var wrong *tensor.ValueError
		require.ErrorAs(t, g.Err(), &wrong, name)
		require.Equal(t, "WithPlan", wrong.Op)
		var op *autograd.OpError
		require.ErrorAs(t, g.Err(), &op, name)
		require.Equal(t, "NewGraph", op.Op)
		require.ErrorContains(t, g.Err(), "the plan is of another allocator", name)
		require.False(t, g.RandN(tensor.Float32, 1).Alive())
		g.Release()
	}
	require.Zero(t, own.Stats().Steps)
	require.NoError(t, memory.Drop(r.dev))

	passed := r.graph(autograd.WithAllocator(passedOn{r.alloc}), autograd.WithPlan(own))
	defer passed.Release()
	require.NoError(t, passed.Err(), "an allocator of the program may pass requests on to that of the plan")
}

// passedOn is an allocator of a program's own.
type passedOn struct{ memory.Allocator }

func TestWithPlan_ZeroPlanIsAnError(t *testing.T) {
	r := onSim(t)
	g := r.graph(autograd.WithPlan(new(memory.Plan)))
	defer g.Release()
	var argument *memory.ArgumentError
	require.ErrorAs(t, g.Err(), &argument)
	require.Equal(t, "Step", argument.Call)
}

// A driver that does not give the addresses of the arena is an error of the graph that begins the next step; the step itself goes on.
func TestWithPlan_ErrorsOfTheDriverAreTheGraphs(t *testing.T) {
	dev := sim.New(1 << 30)
	r := newRig(t, dev)
	p := r.plan()
	r.passes(r.graph(autograd.WithPlan(p)), 8)
	failed := errors.New("no")
	dev.Inject(func(c sim.Call) error {
		if c.Kind == sim.CallReserve {
			return failed
		}
		return nil
	})
	r.passes(r.graph(autograd.WithPlan(p)), 8)
	dev.Inject(nil)
	next := r.graph(autograd.WithPlan(p))
	defer next.Release()
	require.ErrorIs(t, next.Err(), failed)
	require.ErrorContains(t, next.Err(), "NewGraph")
}
