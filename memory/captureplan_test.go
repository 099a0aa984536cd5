package memory_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/memory"
)

const mib = 1 << 20

// chain is a step: each block is filled from the one before, which is freed then, and the last value goes to out.
func (r *captureRig) chain(s *cuda.Stream, out memory.Block, value byte, sizes ...uint64) error {
	b, err := r.a.Alloc(out.Size(), s)
	if err != nil {
		return err
	}
	err = s.Fill(b.Ptr(), value, b.Size())
	for _, n := range sizes {
		next, failed := r.a.Alloc(n*mib, s)
		if failed != nil {
			return errors.Join(err, failed, r.a.Free(b))
		}
		err = errors.Join(err, s.Copy(next.Ptr(), b.Ptr(), out.Size()), r.a.Free(b))
		b = next
	}
	return errors.Join(err, s.Copy(out.Ptr(), b.Ptr(), out.Size()), r.a.Free(b))
}

var chainSizes = []uint64{3, 20, 7, 11, 15, 5, 24, 6}

// planOf makes a plan that has seen the chain on a stream.
func (r *captureRig) planOf(s *cuda.Stream, out memory.Block) *memory.Plan {
	plan, err := r.a.NewPlan()
	require.NoError(r.t, err)
	for range 4 {
		require.NoError(r.t, plan.Step())
		require.NoError(r.t, r.chain(s, out, 1, chainSizes...))
	}
	return plan
}

// bytesOf is what the segments of a pool have.
func bytesOf(p *memory.Pool) (bytes uint64) {
	for _, seg := range p.Snapshot().Segments {
		bytes += seg.TotalSize
	}
	return bytes
}

// A captured step has the memory that the plan places it in: two neighbours of the chain at once, and no more.
func TestCaptureGraph_OfAPlannedStepTakesWhatThePlanSays(t *testing.T) {
	for conf, most := range map[string]int64{"": 32, "expandable_segments:True": 40 /* two pages */, "expandable_segments:True,expandable_segments_compaction:1.02": 32} {
		t.Run(conf, func(t *testing.T) { takesWhatThePlanSays(t, conf, most*mib) })
	}
}

func takesWhatThePlanSays(t *testing.T, conf string, most int64) {
	r := newCaptureRig(t, conf)
	out := r.take(4096, r.main)
	plan := r.planOf(r.main, out)
	require.NoError(t, r.a.EmptyCache())
	before, reserved := plan.Stats(), r.a.Stats().ReservedBytes.All.Current
	g, err := r.a.CaptureGraph(r.main, func() error { return r.chain(r.main, out, 2, chainSizes...) }, memory.CapturePlan())
	require.NoError(t, err)
	require.Equal(t, uint64(1+len(chainSizes)), plan.Stats().Served-before.Served)
	require.LessOrEqual(t, r.a.Stats().ReservedBytes.All.Current-reserved, most)
	require.NoError(t, r.a.EmptyCache())
	require.GreaterOrEqual(t, bytesOf(g.Pool()), uint64(30*mib)) // replays write there
	for range 3 {
		require.NoError(t, plan.Step())
		require.NoError(t, r.chain(r.main, out, 1, chainSizes...))
		require.NoError(t, g.Replay(r.main))
		require.NoError(t, r.dev.Synchronize(context.Background()))
		r.requireFilled(out, 2)
	}
	require.NoError(t, g.Close())
	require.NoError(t, r.a.Free(out))
	require.NoError(t, plan.Close())
	require.NoError(t, r.a.EmptyCache())
	require.Zero(t, r.a.Stats().ReservedBytes.All.Current)
}

// Captures that go another way than the step before are served as without a plan, and graphs of a pool share what it has.
func TestCaptureGraph_PlannedWorkMayGoAnotherWay(t *testing.T) {
	r := newCaptureRig(t, "")
	out, other := r.take(4096, r.main), r.take(4096, r.main)
	plan := r.planOf(r.main, out)
	pool := r.a.NewPool()
	var kept memory.Block
	ways := []func() error{
		func() error { return r.chain(r.main, out, 2, 9, 1, 25, 25, 2) },
		func() error { return r.chain(r.main, out, 3, append([]uint64{3, 20, 8}, chainSizes...)...) },
		func() (err error) {
			kept, err = r.a.Alloc(20*mib, r.main)
			return errors.Join(err, r.chain(r.main, out, 4, chainSizes...))
		},
		func() error { return r.chain(r.main, out, 5, chainSizes...) },
		func() error { return r.chain(r.side, other, 6, chainSizes...) }, // a stream that the plan has not seen
	}
	for i, way := range ways {
		s, to := r.main, out
		if i == 4 {
			s, to = r.side, other
		}
		g, err := r.a.CaptureGraph(s, way, memory.CapturePlan(), memory.CapturePool(pool))
		require.NoError(t, err)
		require.NoError(t, g.Replay(s))
		require.NoError(t, r.dev.Synchronize(context.Background()))
		r.requireFilled(to, byte(2+i))
		require.NoError(t, g.Close())
	}
	require.Less(t, bytesOf(pool), uint64(200*mib))
	require.NoError(t, pool.Close())
	for _, b := range []memory.Block{kept, out, other} { // one of them has a place of the plan
		require.NoError(t, r.a.Free(b))
	}
	require.NoError(t, plan.Close())
	require.NoError(t, r.a.EmptyCache())
	require.Zero(t, r.a.Stats().ReservedBytes.All.Current)
}

