package memtest

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fulltests"
)

var streamTests = []test{
	{"RecordStreamDelaysReuseUntilTheWorkIsDone", testRecordDelays},
	{"RecordStreamWaitsForEachOfSeveralStreams", testRecordSeveral},
	{"TheOwnStreamHasNoEffect", testOwnStream},
	{"RecordingTwiceIsRecordingOnce", testRecordTwice},
	{"ReuseStaysOnTheStream", testReuseStays},
	{"AStreamForEachRequestTakesNoMore", testManyStreams},
	{"AClosedStreamGetsNoMemory", testClosedStream},
	{"AClosedStreamThatUsesABlockHoldsNothingUp", testRecordClosed},
}

// commanded skips a test that needs streams which finish when told to.
func (f *fixture) commanded() {
	if f.sim == nil {
		f.t.Skip("the test needs a simulated device")
	}
}

// finished reports whether all work on a stream is done.
func (f *fixture) finished(s device.Stream) bool {
	f.t.Helper()
	done, err := s.Done()
	require.NoError(f.t, err)
	return done
}

// use enqueues work on a stream that touches a block, and records it.
func (f *fixture) use(h *held, s device.Stream) {
	f.t.Helper()
	require.NoError(f.t, s.Fill(h.block.Ptr(), 0, h.block.Size()))
	require.NoError(f.t, f.alloc.RecordStream(h.block, s))
}

// reused reports whether the memory of a freed block is handed out to its own stream.
func (f *fixture) reused(h *held) bool {
	f.t.Helper()
	next := f.take(h.bytes, h.stream)
	defer f.give(next)
	return next.block.Ptr() == h.block.Ptr()
}

func testRecordDelays(f *fixture) {
	f.commanded()
	own, other := f.streams[1], f.streams[2]
	h := f.take(12*device.MiB, own)
	f.use(h, other)
	f.give(h)
	require.False(f.t, f.reused(h) && !f.finished(other), "reused while the work of another stream is under way")
	f.sim.Complete(other.ID())
	if f.caches {
		require.True(f.t, f.reused(h), "reused once that is done")
	}
}

func testRecordSeveral(f *fixture) {
	f.commanded()
	h := f.take(12*device.MiB, f.streams[0])
	for _, s := range f.streams[1:] {
		f.use(h, s)
	}
	f.give(h)
	for _, s := range f.streams[1:] {
		allDone := true
		for _, other := range f.streams[1:] {
			allDone = allDone && f.finished(other)
		}
		require.False(f.t, f.reused(h) && !allDone)
		f.sim.Complete(s.ID())
	}
	if f.caches {
		require.True(f.t, f.reused(h))
	}
}

func testOwnStream(f *fixture) {
	h := f.take(12*device.MiB, f.streams[1])
	require.NoError(f.t, f.alloc.RecordStream(h.block, f.streams[1]))
	f.give(h)
	if f.caches {
		require.Zero(f.t, f.alloc.Stats().Active.All.Current, "nothing to wait for")
		require.True(f.t, f.reused(h))
	}
}

func testRecordTwice(f *fixture) {
	f.commanded()
	h := f.take(12*device.MiB, f.streams[0])
	for range 3 {
		f.use(h, f.streams[1])
	}
	f.give(h)
	f.sim.Complete(f.streams[1].ID())
	f.give(f.take(512, f.streams[0]))
	require.Zero(f.t, f.alloc.Stats().Active.All.Current)
}

// testReuseStays: without RecordStream nothing orders the streams, so memory freed on one is not for another, unless all
// work is done, or the allocator orders them: then what comes on the other stream comes after that work.
func testReuseStays(f *fixture) {
	f.commanded()
	h := f.take(12*device.MiB, f.streams[1])
	f.give(h)
	next := f.take(12*device.MiB, f.streams[2])
	if next.block.Ptr() == h.block.Ptr() && !f.finished(f.streams[1]) {
		f.sim.Complete(f.streams[2].ID())
		require.True(f.t, f.finished(f.streams[1]))
	}
	f.give(next)
	require.NoError(f.t, f.dev.Synchronize(context.Background()))
}

// testManyStreams is a program that opens a stream for each request: what is cached for closed ones does not add up.
func testManyStreams(f *fixture) {
	if !f.caches {
		f.t.Skip("the allocator has no cache")
	}
	manyStreams := 1000
	switch {
	case f.sim == nil && !f.storage: // opening streams takes milliseconds
		manyStreams = 50
	case f.whole: // all of the memory is written
		manyStreams = fulltests.Or(1000, 100)
	}
	var most uint64
	before := f.freeBytes()
	var last *held
	for i := range manyStreams {
		s, err := f.dev.NewStream()
		require.NoError(f.t, err)
		small, large := f.take(1000, s), f.take(21*device.MiB, s)
		require.NoError(f.t, f.alloc.RecordStream(large.block, f.streams[1]))
		if last != nil {
			f.give(last) // of the stream before, which is closed
		}
		f.give(large)
		last = small
		require.NoError(f.t, f.streams[1].Synchronize(context.Background()))
		require.NoError(f.t, s.Close())
		last.stream = f.streams[1] // looks at the content later
		held := before - min(f.freeBytes(), before)
		if i < 2 {
			most = max(most, held)
		}
		require.LessOrEqual(f.t, held, most+f.slack, "stream %d", i)
	}
	f.give(last)
	require.EqualValues(f.t, 2*manyStreams, f.alloc.Stats().Allocation.All.Allocated)
}

// closedStream is a stream on which a block was allocated and freed before it was closed.
func (f *fixture) closedStream(bytes uint64) device.Stream {
	f.t.Helper()
	s, err := f.dev.NewStream()
	require.NoError(f.t, err)
	f.give(f.take(bytes, s))
	require.NoError(f.t, s.Close())
	return s
}

// testClosedStream: no work can be enqueued on a closed stream, so memory for it is a mistake, whether or not some is cached.
func testClosedStream(f *fixture) {
	s := f.closedStream(12 * device.MiB)
	for _, bytes := range []uint64{1, 12 * device.MiB, 40 * device.MiB} {
		_, err := f.alloc.Alloc(bytes, s)
		require.ErrorIs(f.t, err, device.ErrClosed)
		require.ErrorContains(f.t, err, fmt.Sprintf("stream %d is closed", s.ID()))
	}
	require.Zero(f.t, f.alloc.Stats().Allocation.All.Current)
	f.give(f.take(12*device.MiB, f.streams[1]))
}

// testRecordClosed: closing has waited for the work, so nothing is left to wait for.
func testRecordClosed(f *fixture) {
	s := f.closedStream(1000)
	h := f.take(12*device.MiB, f.streams[1])
	require.NoError(f.t, f.alloc.RecordStream(h.block, s))
	f.give(h)
	require.Zero(f.t, f.alloc.Stats().Active.All.Current)
	if f.caches {
		require.True(f.t, f.reused(h))
	}
}
