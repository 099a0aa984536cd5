//go:build linux && amd64

package fakecuda

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func onDevice(id int32) *allocProp { return &allocProp{Type: 1, LocationType: 1, LocationID: id} }

func access(id int32) *accessDesc {
	return &accessDesc{LocationType: 1, LocationID: id, Flags: accessReadWrite}
}

// segment reserves addresses for n units.
func (c *cu) segment(n uint64) (p uint64) {
	c.t.Helper()
	c.ok(c.AddressReserve(&p, n*granularity, 0, 0, 0))
	return p
}

// mapUnit maps new memory at p and gives access.
func (c *cu) mapUnit(p uint64) (handle uint64) {
	c.t.Helper()
	c.ok(c.MemCreate(&handle, granularity, onDevice(0), 0))
	c.ok(c.MemMap(p, granularity, 0, handle, 0))
	c.ok(c.MemSetAccess(p, granularity, access(0), 1))
	return handle
}

func TestVMM_GrowsAndShrinksASegment(t *testing.T) {
	c := load(t)
	c.lib.Capacity(0, 3*granularity)
	c.ok(c.Init(0))
	c.enter(0)
	var unit uint64
	c.ok(c.Granularity(&unit, onDevice(0), 0))
	require.Equal(t, uint64(granularity), unit)
	p := c.segment(100) // addresses are free
	a := c.mapUnit(p)
	b := c.mapUnit(p + granularity)
	c.ok(c.Set8Null(p, 5, 2*granularity)) // across both
	require.Equal(t, byte(5), c.read(p+2*granularity-1, 1)[0])
	c.is(invalidValue, c.Set8Null(p, 5, 2*granularity+1))
	c.found("nothing is mapped from")
	var free, total, h uint64
	c.ok(c.MemGetInfo(&free, &total))
	require.Equal(t, uint64(granularity), free)
	c.is(outOfMemory, c.MemCreate(&h, 2*granularity, onDevice(0), 0))
	c.is(invalidValue, c.MemCreate(&h, 1000, onDevice(0), 0))

	c.ok(c.MemRelease(a)) // stays while it is mapped
	c.ok(c.MemGetInfo(&free, &total))
	require.Equal(t, uint64(granularity), free)
	c.ok(c.CtxSynchronize())
	c.ok(c.MemUnmap(p, granularity))
	c.ok(c.MemGetInfo(&free, &total))
	require.Equal(t, uint64(2*granularity), free)
	c.is(invalidValue, c.AddressFree(p, 100*granularity))
	c.found("still mapped")
	c.ok(c.MemUnmap(p+granularity, granularity))
	c.ok(c.MemRelease(b))
	c.is(invalidValue, c.MemRelease(b))
	c.ok(c.AddressFree(p, 100*granularity))
	c.ok(c.PrimaryRelease(0))
	require.Empty(t, c.lib.Leaks())
}

func TestVMM_MemoryWithoutAccessCannotBeUsed(t *testing.T) {
	c := start(t)
	p := c.segment(2)
	var h uint64
	c.ok(c.MemCreate(&h, granularity, onDevice(0), 0))
	c.ok(c.MemMap(p, granularity, 0, h, 0))
	c.is(invalidValue, c.MemMap(p, granularity, 0, h, 0))
	c.found("something is mapped there")
	c.is(invalidValue, c.Set8Null(p, 1, 10))
	c.found("no access was set")
	c.demo("")
	c.ok(c.try(c.function("write_at"), dim{1, 1, 1}, dim{1, 1, 1}, 0, 0, p, int64(9)))
	c.is(illegalAddress, c.CtxSynchronize())
	require.Contains(t, c.lib.Findings()[2], "where nothing is mapped with access")
}

// Unmapping does not wait for work: that is the caller's duty.
func TestVMM_UnmapUnderWorkFaults(t *testing.T) {
	c := start(t)
	p, s := c.segment(1), c.stream()
	c.mapUnit(p)
	c.lib.Hold()
	c.ok(c.Set8(p, 1, 100, s))
	c.ok(c.MemUnmap(p, granularity))
	c.lib.Release()
	c.is(illegalAddress, c.StreamSynchronize(s))
}

func TestVMM_LeaksAreListed(t *testing.T) {
	c := start(t)
	c.mapUnit(c.segment(1))
	leaks := c.lib.Leaks()
	require.Len(t, leaks, 4)
	require.Contains(t, leaks[1], "memory handle of 2097152 bytes made by cuMemCreate, call 1")
	require.Contains(t, leaks[2], "2097152 bytes of addresses made by cuMemAddressReserve, call 1")
	require.Contains(t, leaks[3], "mapping of 2097152 bytes")
}