func TestCaptureGraph_WithoutAPlannedStep(t *testing.T) {
	r := newCaptureRig(t, "")
	out := r.take(4096, r.main)
	capture := func() *memory.Graph {
		g, err := r.a.CaptureGraph(r.main, func() error { return r.chain(r.main, out, 2, 3) }, memory.CapturePlan())
		require.NoError(t, err)
		return g
	}
	g := capture() // no plan
	plan, err := r.a.NewPlan()
	require.NoError(t, err)
	h := capture() // that has seen nothing
	require.Equal(t, bytesOf(g.Pool()), bytesOf(h.Pool()))
	require.NoError(t, errors.Join(g.Close(), h.Close(), r.a.Free(out), plan.Close(), r.a.EmptyCache()))
	require.Zero(t, r.a.Stats().ReservedBytes.All.Current)
}

// Work that fails or panics, and a device without memory for the step, leave nothing behind.
func TestCaptureGraph_PlannedWorkThatFails(t *testing.T) {
	r := newCaptureRig(t, "")
	out := r.take(4096, r.main)
	plan := r.planOf(r.main, out)
	require.NoError(t, r.a.EmptyCache())
	base := r.a.Stats().ReservedBytes.All.Current
	failed := errors.New("failed")
	_, err := r.a.CaptureGraph(r.main, func() error {
		return errors.Join(r.chain(r.main, out, 2, chainSizes[:3]...), failed)
	}, memory.CapturePlan())
	require.ErrorIs(t, err, failed)
	require.PanicsWithValue(t, "work", func() {
		_, _ = r.a.CaptureGraph(r.main, func() error { panic("work") }, memory.CapturePlan())
	})
	var held []memory.Block
	for b, err := r.a.Alloc(32*mib, r.side); err == nil; b, err = r.a.Alloc(32*mib, r.side) {
		held = append(held, b)
	}
	_, err = r.a.CaptureGraph(r.main, func() error { return r.chain(r.main, out, 2, chainSizes...) }, memory.CapturePlan())
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	for _, b := range held {
		require.NoError(t, r.a.Free(b))
	}
	require.NoError(t, r.a.EmptyCache())
	require.Equal(t, base, r.a.Stats().ReservedBytes.All.Current)
	require.NoError(t, errors.Join(r.a.Free(out), plan.Close()))
}

// Whichever call of the driver fails while a step is captured with its plan: the capture says so, and keeps nothing; the next one works.
func TestCaptureGraph_PlannedWhileTheDriverFails(t *testing.T) {
	r := newCaptureRig(t, "")
	out := r.take(4096, r.main)
	plan := r.planOf(r.main, out)
	capture := func() (*memory.Graph, error) {
		return r.a.CaptureGraph(r.main, func() error { return r.chain(r.main, out, 2, chainSizes...) }, memory.CapturePlan())
	}
	again := func() { // what follows a failure: the program's own step
		require.NoError(t, plan.Step())
		require.NoError(t, r.chain(r.main, out, 1, chainSizes...))
	}
	g, err := capture()
	require.NoError(t, err)
	require.NoError(t, g.Close())
	again()
	require.NoError(t, r.a.EmptyCache())
	base := r.a.Stats().ReservedBytes.All.Current
	failures := 0
	for nth := 1; ; nth++ {
		r.Fail("*", nth, 999)
		g, err := capture()
		r.ClearFaults()
		if err == nil {
			require.NoError(t, g.Close())
		} else {
			failures++
		}
		again()
		require.NoError(t, r.a.EmptyCache())
		require.Equal(t, base, r.a.Stats().ReservedBytes.All.Current, "call %d fails", nth)
		if err == nil {
			break
		}
	}
	require.Greater(t, failures, 20, "all calls before there is a graph: the first that is not told ends the loop")
	require.NoError(t, errors.Join(r.a.Free(out), plan.Close(), r.a.EmptyCache()))
	require.Zero(t, r.a.Stats().ReservedBytes.All.Current)
}

// A step in which a block takes the place of an older one, as a variable of a loop does: in a capture, too.
func TestCaptureGraph_OfAPlannedStepWithABlockThatStays(t *testing.T) {
	r := newCaptureRig(t, "expandable_segments:True,expandable_segments_compaction:1.02")
	out := r.take(4096, r.main)
	var held memory.Block
	step := func(value byte) error {
		b, err := r.a.Alloc(3*mib, r.main)
		if err != nil {
			return err
		}
		if held != (memory.Block{}) {
			err = r.a.Free(held)
		}
		held = b
		return errors.Join(err, r.chain(r.main, out, value, chainSizes...))
	}
	plan, err := r.a.NewPlan()
	require.NoError(t, err)
	for range 6 {
		require.NoError(t, plan.Step())
		require.NoError(t, step(1))
	}
	g, err := r.a.CaptureGraph(r.main, func() error { return step(2) }, memory.CapturePlan())
	require.NoError(t, err)
	require.NoError(t, g.Replay(r.main))
	require.NoError(t, errors.Join(r.a.Free(held), r.a.Free(out), g.Close(), plan.Close(), r.a.EmptyCache()))
	require.Zero(t, r.a.Stats().ReservedBytes.All.Current)
}
