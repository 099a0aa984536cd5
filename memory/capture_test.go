package memory_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/pinned"
)

// captureRig is an allocator on the emulated driver, with two streams.
type captureRig struct {
	*cudatest.Rig
	t          *testing.T
	dev        *cuda.Device
	a          *memory.Caching
	main, side *cuda.Stream
}

func newCaptureRig(t *testing.T, conf string) *captureRig {
	emu := cudatest.New(t, 1)
	return captureRigOn(t, emu, emu.Devices[0], conf)
}

// captureRigOn makes one on a device; without the emulated driver its knobs must not be used.
func captureRigOn(t *testing.T, emu *cudatest.Rig, dev *cuda.Device, conf string) *captureRig {
	r := &captureRig{Rig: emu, t: t, dev: dev}
	r.a = caching(conf)(t, r.dev).(*memory.Caching)
	t.Cleanup(func() { require.NoError(t, r.a.Close()) })
	r.main, r.side = r.stream(), r.stream()
	return r
}

// stream returns a new stream, which is closed at the end of the test.
func (r *captureRig) stream() *cuda.Stream {
	r.t.Helper()
	s, err := r.dev.NewStream()
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, s.Close()) })
	return s.(*cuda.Stream)
}

// event returns a new event, which is closed at the end of the test.
func (r *captureRig) event() *cuda.Event {
	r.t.Helper()
	e, err := r.dev.NewEvent()
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, e.Close()) })
	return e.(*cuda.Event)
}

// take allocates, and fails the test if that fails.
func (r *captureRig) take(n uint64, s device.Stream) memory.Block {
	r.t.Helper()
	b, err := r.a.Alloc(n, s)
	require.NoError(r.t, err)
	return b
}

// order places what follows on a stream behind what is on another.
func (r *captureRig) order(before, after *cuda.Stream) {
	r.t.Helper()
	e := r.event()
	require.NoError(r.t, errors.Join(before.Record(e), after.Wait(e)))
}

func (r *captureRig) reserved() int64 { return r.a.Stats().ReservedBytes.All.Current }

func TestCaptureGraph_HasMemoryOfItsOwn(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True"} {
		t.Run(conf, func(t *testing.T) {
			r := newCaptureRig(t, conf)
			out := r.take(1000, r.main)
			require.NoError(t, r.a.Free(r.take(5000, r.main))) // cached: a captured request must not get it
			var inside device.Ptr
			g, err := r.a.CaptureGraph(r.main, func() error {
				b, err := r.a.Alloc(5000, r.main)
				inside = b.Ptr()
				return errors.Join(err, r.main.Fill(b.Ptr(), 7, 1000), r.main.Copy(out.Ptr(), b.Ptr(), 1000), r.a.Free(b))
			})
			require.NoError(t, err)
			require.Equal(t, memory.PoolID{1, 0}, g.Pool().ID())
			for range 20 { // nobody gets the graph's memory, however much is asked for
				b := r.take(5000, r.main)
				require.NotEqual(t, inside, b.Ptr())
				require.NoError(t, r.main.Fill(b.Ptr(), 1, 5000))
				defer func() { require.NoError(t, r.a.Free(b)) }()
			}
			got := make([]byte, 1000)
			for range 3 {
				require.NoError(t, r.main.Fill(out.Ptr(), 0, 1000))
				require.NoError(t, g.Replay(r.main))
				require.NoError(t, r.main.CopyToHost(got, out.Ptr()))
				require.Equal(t, byte(7), got[999])
			}
			require.NoError(t, r.a.Free(out))
			require.NoError(t, g.Close())
			require.NoError(t, g.Close())
			require.ErrorIs(t, g.Replay(r.main), device.ErrClosed)
			require.NoError(t, r.a.Check())
		})
	}
}

func TestCaptureGraph_MemoryGoesBackWhenTheGraphIsClosed(t *testing.T) {
	r := newCaptureRig(t, "")
	var kept memory.Block
	g, err := r.a.CaptureGraph(r.main, func() (err error) {
		kept, err = r.a.Alloc(3<<20, r.main)
		return err
	})
	require.NoError(t, err)
	require.NoError(t, r.a.EmptyCache())
	require.Positive(t, r.reserved(), "the graph lives")
	require.NoError(t, g.Close())
	require.NoError(t, r.a.EmptyCache())
	require.Positive(t, r.reserved(), "a block of it lives")
	require.NoError(t, r.a.Free(kept))
	require.NoError(t, r.a.EmptyCache())
	require.Zero(t, r.reserved())
}

func TestCaptureGraph_ThatFailsLeavesNothing(t *testing.T) {
	r := newCaptureRig(t, "")
	wrong := errors.New("wrong")
	_, err := r.a.CaptureGraph(r.main, func() error {
		b, err := r.a.Alloc(3<<20, r.main)
		return errors.Join(err, r.a.Free(b), wrong)
	})
	require.ErrorIs(t, err, wrong)
	require.False(t, r.dev.Capturing())
	require.NoError(t, r.a.EmptyCache())
	require.Zero(t, r.reserved())
	require.Panics(t, func() { _, _ = r.a.CaptureGraph(r.main, func() error { panic("wrong") }) })
	require.False(t, r.dev.Capturing())
	require.NoError(t, r.a.Free(r.take(100, r.main)), "requests are served by the default pools again")
	require.NoError(t, r.a.EmptyCache())
}

