package devicetest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

var memoryTests = []test{
	{"PropertiesAreComplete", testProperties},
	{"MallocReturnsAlignedDistinctMemory", testMallocDistinct},
	{"MallocOfZeroBytesIsInvalid", testMallocZero},
	{"FreeTwiceIsInvalid", testFreeTwice},
	{"FreeOfForeignAddressIsInvalid", testFreeForeign},
	{"MemInfoFollowsMallocAndFree", testMemInfo},
	{"MallocFailsAtCapacityAndRecovers", testCapacity},
	{"MallocOfMoreThanThereIsFails", testMallocHuge},
}

func testProperties(_ *suite, t *testing.T, dev device.Device) {
	p := dev.Properties()
	require.NotEmpty(t, p.Name)
	require.NotZero(t, p.TotalMemory)
	require.NotZero(t, p.Processors)
	require.NotZero(t, p.Alignment)
	require.Zero(t, p.Alignment&(p.Alignment-1), "a power of two")
	require.NotZero(t, dev.ID().Kind)
}

func testMallocDistinct(_ *suite, t *testing.T, dev device.Device) {
	type piece struct{ p, end device.Ptr }
	var pieces []piece
	for _, n := range []uint64{1, 7, 512, 4096, 4097, 1 << 20, 3<<20 + 1} {
		p := malloc(t, dev, n)
		require.NotZero(t, p)
		require.Zero(t, uint64(p)%dev.Properties().Alignment)
		for _, other := range pieces {
			require.True(t, p.Add(n) <= other.p || other.end <= p, "allocations overlap")
		}
		pieces = append(pieces, piece{p, p.Add(n)})
	}
}

func testMallocZero(_ *suite, t *testing.T, dev device.Device) {
	_, err := dev.Malloc(0)
	requireError(t, dev, err, device.ErrInvalidValue)
}

func testFreeTwice(_ *suite, t *testing.T, dev device.Device) {
	p, err := dev.Malloc(4096)
	require.NoError(t, err)
	require.NoError(t, dev.Free(p))
	requireError(t, dev, dev.Free(p), device.ErrInvalidValue)
}

func testFreeForeign(_ *suite, t *testing.T, dev device.Device) {
	p := malloc(t, dev, 1<<20)
	requireError(t, dev, dev.Free(p.Add(4096)), device.ErrInvalidValue) // inside an allocation
	requireError(t, dev, dev.Free(12345), device.ErrInvalidValue)
}

func testMemInfo(s *suite, t *testing.T, dev device.Device) {
	const size = 8 << 20 // whole pages of every device
	before := freeBytes(t, dev)
	p, err := dev.Malloc(size)
	require.NoError(t, err)
	s.requireFree(t, dev, before-size)
	require.NoError(t, dev.Free(p))
	s.requireFree(t, dev, before)
}

func testCapacity(_ *suite, t *testing.T, dev device.Device) {
	info, err := dev.MemInfo()
	require.NoError(t, err)
	piece := max(info.Free/4, 1)
	var pieces []device.Ptr
	for err == nil {
		var p device.Ptr
		if p, err = dev.Malloc(piece); err == nil {
			pieces = append(pieces, p)
		}
		require.LessOrEqual(t, len(pieces), 4, "more than the free memory was handed out")
	}
	requireError(t, dev, err, device.ErrOutOfMemory)
	require.GreaterOrEqual(t, len(pieces), 3, "memory was refused while there was some")
	require.NoError(t, dev.Free(pieces[0]))
	pieces[0], err = dev.Malloc(piece)
	require.NoError(t, err, "freed memory can be had again")
	for _, p := range pieces {
		require.NoError(t, dev.Free(p))
	}
}

func testMallocHuge(_ *suite, t *testing.T, dev device.Device) {
	info, err := dev.MemInfo()
	require.NoError(t, err)
	for _, n := range []uint64{info.Total + 1, 1 << 62, math.MaxUint64 - 4095, math.MaxUint64} {
		_, err := dev.Malloc(n)
		requireError(t, dev, err, device.ErrOutOfMemory)
	}
	malloc(t, dev, 4096) // and nothing is broken
}
