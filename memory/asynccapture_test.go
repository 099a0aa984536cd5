package memory_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/memory"
)

// newStream and newEvent make what the test closes at its end.
func newStream(t *testing.T, d *cuda.Device) *cuda.Stream {
	t.Helper()
	s, err := d.NewStreamWithPriority(0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func newEvent(t *testing.T, d *cuda.Device) device.Event {
	t.Helper()
	e, err := d.NewEvent()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// replays captures work on a stream, runs the graph three times and closes it.
func replays(t *testing.T, s *cuda.Stream, work func()) {
	t.Helper()
	require.NoError(t, s.BeginCapture())
	work()
	g, err := s.EndCapture()
	require.NoError(t, err)
	x, err := g.Instantiate()
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, x.Launch(s))
	}
	require.NoError(t, s.Synchronize(t.Context()))
	require.NoError(t, x.Close())
	require.NoError(t, g.Close())
}

// Blocks that are allocated in a capture become part of the graph. The stream that frees one must be part of the capture to its
// end, so it is the block's own, behind the others that used it.
func TestAsync_BlocksOfACaptureAreTheGraphs(t *testing.T) {
	checkBlocksOfACapture(t, cudatest.New(t, 1).Devices[0])
}

func checkBlocksOfACapture(t *testing.T, d *cuda.Device) {
	a := async(t, d)
	s, side := newStream(t, d), newStream(t, d)
	out, err := a.Alloc(1<<20, s)
	require.NoError(t, err)
	fork, join := newEvent(t, d), newEvent(t, d)
	replays(t, s, func() {
		b, err := a.Alloc(1<<20, s)
		require.NoError(t, err)
		require.NoError(t, s.Fill(b.Ptr(), 7, 1<<20))
		require.NoError(t, s.Record(fork))
		require.NoError(t, side.Wait(fork))
		require.NoError(t, side.Copy(out.Ptr(), b.Ptr(), 1<<20))
		require.NoError(t, a.RecordStream(b, side))
		require.NoError(t, a.Free(b))
		require.NoError(t, side.Record(join))
		require.NoError(t, s.Wait(join))
	})
	got := make([]byte, 1<<20)
	require.NoError(t, s.CopyToHost(got, out.Ptr()))
	require.Equal(t, bytes.Repeat([]byte{7}, 1<<20), got)
	require.NoError(t, a.Free(out))
	require.NoError(t, a.Close())
}

// A block that outlives its capture is there after a launch, and the next launch frees it, unless its owner did.
func TestAsync_BlocksMayOutliveTheirCapture(t *testing.T) {
	checkBlocksOutliveTheirCapture(t, cudatest.New(t, 1).Devices[0])
}

func checkBlocksOutliveTheirCapture(t *testing.T, d *cuda.Device) {
	a := async(t, d)
	s := newStream(t, d)
	var b memory.Block
	require.NoError(t, s.BeginCapture())
	b, err := a.Alloc(1<<20, s)
	require.NoError(t, err)
	require.NoError(t, s.Fill(b.Ptr(), 7, 1<<20))
	g, err := s.EndCapture()
	require.NoError(t, err)
	x, err := g.Instantiate()
	require.NoError(t, err)
	got := make([]byte, 1<<20)
	for range 2 {
		require.NoError(t, x.Launch(s))
		require.NoError(t, s.CopyToHost(got, b.Ptr()))
		require.Equal(t, bytes.Repeat([]byte{7}, 1<<20), got)
	}
	other := newStream(t, d)
	require.NoError(t, other.BeginCapture())
	require.NoError(t, a.RecordStream(b, other))
	require.NoError(t, a.Free(b), "a free of memory that is not that graph's waits for the end of the capture")
	second, err := other.EndCapture()
	require.NoError(t, err)
	require.NoError(t, second.Close())
	require.NoError(t, a.EmptyCache())
	require.Zero(t, a.Stats().Allocation.All.Current)
	require.NoError(t, x.Launch(s))
	require.NoError(t, s.Synchronize(t.Context()))
	require.NoError(t, x.Close())
	require.NoError(t, g.Close())
	require.NoError(t, a.Close())
}

// A block of a graph may be freed after the graph was closed, and also if the graph was never replayed: then there is no memory.
func TestAsync_BlocksOfAClosedGraphCanBeFreed(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	a := async(t, d)
	s := newStream(t, d)
	info, err := d.MemInfo()
	require.NoError(t, err)
	for _, launches := range []int{0, 1} {
		require.NoError(t, s.BeginCapture())
		early, err := a.Alloc(1<<20, s)
		require.NoError(t, err)
		late, err := a.Alloc(1<<20, s)
		require.NoError(t, err)
		g, err := s.EndCapture()
		require.NoError(t, err)
		x, err := g.Instantiate()
		require.NoError(t, err)
		for range launches {
			require.NoError(t, x.Launch(s))
		}
		require.NoError(t, a.Free(early))
		require.NoError(t, x.Close())
		require.NoError(t, g.Close())
		require.NoError(t, a.Free(late))
		require.NoError(t, a.EmptyCache())
		require.Zero(t, a.Stats().Allocation.All.Current)
		now, err := d.MemInfo()
		require.NoError(t, err)
		require.Equal(t, info.Free, now.Free)
	}
	require.NoError(t, a.Close())
}
