//go:build linux && amd64

package fakecuda

import (
	"bytes"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMalloc_CountsAgainstTheCapacity(t *testing.T) {
	c := load(t)
	c.lib.Capacity(0, 10*mib)
	c.ok(c.Init(0))
	c.enter(0)
	var p, q, free, total uint64
	c.is(invalidValue, c.MemAlloc(&p, 0))
	c.ok(c.MemAlloc(&p, 6*mib))
	c.is(outOfMemory, c.MemAlloc(&q, 5*mib))
	c.ok(c.MemAlloc(&q, 4*mib-256))
	c.ok(c.MemGetInfo(&free, &total))
	require.Equal(t, []uint64{256, 10 * mib}, []uint64{free, total})
	c.ok(c.MemFree(p))
	c.ok(c.MemGetInfo(&free, &total))
	require.Equal(t, uint64(6*mib+256), free)
	c.ok(c.MemFree(q))
	c.ok(c.PrimaryRelease(0))
	c.lib.RequireClean()
}

func TestMalloc_NeverReusesAddressesAndPoisons(t *testing.T) {
	c := start(t)
	seen := map[uint64]bool{}
	for n := range uint64(50) {
		p := c.alloc(100 + 100*n)
		require.False(t, seen[p])
		require.Zero(t, p%256)
		seen[p] = true
		require.Equal(t, bytes.Repeat([]byte{0xff}, 100), c.read(p, 100))
		c.ok(c.MemFree(p))
	}
}

func TestMalloc_RangesAreKnown(t *testing.T) {
	c := start(t)
	p := c.alloc(1000)
	var base, size uint64
	c.ok(c.MemRange(&base, &size, p+999))
	require.Equal(t, []uint64{p, 1000}, []uint64{base, size})
	c.is(notFound, c.MemRange(&base, &size, p+1000))
}

func TestFree_OfWhatIsNotAllocatedIsAnError(t *testing.T) {
	c := start(t)
	p := c.alloc(100)
	c.is(invalidValue, c.MemFree(0))
	c.is(invalidValue, c.MemFree(p+8))
	c.found("not the start of an allocation", "byte 8 of 100 bytes")
	c.ok(c.MemFree(p))
	c.is(invalidValue, c.MemFree(p))
	c.found("freed twice", "made by cuMemAlloc_v2, call 1, freed by cuMemFree_v2, call 3")
}

func TestFree_WaitsForTheDevice(t *testing.T) {
	c := start(t)
	p, s := c.alloc(100), c.stream()
	c.lib.Hold()
	c.ok(c.Set8(p, 1, 100, s))
	done := c.elsewhere(func() int32 { return c.MemFree(p) })
	for c.lib.Calls()["cuMemFree_v2"] == 0 {
		runtime.Gosched()
	}
	require.Empty(t, done, "freed under work that uses it")
	c.lib.Release()
	c.ok(<-done)
	require.Empty(t, c.lib.Findings())
}

func TestFree_WithoutWaitingLetsWorkFault(t *testing.T) {
	c := start(t)
	c.lib.Set("free_sync", "0")
	p, s := c.alloc(100), c.stream()
	c.lib.Hold()
	c.ok(c.Set8(p, 1, 100, s))
	c.ok(c.MemFree(p))
	c.lib.Release()
	c.is(illegalAddress, c.StreamSynchronize(s))
	require.Contains(t, c.lib.Findings()[0], "illegal write to")
	require.Contains(t, c.lib.Findings()[0], "freed by cuMemFree_v2, call 1")
}

// enterHere makes device 0's context current to a goroutine of a test.
func (c *cu) enterHere() (leave func()) {
	lock()
	var ctx uintptr
	c.ok(c.PrimaryRetain(&ctx, 0))
	c.ok(c.SetCurrent(ctx))
	return func() {
		c.ok(c.PrimaryRelease(0))
		unlock()
	}
}

// elsewhere runs f in a goroutine of its own, with device 0's context. The result arrives when the goroutine has let go of the context: before
// that the test must not end.
func (c *cu) elsewhere(f func() int32) <-chan int32 {
	codes := make(chan int32, 1)
	go func() {
		code := int32(-1)
		defer func() { codes <- code }()
		defer c.enterHere()()
		code = f()
	}()
	return codes
}

func TestCopies_GoBetweenAllKindsOfMemory(t *testing.T) {
	c := start(t)
	p, q, s := c.alloc(1000), c.alloc(1000), c.stream()
	var pinned uint64
	c.ok(c.HostAlloc(&pinned, 1000, 0))
	want := make([]byte, 1000)
	for i := range want {
		want[i] = byte(i * 7)
	}
	c.write(p, want)
	c.ok(c.DtoDAsync(q, p, 1000, s))
	c.ok(c.CopyAsync(pinned, q, 1000, s)) // by the addresses
	c.ok(c.CopyAsync(p, pinned, 1000, s))
	c.ok(c.StreamSynchronize(s))
	require.Equal(t, want, c.read(p, 1000))
	got := make([]byte, 1000)
	c.ok(c.DtoHAsync(&got[0], p, 1000, s)) // pageable: has ended
	require.Equal(t, want, got)
	c.ok(c.HostFree(pinned))
	c.is(invalidValue, c.HostFree(pinned))
}

func TestCopies_OutOfRangeAreRefused(t *testing.T) {
	c := start(t)
	p, q := c.alloc(1000), c.alloc(1000)
	b := make([]byte, 2000)
	c.is(invalidValue, c.HtoD(p, &b[0], 1001))
	c.found("destination", "1001 bytes at", "byte 1000 of 1000 bytes")
	c.is(invalidValue, c.DtoH(&b[0], p+999, 2))
	c.found("source")
	c.is(invalidValue, c.DtoD(p, q, 2000))
	c.is(invalidValue, c.DtoD(p, p+10, 100))
	c.found("overlap")
	c.is(invalidValue, c.Set8Null(p+500, 0, 501))
	c.is(invalidValue, c.Set32(p+2, 0, 1, 0))
	c.found("not aligned")
	c.is(invalidValue, c.HtoD(0, &b[0], 1))
	c.found("belongs to no allocation")
	c.ok(c.HtoD(0, &b[0], 0))
}

// An asynchronous copy from pageable memory has read it when it returns; one from pinned memory reads it when it runs.
func TestCopies_FromPageableMemoryAreStagedAndFromPinnedAreNot(t *testing.T) {
	c := start(t)
	p, q, s := c.alloc(4), c.alloc(4), c.stream()
	var pinned uint64
	c.ok(c.HostAlloc(&pinned, 4, 0))
	pageable := []byte{1, 1, 1, 1}
	c.ok(c.CopyAsync(pinned, upload(c, pageable), 4, s))
	c.ok(c.StreamSynchronize(s))

	c.lib.HoldStream(s)
	c.ok(c.HtoDAsync(p, &pageable[0], 4, s))
	c.ok(c.CopyAsync(q, pinned, 4, s))
	copy(pageable, []byte{2, 2, 2, 2})
	other := c.stream()
	c.ok(c.CopyAsync(pinned, upload(c, pageable), 4, other))
	c.ok(c.StreamSynchronize(other))
	c.lib.ReleaseStream(s)
	c.ok(c.StreamSynchronize(s))
	require.Equal(t, []byte{1, 1, 1, 1}, c.read(p, 4))
	require.Equal(t, []byte{2, 2, 2, 2}, c.read(q, 4))
}

func TestCopies_OfPageableMemoryCanBeForbidden(t *testing.T) {
	c := start(t)
	c.lib.Set("strict_pageable", "1")
	p, s, b := c.alloc(64), c.stream(), make([]byte, 64)
	c.is(invalidValue, c.HtoDAsync(p, &b[0], 64, s))
	c.found("pageable")
	c.ok(c.HtoD(p, &b[0], 64))
	c.ok(c.HostRegister(&b[0], 64, 0))
	c.is(alreadyRegistered, c.HostRegister(&b[8], 8, 0))
	c.ok(c.HtoDAsync(p, &b[0], 64, s))
	c.ok(c.HostUnregister(&b[0])) // waits
	c.is(notRegistered, c.HostUnregister(&b[0]))
}

// Freed addresses are never used again, and still take nothing from the process: their pages merge.
func TestMalloc_LongRunsDoNotExhaustMappings(t *testing.T) {
	c := start(t)
	mappings := func() int {
		maps, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		return bytes.Count(maps, []byte("\n"))
	}
	var p uint64
	before := mappings()
	for range 5000 {
		c.ok(c.MemAlloc(&p, 100))
		c.ok(c.MemFree(p))
	}
	require.Less(t, mappings(), before+100)
}

func TestCopies_OfRowsKeepWhatLiesBetween(t *testing.T) {
	c := start(t)
	const rows, width, pitch = 3, 4, 10
	p := upload(c, bytes.Repeat([]byte{9}, rows*pitch))
	src := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	copied := copy2D{SrcType: 1, Src: &src[0], DstType: 2, DstDevice: p, DstX: 2, DstPitch: pitch, Width: width, Height: rows}
	c.ok(c.Copy2D(&copied))
	c.ok(c.StreamSynchronize(0))
	want := []byte{9, 9, 1, 2, 3, 4, 9, 9, 9, 9, 9, 9, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9, 10, 11, 12, 9, 9, 9, 9}
	require.Equal(t, want, c.read(p, rows*pitch))
	copied.DstY = 1
	c.is(invalidValue, c.Copy2D(&copied))
	c.found("destination")
}

// Attributes of pointers.
const (
	memoryType    = 2
	deviceOrdinal = 9
	rangeStart    = 11
	rangeSize     = 12
)

func TestPointers_KnowWhatTheyPointTo(t *testing.T) {
	c := start(t)
	p, unit := c.alloc(1000), c.segment(1)
	c.mapUnit(unit)
	var pinned uint64
	c.ok(c.HostAlloc(&pinned, 500, 0))
	for _, want := range []struct{ p, kind, start, size uint64 }{
		{p + 7, 2, p, 1000}, {pinned + 7, 1, pinned, 500}, {unit + 7, 2, unit, granularity},
	} {
		attributes := map[int32]uint64{memoryType: want.kind, deviceOrdinal: 0, rangeStart: want.start, rangeSize: want.size}
		for attribute, v := range attributes {
			var got uint64
			c.ok(c.PointerGet(&got, attribute, want.p))
			require.Equal(t, v, got)
		}
	}
	var got uint64
	c.is(invalidValue, c.PointerGet(&got, memoryType, p+1000))
	c.is(invalidValue, c.PointerGet(&got, memoryType, 4096))
}
