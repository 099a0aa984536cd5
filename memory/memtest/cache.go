package memtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/invariants"
)

var laterTests = []test{
	{"FreeLaterIsDoneByTheNextAlloc", testFreeLater},
	{"FreeLaterIsDoneByEmptyCache", testFreeLaterEmptyCache},
	{"FreeLaterAfterFreeDoesNothing", testFreeLaterAfterFree},
}

func testFreeLater(f *fixture) {
	for range 3 {
		h := f.take(12*device.MiB, f.streams[0])
		f.forget(h)
		f.alloc.FreeLater(h.block)
	}
	f.give(f.take(512, f.streams[0])) // the model expects nothing else in use
	require.EqualValues(f.t, 3, f.alloc.Stats().NumDeferredFrees)
}

func testFreeLaterEmptyCache(f *fixture) {
	before := f.freeBytes()
	h := f.take(12*device.MiB, f.streams[0])
	f.forget(h)
	f.alloc.FreeLater(h.block)
	require.NoError(f.t, f.alloc.EmptyCache())
	f.verify()
	f.requireFree(before)
}

func testFreeLaterAfterFree(f *fixture) {
	h := f.take(12*device.MiB, f.streams[0])
	f.give(h)
	f.alloc.FreeLater(h.block)
	next := f.take(12*device.MiB, f.streams[0]) // perhaps the same memory
	f.alloc.FreeLater(h.block)
	f.give(f.take(512, f.streams[0]))
	f.give(next)
}

var cacheTests = []test{
	{"EmptyCacheGivesEverythingUnusedBack", testEmptyCache},
	{"EmptyCacheLeavesBlocksInUseAlone", testEmptyCacheInUse},
	{"TheSteadyStateAsksNoDriver", testSteadyState},
}

func testEmptyCache(f *fixture) {
	before := f.freeBytes()
	for _, bytes := range []uint64{1, 1000, device.MiB, 3 * device.MiB, 12 * device.MiB, 40 * device.MiB} {
		for _, s := range f.streams {
			f.take(bytes, s)
		}
		if f.sim == nil {
			f.giveAll()
			require.NoError(f.t, f.alloc.EmptyCache())
		}
	}
	if f.sim != nil { // blocks that wait for events are waited for
		for i, h := range f.live {
			f.use(h, f.streams[i%numStreams])
		}
	}
	f.giveAll()
	require.NoError(f.t, f.alloc.EmptyCache())
	require.NoError(f.t, f.alloc.EmptyCache(), "there is nothing left to do")
	f.verify()
	f.requireFree(before)
	require.Zero(f.t, f.alloc.Stats().ReservedBytes.All.Current)
}

func testEmptyCacheInUse(f *fixture) {
	for _, bytes := range []uint64{1000, 200_000, 3 * device.MiB, 5 * device.MiB, 12 * device.MiB} {
		f.take(bytes, f.streams[0])
		f.give(f.take(bytes, f.streams[0]))
		require.NoError(f.t, f.alloc.EmptyCache())
		f.verify()
	}
	for _, h := range f.live {
		f.requireContent(h)
	}
	f.giveAll()
}

// testSteadyState: a program that frees what it allocated does not meet the driver again, nor the Go heap.
func testSteadyState(f *fixture) {
	if !f.caches {
		f.t.Skip("the allocator does not cache")
	}
	step := func() {
		a, _ := f.alloc.Alloc(1000, f.streams[0])
		b, _ := f.alloc.Alloc(3*device.MiB, f.streams[0])
		c, _ := f.alloc.Alloc(12*device.MiB, f.streams[1])
		_, _, _ = f.alloc.Free(b), f.alloc.Free(a), f.alloc.Free(c)
	}
	step()
	before := f.alloc.Stats()
	free := f.freeBytes()
	heap := testing.AllocsPerRun(50, step)
	after := f.alloc.Stats()
	require.Equal(f.t, before.NumDeviceAlloc, after.NumDeviceAlloc)
	require.Equal(f.t, before.NumDeviceFree, after.NumDeviceFree)
	f.requireFree(free)
	if !invariants.Enabled { // else an allocator may follow each call by a check
		require.Zero(f.t, heap)
	}
}
