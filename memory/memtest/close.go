package memtest

import (
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
)

var closeTests = []test{
	{"CloseGivesEverythingBack", testClose},
	{"CloseReportsLeaksAndTakesThemBack", testCloseLeak},
	{"AfterCloseNothingIsHandedOut", testAfterClose},
}

func testClose(f *fixture) {
	before := f.freeBytes()
	for _, s := range f.streams {
		f.take(1000, s)
		f.take(12*device.MiB, s)
	}
	f.giveAll()
	h := f.take(3*device.MiB, f.streams[0])
	f.forget(h)
	f.alloc.FreeLater(h.block) // queued frees are no leaks
	require.NoError(f.t, f.alloc.Close())
	f.requireFree(before)
	require.NoError(f.t, f.alloc.Close(), "closing twice is harmless")
}

func testCloseLeak(f *fixture) {
	before := f.freeBytes()
	a := f.take(1000, f.streams[0])
	b := f.take(12*device.MiB, f.streams[1])
	f.give(f.take(3*device.MiB, f.streams[0]))
	err := f.alloc.Close()
	require.ErrorIs(f.t, err, memory.ErrLeak)
	var leak *memory.LeakError
	require.ErrorAs(f.t, err, &leak)
	require.Equal(f.t, memory.LeakError{Device: f.dev.ID(), Blocks: 2, Bytes: a.block.Size() + b.block.Size()}, *leak)
	f.requireFree(before)
	require.ErrorIs(f.t, f.alloc.Free(a.block), memory.ErrDoubleFree, "the handles are stale")
	s := f.alloc.Stats()
	require.Zero(f.t, s.AllocatedBytes.All.Current)
	require.Zero(f.t, s.ReservedBytes.All.Current)
}

func testAfterClose(f *fixture) {
	h := f.take(1000, f.streams[0])
	f.give(h)
	reporter, reports := f.alloc.(memory.CloseReporter)
	require.False(f.t, reports && reporter.Closed())
	require.NoError(f.t, f.alloc.Close())
	require.False(f.t, reports && !reporter.Closed())
	_, err := f.alloc.Alloc(1000, f.streams[0])
	require.ErrorIs(f.t, err, device.ErrClosed)
	require.Error(f.t, f.alloc.Free(h.block))
	f.alloc.FreeLater(h.block)
	require.NoError(f.t, f.alloc.EmptyCache())
}
