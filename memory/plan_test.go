package memory

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/plan"
)

// longWait is for tests: every placement is in force when the next step begins.
const longWait = time.Minute

// A program that repeats itself is served from the second step on, in as much memory as is alive at once.
func TestPlan_ServesAStepThatRepeats(t *testing.T) {
	r := newRig(t, 1024*mib, "")
	p, err := r.a.NewPlan(PlanWait(longWait))
	require.NoError(t, err)
	for range 4 {
		require.NoError(t, p.Step())
		x := r.alloc(30*mib, 0)
		y := r.alloc(50*mib, 0)
		r.free(x)
		z := r.alloc(70*mib, 0)
		r.free(y)
		w := r.alloc(40*mib, 0)
		r.free(z, w)
	}
	s := p.Stats()
	require.EqualValues(t, 12, s.Served)
	require.EqualValues(t, 0, s.Refused)
	require.EqualValues(t, 120*mib, s.Bound) // 50 and 70
	require.EqualValues(t, 120*mib, s.Size)
	require.EqualValues(t, 120*mib, r.reserved())
	require.NoError(t, p.Close())
	require.EqualValues(t, 0, r.reserved())
}

// A step that never ends is not recorded for ever, and what came before the first step is not learned.
func TestPlan_RecordsStepsOnly(t *testing.T) {
	r := newRig(t, 1024*mib, "")
	p, err := r.a.NewPlan(PlanWait(longWait))
	require.NoError(t, err)
	before := r.alloc(mib, 0)
	st := before.b.shard.steps
	require.Empty(t, st.now.entries)
	require.NoError(t, p.Step())
	require.Zero(t, p.Stats().Programs)
	st.now.entries = make([]entry, mostRequests)
	more := r.alloc(mib, 0)
	require.Len(t, st.now.entries, mostRequests)
	require.NoError(t, p.Step())
	require.Zero(t, p.Stats().Programs)
	r.free(before, more)
	_, err = r.a.NewPlan()
	require.ErrorContains(t, err, "close it first")
	require.NoError(t, p.Close())
	require.Error(t, p.Step())
	require.NoError(t, p.Close())
	again, err := r.a.NewPlan()
	require.NoError(t, err)
	require.NoError(t, again.Close())
	require.NoError(t, (*Plan)(nil).Step(), "none")
	require.Error(t, new(Plan).Step())
	require.Zero(t, (*Plan)(nil).Stats())
}

// Planned blocks that are in use when the plan is closed stay valid, and their memory goes back when they are free.
func TestPlan_BlocksOutliveIt(t *testing.T) {
	r := newRig(t, 1024*mib, "")
	p, err := r.a.NewPlan(PlanWait(longWait))
	require.NoError(t, err)
	var last Block
	for range 3 {
		require.NoError(t, p.Step())
		if !last.IsZero() {
			r.free(last)
		}
		last = r.alloc(30*mib, 0)
	}
	require.NotZero(t, p.Stats().Served)
	require.NoError(t, p.Close())
	r.check()
	require.EqualValues(t, 30*mib, r.reserved())
	r.free(last)
	require.ErrorIs(t, r.a.Free(last), ErrDoubleFree)
	r.empty()
	require.Zero(t, r.reserved())
}

// What is closed has no plan.
func TestPlan_OfAClosedAllocator(t *testing.T) {
	r := newRig(t, 64*mib, "")
	p, err := r.a.NewPlan()
	require.NoError(t, err)
	require.NoError(t, r.a.Close())
	require.ErrorIs(t, p.Step(), device.ErrClosed)
	require.True(t, p.Closed())
	_, err = r.a.NewPlan()
	require.ErrorIs(t, err, device.ErrClosed)
}

// A placement that takes longer than a step waits is in force from a later step on, although the step that did not wait has cached what went back for it.
func TestPlan_PlacementsThatComeLate(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True"} {
		r := newRig(t, 1024*mib, conf)
		p, err := r.a.NewPlan()
		require.NoError(t, err)
		compute, late := p.compute, make(chan struct{})
		p.wait = time.Millisecond
		p.compute = func(pl *placement, q plan.Problem, index []int, homes []home, page uint64, improve time.Duration) {
			<-late
			compute(pl, q, index, homes, page, improve)
		}
		step := func() {
			require.NoError(t, p.Step())
			x := r.alloc(300*mib, 0)
			y := r.alloc(200*mib, 0)
			r.free(x)
			z := r.alloc(300*mib, 0)
			r.free(y, z)
		}
		for range 3 {
			step()
		}
		require.Zero(t, p.Stats().Served)
		late <- struct{}{} // the first is done, a second one would be late again
		require.NoError(t, p.Wait(t.Context()))
		step()
		require.EqualValues(t, 3, p.Stats().Served, conf)
		require.EqualValues(t, 500*mib, r.reserved(), conf)
		close(late)
		require.NoError(t, p.Close())
	}
}

