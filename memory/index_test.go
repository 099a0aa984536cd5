package memory

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

// modelIndex is an index next to the plain thing that it must equal: a sorted slice.
type modelIndex struct {
	t testing.TB
	index
	sorted []*block
	ptr    device.Ptr // the last address given to a block
}

// position is where a block of this size, age and address stands or would stand.
func (m *modelIndex) position(b *block) int {
	i, _ := slices.BinarySearchFunc(m.sorted, b, func(x, b *block) int {
		switch {
		case before(x, b):
			return -1
		case before(b, x):
			return 1
		}
		return 0
	})
	return i
}

func (m *modelIndex) add(size, reg uint64) *block {
	m.ptr += minBlock
	b := &block{guarded: guarded{size: size, reg: reg, ptr: m.ptr}}
	m.insert(b)
	m.sorted = slices.Insert(m.sorted, m.position(b), b)
	return b
}

func (m *modelIndex) drop(i int) {
	m.remove(m.sorted[i])
	m.sorted = slices.Delete(m.sorted, i, i+1)
}

// at is the i-th block, or nil beyond the ends.
func (m *modelIndex) at(i int) *block {
	if i < 0 || i >= len(m.sorted) {
		return nil
	}
	return m.sorted[i]
}

// requireFit compares the best fit for a size.
func (m *modelIndex) requireFit(size uint64) {
	m.t.Helper()
	i := slices.IndexFunc(m.sorted, func(b *block) bool { return b.size >= size })
	var want *block
	if i >= 0 {
		want = m.sorted[i]
	}
	require.Same(m.t, want, m.atLeast(size), "the first block of %d bytes or more", size)
}

// requireEqual compares everything.
func (m *modelIndex) requireEqual() {
	m.t.Helper()
	var bytes uint64
	for i, b := range m.sorted {
		bytes += b.size
		require.Same(m.t, m.at(i+1), m.after(b))
		require.Same(m.t, m.at(i-1), m.previous(b))
	}
	require.True(m.t, slices.Equal(m.sorted, slices.Collect(m.all)), "the walk over all")
	require.Same(m.t, m.at(0), m.first())
	require.Same(m.t, m.at(len(m.sorted)-1), m.last())
	require.Equal(m.t, len(m.sorted), m.count)
	require.Equal(m.t, bytes, m.bytes)
}

func TestIndex_OrdersBySizeThenAgeThenAddress(t *testing.T) {
	m := &modelIndex{t: t}
	old, young := m.add(2*mib, 3), m.add(2*mib, 5)
	low := m.add(mib, 9)
	high := m.add(mib, 9)
	require.True(t, slices.Equal([]*block{low, high, old, young}, slices.Collect(m.all)))
	require.Same(t, low, m.atLeast(512))
	require.Same(t, old, m.atLeast(mib+512), "the older segment of two equal sizes")
	require.Nil(t, m.atLeast(2*mib+512))
}

func TestIndex_EqualsASortedSlice(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 7))
		m := &modelIndex{t: t}
		for range 4000 {
			if n := len(m.sorted); n > 0 && rng.IntN(100) < 45 {
				m.drop(rng.IntN(n))
			} else {
				m.add(indexSize(rng.Uint64()), rng.Uint64N(20))
			}
			m.requireFit(indexSize(rng.Uint64()))
		}
		m.requireEqual()
		for len(m.sorted) > 0 {
			m.drop(rng.IntN(len(m.sorted)))
		}
		m.requireEqual()
	}
}

// indexSize makes a block size of random bits: of all magnitudes, often equal to others, often at the border of a bin.
func indexSize(bits uint64) uint64 {
	magnitude := 9 + bits%50
	size := uint64(1) << magnitude
	switch bits >> 8 % 4 {
	case 0: // a power of two, the first of a bin
	case 1:
		size += minBlock
	case 2:
		size = max(size-minBlock, minBlock) // the last of a bin
	case 3:
		size += bits >> 10 % size
	}
	return size &^ (minBlock - 1)
}

// Each size that a request can have finds itself, and what is next to it on either side.
func TestTrie_FindsNeighboursOfEverySize(t *testing.T) {
	var sizes []uint64
	for size := uint64(minBlock); size <= maxRequest; size += max(minBlock, size/50&^(minBlock-1)) {
		sizes = append(sizes, size)
	}
	var x index
	for _, size := range sizes {
		x.insert(&block{guarded: guarded{size: size}})
	}
	for i, size := range sizes {
		b := x.atLeast(size)
		require.Equal(t, size, b.size)
		if i > 0 {
			require.Equal(t, sizes[i-1], x.previous(b).size)
			require.Equal(t, size, x.atLeast(sizes[i-1]+1).size)
		}
		if i < len(sizes)-1 {
			require.Equal(t, sizes[i+1], x.after(b).size)
		}
	}
	for _, size := range sizes {
		x.remove(x.atLeast(size))
	}
	require.Empty(t, x.flaw())
	require.Zero(t, x.long.used)
	require.Nil(t, x.first())
	require.Nil(t, x.last())
}

// Empty leaves stay in place for the next block of their sizes, but not without limit.
func TestTrie_TakesEmptyLeavesOutWhenThereAreMany(t *testing.T) {
	var x index
	var blocks []*block
	for i := range uint64(4 * maxIdle) {
		blocks = append(blocks, &block{guarded: guarded{size: 4<<20 + i*fanout*minBlock}})
	}
	for range 3 {
		for _, b := range blocks {
			x.insert(b)
		}
		require.Zero(t, x.long.idle)
		for _, b := range blocks {
			x.remove(b)
		}
		require.Equal(t, maxIdle, x.long.idle)
		require.Len(t, x.long.spare[0], len(x.long.leaves)-1-maxIdle, "the others can be used for any size")
		require.Empty(t, x.flaw())
	}
	require.Len(t, x.long.leaves, 1+4*maxIdle, "no new ones were made")
}

func TestIndex_MayLoseTheBlockUnderAWalk(t *testing.T) {
	m := &modelIndex{t: t}
	for i := range uint64(200) {
		m.add((i%20+1)*mib, i)
	}
	kept := 0
	for b := range m.all {
		if b.reg%3 == 0 {
			m.drop(m.position(b))
		} else {
			kept++
		}
	}
	require.Equal(t, kept, len(m.sorted))
	m.requireEqual()
}

// Each pair of bytes is an operation: what to do, and with what.
func FuzzIndex(f *testing.F) {
	f.Add([]byte("\x00\x10\x01\x20\x02\x30\x90\x01\x00\xff"))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x80\x01\x80\x00\x80\x00"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		m := &modelIndex{t: t}
		for ; len(ops) >= 2; ops = ops[2:] {
			bits := uint64(ops[0])*0x9e3779b97f4a7c15 ^ uint64(ops[1])<<8
			switch n := len(m.sorted); {
			case ops[0] >= 0x80 && n > 0:
				m.drop(int(ops[1]) % n)
			default:
				m.add(indexSize(bits), uint64(ops[1]%4))
			}
			m.requireFit(indexSize(bits >> 3))
		}
		m.requireEqual()
	})
}
