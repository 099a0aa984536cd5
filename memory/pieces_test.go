package memory

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/invariants"
)

// scatter takes blocks of small sizes and gives every third back, so that about as many lie in the lists.
func scatter(t testing.TB, a *Caching, s device.Stream, blocks int) (held []Block) {
	t.Helper()
	for i := range blocks {
		b, err := a.Alloc(uint64(i%7+1)*512, s)
		require.NoError(t, err)
		held = append(held, b)
	}
	kept := held[:0]
	for i, b := range held {
		if i%3 == 0 {
			require.NoError(t, a.Free(b))
		} else {
			kept = append(kept, b)
		}
	}
	return kept
}

// Nothing happens meanwhile: it is what SnapshotState says, whatever the number of blocks in a segment.
func TestSnapshotInPieces_OfAQuietAllocatorIsTheState(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True"} {
		r := newRig(t, gib, conf)
		require.Empty(t, r.a.SnapshotInPieces().Segments)
		held := scatter(t, r.a, r.stream(0), 3*pieceBlocks)
		held = append(held, r.alloc(30*mib, 1), r.alloc(3*mib, 2))
		require.NoError(t, r.a.RecordStream(held[0], r.stream(5)))
		require.NoError(t, r.a.Free(held[0])) // waits
		r.empty()
		require.Equal(t, r.a.SnapshotState(), r.a.SnapshotInPieces(), conf)
	}
	var none *Caching
	require.Equal(t, Snapshot{}, none.SnapshotInPieces())
}

// What is told while blocks are split, merged and given back between two pieces: each address of a segment once, without a gap.
func TestSnapshotInPieces_TellsEachAddressOnceWhileBlocksMove(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True"} {
		for seed := range uint64(20) {
			r := newRig(t, gib, conf)
			held := scatter(t, r.a, r.stream(0), 4*pieceBlocks)
			random := rand.New(rand.NewPCG(seed, 1))
			read := new(reader)
			for _, seg := range read.segments(r.a) {
				at, end := seg.ptr, seg.ptr.Add(seg.size)
				for at < end {
					n, next, ok := read.next(seg, at)
					require.True(t, ok, "no segment is given back")
					for _, b := range read.piece[:n] {
						require.Equal(t, at, b.ptr)
						require.NotZero(t, b.size)
						at = b.ptr.Add(b.size)
					}
					require.Equal(t, at, next)
					require.LessOrEqual(t, at, end)
					for range random.IntN(300) { // between two pieces
						if i := random.IntN(len(held)); random.IntN(2) == 0 {
							require.NoError(t, r.a.Free(held[i]))
							held[i] = held[len(held)-1]
							held = held[:len(held)-1]
						} else if b, err := r.a.Alloc(uint64(random.IntN(9)+1)*512, r.stream(0)); err == nil {
							held = append(held, b)
						}
					}
				}
			}
			r.check()
		}
	}
}

// The place of the reader is in a block that goes back to the driver.
func TestSnapshotInPieces_OfASegmentThatIsGivenBack(t *testing.T) {
	r := newRig(t, gib, "")
	held := scatter(t, r.a, r.stream(0), 2*pieceBlocks)
	read := new(reader)
	seg := read.segments(r.a)[0]
	n, next, ok := read.next(seg, seg.ptr)
	require.True(t, ok)
	require.Equal(t, pieceBlocks, n)
	r.free(held...)
	r.empty()
	_, _, ok = read.next(seg, next)
	require.False(t, ok)
	_, ok = read.read(seg)
	require.False(t, ok)
}

func TestSnapshotInPieces_BesideAProgramThatAllocates(t *testing.T) {
	a, err := New(sim.New(gib), Config{})
	require.NoError(t, err)
	defer func() { _ = a.Close() }()
	dev := a.driver.(*sim.Device)
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			var held []Block
			for i := range 20_000 {
				if b, err := a.Alloc(uint64(i%11+1)*700, dev.Stream(device.StreamID(w))); err == nil {
					held = append(held, b)
				}
				if i%3 > 0 {
					_ = a.Free(held[len(held)/2])
					held = append(held[:len(held)/2], held[len(held)/2+1:]...)
				}
				if i%5000 == 0 {
					_ = a.EmptyCache()
				}
			}
		})
	}
	for range 20 {
		for _, seg := range a.SnapshotInPieces().Segments {
			sum := uint64(0)
			for _, b := range seg.Blocks {
				sum += b.Size
			}
			require.Equal(t, seg.TotalSize, sum)
		}
	}
	wg.Wait()
	require.NoError(t, a.Check())
}

// manyBlocks makes an allocator with about 100,000 blocks, most of them in one list if conf says so.
func manyBlocks(t testing.TB, conf string) *Caching {
	c, err := ParseConfig(conf)
	require.NoError(t, err)
	dev := sim.New(8 * gib)
	a, err := New(dev, c)
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Close() })
	scatter(t, a, dev.DefaultStream(), 100_000)
	return a
}

// What the page promises is a time, which the benchmark measures; it follows from how few blocks are looked at under a lock.
func TestSnapshotInPieces_LooksAtFewBlocksUnderALock(t *testing.T) {
	if invariants.Enabled {
		t.Skip("each of the 100,000 allocations is checked in this build")
	}
	for _, conf := range []string{"", "expandable_segments:True"} {
		list, most := manyBlocks(t, conf).layoutInPieces()
		blocks := 0
		for _, seg := range list {
			blocks += len(seg.blocks)
		}
		require.Greater(t, blocks, 90_000, conf)
		require.LessOrEqual(t, most.blocks, 2*pieceBlocks, conf)
	}
}

// What the reading of 100,000 blocks costs, and for how long at most a lock is held: in the best run (ns-locked), as the others
// have been interrupted for somebody else.
func BenchmarkSnapshotInPieces(b *testing.B) {
	for _, conf := range []string{"", "expandable_segments:True"} {
		a := manyBlocks(b, conf)
		name := "default"
		if conf != "" {
			name = "expandable"
		}
		b.Run("pieces/"+name, func(b *testing.B) {
			best := time.Hour
			for b.Loop() {
				_, most := a.layoutInPieces()
				best = min(best, most.time)
			}
			b.ReportMetric(float64(best.Nanoseconds()), "ns-locked")
		})
		b.Run("whole/"+name, func(b *testing.B) { // all of it is locked
			for b.Loop() {
				a.copyState(nil, false)
			}
		})
	}
}