// One step waits for a placement that takes long. Those that follow look whether it is done.
func TestPlan_WaitsOnceForAPlacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1024*mib, "")
		p, err := r.a.NewPlan()
		require.NoError(t, err)
		compute, late := p.compute, make(chan struct{})
		p.compute = func(pl *placement, q plan.Problem, index []int, homes []home, page uint64, improve time.Duration) {
			<-late
			compute(pl, q, index, homes, page, improve)
		}
		step := func() {
			require.NoError(t, p.Step())
			r.free(r.alloc(300*mib, 0))
		}
		began := time.Now()
		for range 12 {
			step()
		}
		require.Equal(t, stepWait, time.Since(began))
		require.Equal(t, 1, p.Stats().Placed)
		close(late)
		require.NoError(t, p.Wait(t.Context()))
		step()
		require.EqualValues(t, 1, p.Stats().Served)
	})
}

// Placements that take longer than a step waits, and come to nothing, have a small part of the time.
func TestPlan_RestsAfterPlacementsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1024*mib, "")
		p, err := r.a.NewPlan(PlanWait(0))
		require.NoError(t, err)
		const takes = time.Second
		p.compute = func(pl *placement, _ plan.Problem, _ []int, _ []home, _ uint64, _ time.Duration) {
			time.Sleep(takes)
			pl.took, pl.err = takes, context.DeadlineExceeded
			close(pl.done)
		}
		for range 1000 {
			require.NoError(t, p.Step())
			r.free(r.alloc(300*mib, 0))
			time.Sleep(takes / 20)
		}
		require.InDelta(t, 1000/20/restShare, p.Stats().Placed, 1)
	})
}

// A device on which the program fits without a plan is large enough with one: an arena takes memory that a segment of a usual size would have had.
func TestPlan_FitsWhereTheProgramDoes(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True"} {
		for _, planned := range []bool{false, true} {
			r := newRig(t, 27*mib, conf)
			p, err := r.a.NewPlan(PlanWait(longWait))
			require.NoError(t, err)
			step := func(sizes ...uint64) {
				if planned {
					require.NoError(t, p.Step())
				}
				var held []Block
				for _, n := range sizes {
					held = append(held, r.alloc(n*mib, 0))
				}
				r.free(held...)
			}
			leaf := r.alloc(3*mib, 0)
			for range 4 {
				for range 4 {
					step(2, 3, 3)
				}
				step(3, 6, 5)
			}
			r.free(leaf)
			require.NoError(t, p.Close())
		}
	}
}

// A request that fails is told what a plan keeps; nothing is missing from the sum.
func TestPlan_IsNamedWhereMemoryIsOut(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True"} {
		r := newRig(t, 600*mib, conf)
		p, err := r.a.NewPlan(PlanWait(longWait))
		require.NoError(t, err)
		for range 4 {
			require.NoError(t, p.Step())
			x := r.alloc(300*mib, 0)
			y := r.alloc(200*mib, 0)
			r.free(x, y)
		}
		require.NoError(t, p.Step())
		x, y := r.alloc(300*mib, 0), r.alloc(200*mib, 0)
		if x.Ptr() < y.Ptr() { // the other one keeps the arena from being given back
			x, y = y, x
		}
		r.free(y)
		_, err = r.a.Alloc(402*mib, r.stream(0)) // more than there is without the plan
		var oom *OOMError
		require.ErrorAs(t, err, &oom)
		require.EqualValues(t, y.Size(), oom.Planned, conf)
		require.Equal(t, oom.Reserved, oom.Allocated+oom.Pending+oom.Cached+oom.Planned, conf)
		require.ErrorContains(t, err, " MiB is kept for the steps of a plan")
		r.free(r.alloc(min(x.Size(), y.Size())+190*mib, 0), x) // and what there is it gives up
		require.NoError(t, p.Close())
	}
}