func TestCaptureGraph_OutOfMemoryIsAnErrorAndNoWait(t *testing.T) {
	r := newCaptureRig(t, "")
	require.NoError(t, r.a.Free(r.take(200<<20, r.side))) // cached; giving it back would help, and wait
	_, err := r.a.CaptureGraph(r.main, func() error {
		_, err := r.a.Alloc(200<<20, r.main)
		return err
	})
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	b := r.take(200<<20, r.main) // out of the capture it does
	require.NoError(t, r.a.Free(b))
}

// TestCaptureGraph_DefersFreesOfBlocksOnOtherStreams frees a block that the captured side stream uses.
func TestCaptureGraph_DefersFreesOfBlocksOnOtherStreams(t *testing.T) {
	r := newCaptureRig(t, "")
	fork, join := r.event(), r.event()
	old := r.take(5000, r.main)
	var first, second memory.Block
	g, err := r.a.CaptureGraph(r.main, func() (err error) {
		first, err = r.a.Alloc(5000, r.main)
		require.NoError(t, err)
		require.NoError(t, r.main.Record(fork))
		require.NoError(t, r.side.Wait(fork))
		require.NoError(t, r.side.Fill(first.Ptr(), 1, 5000))
		require.NoError(t, r.a.RecordStream(first, r.side))
		require.NoError(t, r.a.RecordStream(old, r.side))
		require.NoError(t, r.a.Free(first))
		require.NoError(t, r.a.Free(old))
		inSide, err := r.a.Alloc(5000, r.side)
		require.NoError(t, err)
		require.NoError(t, r.a.Free(inSide))
		second, err = r.a.Alloc(5000, r.main)
		require.NoError(t, r.side.Record(join))
		return errors.Join(err, r.main.Wait(join))
	})
	require.NoError(t, err)
	require.NotEqual(t, first.Ptr(), second.Ptr(), "the side stream may still use it")
	require.NoError(t, r.a.Free(second))
	require.NoError(t, g.Replay(r.main))
	require.NoError(t, r.dev.Synchronize(context.Background()))
	require.NoError(t, r.a.Free(r.take(100, r.main))) // looks after events
	s := r.a.Stats()
	require.Zero(t, s.Active.All.Current, "after the capture nothing is held back")
	require.NoError(t, g.Close())
}

func TestCaptureGraph_FreesOnOtherStreamsEndWithTheCapture(t *testing.T) {
	r := newCaptureRig(t, "")
	g, err := r.a.CaptureGraph(r.main, func() error {
		b := r.take(5000, r.main)
		r.order(r.main, r.side)
		require.NoError(t, r.side.Fill(b.Ptr(), 1, 5000))
		require.NoError(t, errors.Join(r.a.RecordStream(b, r.side), r.a.Free(b)))
		r.order(r.side, r.main)
		require.EqualValues(t, 1, r.a.Stats().Active.All.Current)
		return nil
	})
	require.NoError(t, err)
	require.Zero(t, r.a.Stats().Active.All.Current, "nothing of it runs, so there is nothing to wait for")
	require.NoError(t, r.a.Check())
	require.NoError(t, g.Close())
}

func TestCaptureGraph_GraphsCanShareAPool(t *testing.T) {
	r := newCaptureRig(t, "")
	work := func() error {
		b, err := r.a.Alloc(3<<20, r.main)
		return errors.Join(err, r.main.Fill(b.Ptr(), 1, 3<<20), r.a.Free(b))
	}
	first, err := r.a.CaptureGraph(r.main, work)
	require.NoError(t, err)
	once := r.reserved()
	second, err := r.a.CaptureGraph(r.main, work, memory.CapturePool(first.Pool()))
	require.NoError(t, err)
	require.Equal(t, once, r.reserved())
	require.Equal(t, 2, first.Pool().Uses())
	require.NoError(t, errors.Join(first.Replay(r.main), second.Replay(r.main), r.main.Synchronize(context.Background())))
	require.NoError(t, errors.Join(first.Close(), second.Close()))
	require.NoError(t, r.a.EmptyCache())
	require.Zero(t, r.reserved())
	_, err = r.a.CaptureGraph(r.main, work, memory.CapturePool(first.Pool()))
	require.ErrorIs(t, err, memory.ErrPoolReleased)
}

