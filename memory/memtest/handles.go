package memtest

import (
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

var handleTests = []test{
	{"FreeingTwiceIsAnError", testDoubleFree},
	{"RecordingAfterFreeIsAnError", testUseAfterFree},
	{"StaleHandlesDoNotTouchTheNewHolder", testStaleHandle},
	{"BlocksOfOthersAreRefused", testForeign},
	{"CopiesOfAHandleAreTheSameBlock", testCopies},
	{"BlocksOfOthersFreedLaterReachTheirAllocator", testForeignLater},
	{"StreamsOfOtherDevicesAreRefused", testForeignStream},
}

// requireBlockError asserts a typed error that names the call, the device and the block.
func (f *fixture) requireBlockError(err, sentinel error, op string, b memory.Block) {
	f.t.Helper()
	require.ErrorIs(f.t, err, sentinel)
	var be *memory.BlockError
	require.ErrorAs(f.t, err, &be)
	require.Equal(f.t, memory.BlockError{Op: op, Device: f.dev.ID(), Ptr: b.Ptr(), Size: b.Size(), Err: sentinel}, *be)
	require.NotEmpty(f.t, err.Error())
}

func testDoubleFree(f *fixture) {
	h := f.take(1000, f.streams[0])
	f.give(h)
	f.requireBlockError(f.alloc.Free(h.block), memory.ErrDoubleFree, "Free", h.block)
	f.verify()
}

func testUseAfterFree(f *fixture) {
	h := f.take(1000, f.streams[0])
	f.give(h)
	for _, s := range f.streams { // the block's own too
		f.requireBlockError(f.alloc.RecordStream(h.block, s), memory.ErrUseAfterFree, "RecordStream", h.block)
	}
	f.verify()
}

// testStaleHandle hands memory out again and again, and frees with all the handles of the past.
func testStaleHandle(f *fixture) {
	var stale []memory.Block
	for _, bytes := range []uint64{1000, 1000, 3 * device.MiB, 200_000, 12 * device.MiB, 3 * device.MiB} {
		h := f.take(bytes, f.streams[0])
		for _, b := range stale {
			f.requireBlockError(f.alloc.Free(b), memory.ErrDoubleFree, "Free", b)
			f.requireBlockError(f.alloc.RecordStream(b, f.streams[1]), memory.ErrUseAfterFree, "RecordStream", b)
		}
		f.verify()
		f.give(h)
		stale = append(stale, h.block)
	}
	require.NoError(f.t, f.alloc.EmptyCache())
	for _, b := range stale {
		require.ErrorIs(f.t, f.alloc.Free(b), memory.ErrDoubleFree)
	}
}

func testForeign(f *fixture) {
	other := f.open(f.t, f.dev)
	b, err := other.Alloc(1000, f.streams[0])
	require.NoError(f.t, err)
	f.requireBlockError(f.alloc.Free(b), memory.ErrForeignBlock, "Free", b)
	f.requireBlockError(f.alloc.RecordStream(b, f.streams[1]), memory.ErrForeignBlock, "RecordStream", b)
	f.verify()
	require.NoError(f.t, other.Free(b), "its owner still takes it")
	require.NoError(f.t, other.Close())
}

func testCopies(f *fixture) {
	h := f.take(1000, f.streams[0])
	copied := h.block
	require.Equal(f.t, h.block.Ptr(), copied.Ptr())
	f.give(h)
	require.ErrorIs(f.t, f.alloc.Free(copied), memory.ErrDoubleFree)
}

func testForeignLater(f *fixture) {
	other, direct := f.open(f.t, f.dev), memory.NewDirect(f.dev)
	for _, of := range []memory.Allocator{other, direct} {
		b, err := of.Alloc(1000, f.streams[0])
		require.NoError(f.t, err)
		before := f.alloc.Stats().NumDeferredFrees
		f.alloc.FreeLater(b)
		f.verify()
		require.Equal(f.t, before, f.alloc.Stats().NumDeferredFrees)
		require.EqualValues(f.t, 1, of.Stats().NumDeferredFrees)
		require.NoError(f.t, of.EmptyCache())
		require.Zero(f.t, of.Stats().Allocation.All.Current, "it was freed where it belongs")
		mine := f.take(1000, f.streams[0])
		f.forget(mine)
		of.FreeLater(mine.block)
		require.NoError(f.t, f.alloc.EmptyCache())
		f.verify()
		require.NoError(f.t, of.Close(), "no leak")
		of.FreeLater(b) // nobody is there to look at it, and there is nothing to do
		f.alloc.FreeLater(b)
	}
}

func testForeignStream(f *fixture) {
	other := sim.New(device.GiB, sim.ManualStreams())
	defer func() { require.NoError(f.t, other.Close()) }()
	h := f.take(1000, f.streams[0])
	for _, s := range []device.Stream{other.DefaultStream(), other.Stream(1), other.Stream(100)} {
		f.requireStreamError(f.alloc.RecordStream(h.block, s), "RecordStream", s)
		b, err := f.alloc.Alloc(1000, s)
		require.True(f.t, b.IsZero())
		f.requireStreamError(err, "Alloc", s)
	}
	f.give(h)
	f.verify()
}

// requireStreamError asserts a typed error that names the call, the device and the stream.
func (f *fixture) requireStreamError(err error, op string, s device.Stream) {
	f.t.Helper()
	require.ErrorIs(f.t, err, memory.ErrForeignStream)
	var se *memory.StreamError
	require.ErrorAs(f.t, err, &se)
	require.Equal(f.t, memory.StreamError{Op: op, Device: f.dev.ID(), Stream: s.ID(), Of: s.Device().ID()}, *se)
	require.ErrorContains(f.t, err, op)
}
