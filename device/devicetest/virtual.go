package devicetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

var virtualTests = []test{
	{"ReservedRangeHoldsNoMemory", testReserve},
	{"MappedPagesHoldMemory", testMapped},
	{"UnmappedPagesCanBeMappedAgain", testMapAgain},
	{"MapAtCapacityMapsNothing", testMapCapacity},
	{"WrongRangesAreInvalid", testVirtualInvalid},
	{"WrongPagesAreInvalid", testPagesInvalid},
	{"RangeWithPagesCannotBeGivenBack", testUnreserveWithPages},
	{"AliasIsTheSameMemory", testAlias},
	{"WrongAliasesAreInvalid", testAliasInvalid},
}

func virtual(t *testing.T, dev device.Device) device.VirtualMemory {
	t.Helper()
	v, ok := dev.(device.VirtualMemory)
	if !ok {
		t.Skip("the device has no virtual memory")
	}
	require.NotZero(t, v.Granularity())
	require.Zero(t, v.Granularity()&(v.Granularity()-1), "a power of two")
	return v
}

func testReserve(s *suite, t *testing.T, dev device.Device) {
	v := virtual(t, dev)
	before := freeBytes(t, dev)
	bytes := (dev.Properties().TotalMemory + 8*v.Granularity()) &^ (v.Granularity() - 1) // more than there is memory
	p, err := v.Reserve(bytes)
	require.NoError(t, err)
	require.Zero(t, uint64(p)%v.Granularity())
	s.requireFree(t, dev, before)
	require.NoError(t, v.Unreserve(p))
	requireError(t, dev, v.Unreserve(p), device.ErrInvalidValue)
}

func testMapped(s *suite, t *testing.T, dev device.Device) {
	v := virtual(t, dev)
	page := 2 * v.Granularity()
	p, err := v.Reserve(6 * page)
	require.NoError(t, err)
	before := freeBytes(t, dev)
	require.NoError(t, v.Map(p.Add(page), page, page))
	require.NoError(t, v.Map(p.Add(2*page), 2*page, page))
	s.requireFree(t, dev, before-3*page)
	stream := dev.DefaultStream()
	in := pattern(8, int(2*page)) // over the borders of pages and of calls
	require.NoError(t, stream.CopyToDevice(p.Add(page+page/2), in))
	s.requireBytes(t, stream, p.Add(page+page/2), in)
	require.NoError(t, v.Unmap(p.Add(2*page), page), "a page out of the middle")
	s.requireBytes(t, stream, p.Add(page+page/2), in[:page/2])
	s.requireBytes(t, stream, p.Add(3*page), in[3*page/2:])
	require.NoError(t, v.Unmap(p.Add(page), page))
	require.NoError(t, v.Unmap(p.Add(3*page), page))
	s.requireFree(t, dev, before)
	require.NoError(t, v.Unreserve(p))
}

func testMapAgain(s *suite, t *testing.T, dev device.Device) {
	v := virtual(t, dev)
	page := v.Granularity()
	p, err := v.Reserve(8 * page)
	require.NoError(t, err)
	for round := range 3 {
		require.NoError(t, v.Map(p, 8*page, page))
		in := pattern(round, int(8*page))
		require.NoError(t, dev.DefaultStream().CopyToDevice(p, in))
		s.requireBytes(t, dev.DefaultStream(), p, in)
		require.NoError(t, v.Unmap(p, 8*page))
	}
	require.NoError(t, v.Unreserve(p))
}

func testMapCapacity(s *suite, t *testing.T, dev device.Device) {
	v := virtual(t, dev)
	info, err := dev.MemInfo()
	require.NoError(t, err)
	page := max(info.Total/256&^(v.Granularity()-1), v.Granularity(), 2<<20) // a large device has not too many
	pages := info.Total/page + 2
	p, err := v.Reserve(pages * page)
	require.NoError(t, err)
	requireError(t, dev, v.Map(p, pages*page, page), device.ErrOutOfMemory)
	s.requireFree(t, dev, info.Free) // a Map that fails takes nothing
	require.NoError(t, v.Map(p.Add(page), 2*page, page), "and leaves the range as it was")
	require.NoError(t, v.Unmap(p.Add(page), 2*page))
	require.NoError(t, v.Unreserve(p))
}

func testVirtualInvalid(_ *suite, t *testing.T, dev device.Device) {
	v := virtual(t, dev)
	g := v.Granularity()
	_, err := v.Reserve(0)
	requireError(t, dev, err, device.ErrInvalidValue)
	_, err = v.Reserve(g + 1)
	requireError(t, dev, err, device.ErrInvalidValue)
	block := malloc(t, dev, 4*g)
	p, err := v.Reserve(8 * g)
	require.NoError(t, err)
	for name, err := range map[string]error{
		"map no bytes":              v.Map(p, 0, g),
		"map pages of no size":      v.Map(p, g, 0),
		"map half a page":           v.Map(p, g/2, g/2),
		"map not whole pages":       v.Map(p, 3*g, 2*g),
		"map at an odd address":     v.Map(p.Add(g/2), g, g),
		"map beyond the range":      v.Map(p.Add(7*g), 2*g, g),
		"map what is not reserved":  v.Map(block, g, g),
		"unmap what is not mapped":  v.Unmap(p, g),
		"unmap an allocation":       v.Unmap(block, 4*g),
		"unreserve a wrong address": v.Unreserve(p.Add(g)),
		"unreserve an allocation":   v.Unreserve(block),
		"free a range":              dev.Free(p),
	} {
		require.ErrorIs(t, err, device.ErrInvalidValue, name)
	}
	require.NoError(t, v.Unreserve(p))
}

func testPagesInvalid(_ *suite, t *testing.T, dev device.Device) {
	v := virtual(t, dev)
	g := v.Granularity()
	p, err := v.Reserve(8 * g)
	require.NoError(t, err)
	require.NoError(t, v.Map(p.Add(2*g), 4*g, 2*g))
	for name, err := range map[string]error{
		"map what is mapped":   v.Map(p.Add(4*g), 4*g, 2*g),
		"unmap half a page":    v.Unmap(p.Add(2*g), g),
		"unmap from a middle":  v.Unmap(p.Add(3*g), 3*g),
		"unmap with a gap":     v.Unmap(p.Add(2*g), 6*g),
		"unmap nothing":        v.Unmap(p.Add(2*g), 0),
		"free a mapped page":   dev.Free(p.Add(2 * g)),
		"unreserve with pages": v.Unreserve(p),
	} {
		require.ErrorIs(t, err, device.ErrInvalidValue, name)
	}
	require.NoError(t, v.Unmap(p.Add(2*g), 4*g))
	require.NoError(t, v.Map(p, g, g))
	requireError(t, dev, dev.Free(p), device.ErrInvalidValue) // a page, though it has the address of the range
	require.NoError(t, v.Unmap(p, g))
	require.NoError(t, v.Unreserve(p))
}

func testUnreserveWithPages(_ *suite, t *testing.T, dev device.Device) {
	v := virtual(t, dev)
	g := v.Granularity()
	p, err := v.Reserve(4 * g)
	require.NoError(t, err)
	require.NoError(t, v.Map(p.Add(3*g), g, g))
	requireError(t, dev, v.Unreserve(p), device.ErrInvalidValue)
	require.NoError(t, v.Unmap(p.Add(3*g), g))
	require.NoError(t, v.Unreserve(p))
}
