package memtest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
)

var oomTests = []test{
	{"TheErrorHasTheNumbers", testOOMNumbers},
	{"TheAllocatorWorksOnAfterwards", testOOMWorksOn},
	{"FreedMemoryOfAllStreamsIsFoundFirst", testOOMFindsCached},
}

// requireOOM asserts a typed out-of-memory error with one reason: a full device, or the limit of allocators that have one.
func requireOOM(t testing.TB, dev device.Device, err error, requested uint64) *memory.OOMError {
	t.Helper()
	var oom *memory.OOMError
	require.ErrorAs(t, err, &oom)
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	require.Equal(t, oom.LimitHit, errors.Is(err, memory.ErrLimit))
	require.Equal(t, !oom.LimitHit, errors.Is(err, memory.ErrDeviceFull))
	require.False(t, oom.LimitHit && oom.Limit == 0, "which limit?")
	require.Equal(t, dev.ID(), oom.Device)
	require.Equal(t, requested, oom.Requested)
	require.NotEmpty(t, err.Error())
	return oom
}

func testOOMNumbers(f *fixture) {
	total := f.freeBytes()
	half := f.take(total/2, f.streams[0])
	_, err := f.try(total*3/4, f.streams[1])
	oom := requireOOM(f.t, f.dev, err, total*3/4)
	require.Equal(f.t, half.block.Size(), oom.Allocated)
	require.GreaterOrEqual(f.t, oom.Tried, oom.Requested)
	require.GreaterOrEqual(f.t, oom.Reserved, oom.Allocated)
	f.requireFree(oom.DeviceFree)
	info, err := f.dev.MemInfo()
	require.NoError(f.t, err)
	require.Equal(f.t, info.Total, oom.DeviceTotal)
	require.EqualValues(f.t, 1, f.alloc.Stats().NumOOMs)
	f.give(half)
}

// testOOMWorksOn fills the device with blocks of falling sizes, each until it is full.
func testOOMWorksOn(f *fixture) {
	failures := int64(0)
	for bytes := f.freeBytes() / 3; bytes >= f.dev.Properties().TotalMemory/256; bytes /= 2 {
		for {
			_, err := f.try(bytes, f.streams[len(f.live)%numStreams])
			if err != nil {
				require.ErrorIs(f.t, err, memory.ErrOutOfMemory)
				failures++
				break
			}
		}
	}
	require.Equal(f.t, failures, f.alloc.Stats().NumOOMs)
	for _, h := range f.live {
		f.requireContent(h)
	}
	f.giveAll()
	f.give(f.take(f.dev.Properties().TotalMemory*3/4, f.streams[0]))
}

// testOOMFindsCached frees on one stream, with work of another outstanding, and asks on a third.
func testOOMFindsCached(f *fixture) {
	most := f.freeBytes() / 4 * 3
	for i := range 3 {
		h := f.take(most, f.streams[i])
		if f.sim != nil {
			f.use(h, f.streams[i+1])
		}
		f.give(h)
	}
	require.Zero(f.t, f.alloc.Stats().NumOOMs)
}

// isExpected reports whether err is an injected error or an out-of-memory error.
func isExpected(err, injected error) bool {
	return errors.Is(err, injected) || errors.Is(err, memory.ErrOutOfMemory)
}
