package memtest

import (
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
)

var handleTests = []test{
	{"FreeingTwiceIsAnError", testDoubleFree},
	{"RecordingAfterFreeIsAnError", testUseAfterFree},
	{"StaleHandlesDoNotTouchTheNewHolder", testStaleHandle},
	{"BlocksOfOthersAreRefused", testForeign},
	{"CopiesOfAHandleAreTheSameBlock", testCopies},
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
	f.requireBlockError(f.alloc.RecordStream(h.block, f.streams[1]), memory.ErrUseAfterFree, "RecordStream", h.block)
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
