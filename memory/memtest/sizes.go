package memtest

import (
	"math/rand/v2"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
)

var sizeTests = []test{
	{"ZeroBytesGiveTheZeroBlock", testZeroBytes},
	{"EverySizeIsServed", testEverySize},
	{"LiveBlocksNeverOverlap", testOverlap},
	{"SizesBeyondAllSenseAreOutOfMemory", testBeyondSense},
}

func testZeroBytes(f *fixture) {
	b, err := f.alloc.Alloc(0, f.streams[0])
	require.NoError(f.t, err)
	require.True(f.t, b.IsZero())
	require.Zero(f.t, b.Ptr())
	require.Zero(f.t, b.Size())
	require.NoError(f.t, f.alloc.RecordStream(b, f.streams[1]))
	require.NoError(f.t, f.alloc.Free(b))
	require.NoError(f.t, f.alloc.Free(b), "it can be freed as often as one likes")
	f.alloc.FreeLater(b)
	f.verify()
}

// borders are sizes at which an allocator may change its mind.
var borders = []uint64{
	1, 2, 511, 512, 513, 4095, 4096, 100_000, device.MiB - 1, device.MiB, device.MiB + 1, 2 * device.MiB, 10*device.MiB - 1,
	10 * device.MiB, 20 * device.MiB, 20*device.MiB + 1, 50 * device.MiB, 100 * device.MiB, device.GiB, 3*device.GiB + 1,
	5 * device.GiB,
}

func testEverySize(f *fixture) {
	for _, bytes := range borders {
		if bytes > f.freeBytes()/2 {
			break
		}
		for _, s := range f.streams[:2] {
			f.give(f.take(bytes, s))
		}
	}
	require.NoError(f.t, f.alloc.EmptyCache())
	for _, bytes := range borders { // and side by side
		if bytes > f.freeBytes()/2 {
			break
		}
		f.take(bytes, f.streams[0])
	}
	f.giveAll()
}

// testOverlap lets the model look at a long random history on all streams.
func testOverlap(f *fixture) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		switch n := len(f.live); {
		case n < 40 && rng.IntN(5) < 3:
			_, err := f.try(randomSize(rng), f.streams[rng.IntN(numStreams)])
			if err != nil {
				require.ErrorIs(f.t, err, memory.ErrOutOfMemory)
			}
		case n > 0:
			f.give(f.live[rng.IntN(n)])
		}
	}
	f.giveAll()
}

// randomSize is of any magnitude up to 16 MiB, mostly small.
func randomSize(rng *rand.Rand) uint64 {
	return 1 + rng.Uint64N(uint64(1)<<(4+rng.IntN(21)))
}

func testBeyondSense(f *fixture) {
	for _, bytes := range []uint64{1 << 60, 1<<63 + 1, ^uint64(0) - 511, ^uint64(0)} {
		_, err := f.try(bytes, f.streams[0])
		requireOOM(f.t, f.dev, err, bytes)
	}
	f.give(f.take(512, f.streams[0]))
}