func TestCaptureGraph_KeepsPinnedBlocks(t *testing.T) {
	r := newCaptureRig(t, "")
	p, err := pinned.New(r.dev, memory.Config{})
	require.NoError(t, err)
	out := r.take(1000, r.main)
	b, err := p.Alloc(1000)
	require.NoError(t, err)
	mem := b.Bytes()
	mem[0] = 9
	g, err := r.a.CaptureGraph(r.main, func() error {
		return errors.Join(r.main.CopyToDeviceAsync(out.Ptr(), mem), p.RecordStream(b, r.main))
	}, pinned.Keep(p))
	require.NoError(t, err)
	require.NoError(t, p.Free(b))
	other, err := p.Alloc(1000)
	require.NoError(t, err)
	require.NotSame(t, &mem[0], &other.Bytes()[0])
	got := make([]byte, 1)
	require.NoError(t, errors.Join(g.Replay(r.main), r.main.CopyToHost(got, out.Ptr())))
	require.Equal(t, byte(9), got[0])
	require.NoError(t, errors.Join(g.Close(), p.Free(other), p.Close(), r.a.Free(out)))
}

func TestCaptureGraph_RefusesNil(t *testing.T) {
	r := newCaptureRig(t, "")
	var bad *memory.ArgumentError
	_, err := r.a.CaptureGraph(r.main, nil)
	require.ErrorAs(t, err, &bad)
	_, err = r.a.CaptureGraph(r.main, func() error { return nil }, pinned.Keep(nil))
	require.ErrorAs(t, err, &bad)
	_, err = r.a.CaptureGraph(r.main, func() error { return nil }, memory.CaptureKeeping(nil))
	require.ErrorAs(t, err, &bad)
	require.Zero(t, r.main.CaptureID(), "nothing was begun")
}

func TestCaptureGraph_NeedsADeviceWithGraphs(t *testing.T) {
	dev := sim.New(64 << 20)
	a, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	_, err = a.CaptureGraph(dev.DefaultStream(), func() error { return nil })
	require.ErrorIs(t, err, device.ErrUnavailable)
	require.NoError(t, a.Close())
}

// TestAsync_FreeOfAnOlderBlockWaitsForTheEndOfTheCapture: a graph that freed it would do so at each replay.
func TestAsync_FreeOfAnOlderBlockWaitsForTheEndOfTheCapture(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s := r.Stream(d)
	a, err := memory.NewAsync(d, memory.Config{})
	require.NoError(t, err)
	old, err := a.Alloc(1000, s)
	require.NoError(t, err)
	require.NoError(t, s.BeginCapture())
	require.NoError(t, s.Fill(old.Ptr(), 1, 1000))
	require.NoError(t, a.Free(old))
	require.ErrorIs(t, a.Free(old), memory.ErrDoubleFree)
	require.EqualValues(t, 1, a.Stats().Allocation.All.Current)
	g, err := s.EndCapture()
	require.NoError(t, err)
	exec, err := g.Instantiate()
	require.NoError(t, err)
	require.NoError(t, errors.Join(exec.Launch(s), exec.Launch(s), s.Synchronize(context.Background())))
	require.NoError(t, errors.Join(exec.Close(), g.Close()))
	require.Zero(t, r.Calls()["cuMemFreeAsync"])
	require.NoError(t, a.EmptyCache())
	require.Equal(t, 1, r.Calls()["cuMemFreeAsync"])
	require.Zero(t, a.Stats().Allocation.All.Current)
	require.NoError(t, a.Close())
}

func TestAsync_LimitIsAFractionOfTheMemory(t *testing.T) {
	d := cudatest.New(t, 1).Devices[0]
	half := 0.5
	a, err := memory.NewAsync(d, memory.Config{MemoryFraction: &half})
	require.NoError(t, err)
	b, err := a.Alloc(cudatest.Capacity/2, d.DefaultStream())
	require.NoError(t, err)
	_, err = a.Alloc(1, d.DefaultStream())
	require.ErrorIs(t, err, memory.ErrLimit)
	require.NoError(t, a.Free(b))
	require.NoError(t, a.SetMemoryFraction(1))
	b, err = a.Alloc(cudatest.Capacity/2+512, d.DefaultStream())
	require.NoError(t, err)
	require.NoError(t, a.Free(b))
	require.Error(t, a.SetMemoryFraction(2))
	require.NoError(t, a.Close())
}

// An external input of a graph, used by replays on another stream than its own, serves nobody before the replay has ended.
func TestCaptureGraph_InputsFreedAfterAReplayWaitForIt(t *testing.T) {
	r := newCaptureRig(t, "")
	input := r.take(5000, r.main)
	g, err := r.a.CaptureGraph(r.side, func() error {
		return errors.Join(r.side.Fill(input.Ptr(), 1, 5000), r.a.RecordStream(input, r.side))
	})
	require.NoError(t, err)
	r.Hold()
	t.Cleanup(r.Release) // also if it fails: what is held would be waited for
	require.NoError(t, g.Replay(r.side))
	require.NoError(t, r.a.Free(input))
	other := r.take(5000, r.main)
	require.NotEqual(t, input.Ptr(), other.Ptr(), "the replay may still use it")
	r.Release()
	require.NoError(t, r.a.Free(other))
	require.NoError(t, r.dev.Synchronize(context.Background()))
	require.NoError(t, r.a.Free(r.take(100, r.main))) // looks after events
	require.Zero(t, r.a.Stats().Active.All.Current)
	require.NoError(t, g.Close())
}
