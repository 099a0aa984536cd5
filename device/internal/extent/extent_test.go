package extent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// set has an allocation, two allocations that touch, and a range at 1000 with pages at 1000, 1010 and 1030.
func set() *Set {
	s := &Set{}
	for _, e := range []Extent{
		{Addr: 110, Size: 10, Owner: 110}, {Addr: 10, Size: 5, Owner: 10}, {Addr: 100, Size: 10, Owner: 100, Tag: 7},
		{Addr: 1030, Size: 10, Owner: 1000}, {Addr: 1000, Size: 10, Owner: 1000}, {Addr: 1010, Size: 10, Owner: 1000},
	} {
		s.Insert(e)
	}
	return s
}

func TestSet_IsOrderedAndCounted(t *testing.T) {
	s := set()
	require.Equal(t, 6, s.Len())
	require.Equal(t, uint64(55), s.Bytes())
	for i, e := range s.All()[1:] {
		require.Less(t, s.All()[i].Addr, e.Addr)
	}
	e, found := s.Remove(100)
	require.True(t, found)
	require.Equal(t, Extent{Addr: 100, Size: 10, Owner: 100, Tag: 7}, e)
	require.Equal(t, uint64(45), s.Bytes())
	_, found = s.Remove(100)
	require.False(t, found)
	_, found = s.Get(100)
	require.False(t, found)
}

func TestSet_FindsTheExtentOfAnAddress(t *testing.T) {
	s := set()
	for addr, want := range map[uint64]uint64{10: 10, 14: 10, 100: 100, 109: 100, 110: 110, 1039: 1030} {
		e, found := s.Find(addr)
		require.True(t, found)
		require.Equal(t, want, e.Addr)
	}
	for _, addr := range []uint64{0, 9, 15, 99, 120, 1020, 1040, 1<<64 - 1} {
		_, found := s.Find(addr)
		require.False(t, found, addr)
	}
}

func TestCovers_JoinsPagesOfOneRangeAndNothingElse(t *testing.T) {
	s := set()
	for _, in := range [][2]uint64{{10, 5}, {12, 3}, {5000, 0}, {100, 10}, {1000, 20}, {1005, 10}, {1030, 10}} {
		require.True(t, s.Covers(in[0], in[1]), in)
	}
	for _, out := range [][2]uint64{
		{9, 2}, {10, 6}, {15, 1}, {100, 11}, {105, 10}, {1000, 21}, {1015, 20}, {1039, 2}, {2000, 1}, {12, 1<<64 - 1},
	} {
		require.False(t, s.Covers(out[0], out[1]), out)
	}
}

func TestWithin_WantsWholeExtents(t *testing.T) {
	s := set()
	require.Len(t, s.Within(1000, 20), 2)
	require.Len(t, s.Within(1010, 10), 1)
	for _, out := range [][2]uint64{{1000, 0}, {1000, 15}, {1005, 15}, {1010, 30}, {100, 20}, {50, 10}} {
		require.Nil(t, s.Within(out[0], out[1]), out)
	}
	s.RemoveWithin(1000, 15) // not whole: nothing happens
	require.Equal(t, 6, s.Len())
	s.RemoveWithin(1000, 20)
	require.Equal(t, 4, s.Len())
	require.Equal(t, uint64(35), s.Bytes())
}

// FuzzSet_AgreesWithABytemap compares the set with a plain map of 64 addresses.
func FuzzSet_AgreesWithABytemap(f *testing.F) {
	f.Add([]byte{1, 4, 1, 9, 2, 0, 1, 1, 200, 7})
	f.Fuzz(func(t *testing.T, script []byte) {
		var s Set
		var model [64]struct{ start, owner uint64 } // start is 1 + address of the extent, 0 where there is none
		for len(script) >= 3 {
			addr, size, owner := uint64(script[0]%64), uint64(script[1]%7+1), uint64(script[2]%3)
			remove := script[2] >= 128
			script = script[3:]
			taken := addr+size > 64
			for i := addr; i < min(addr+size, 64); i++ {
				taken = taken || model[i].start != 0
			}
			if addr+size <= 64 {
				require.Equal(t, taken, s.Overlaps(addr, size))
				compareRanges(t, &s, &model, addr, size)
			}
			switch {
			case remove:
				e, found := s.Remove(addr)
				require.Equal(t, model[addr].start == addr+1, found)
				for i := e.Addr; i < e.End(); i++ {
					model[i].start = 0
				}
			case !taken:
				s.Insert(Extent{Addr: addr, Size: size, Owner: owner})
				for i := addr; i < addr+size; i++ {
					model[i].start, model[i].owner = addr+1, owner
				}
			}
		}
	})
}

// compareRanges checks Covers and Within for [addr, addr+size) against the model.
func compareRanges(t *testing.T, s *Set, model *[64]struct{ start, owner uint64 }, addr, size uint64) {
	covered := true
	for i := addr; i < addr+size; i++ {
		covered = covered && model[i].start != 0 && model[i].owner == model[addr].owner
	}
	require.Equal(t, covered, s.Covers(addr, size))
	whole := covered && model[addr].start == addr+1
	whole = whole && (addr+size == 64 || model[addr+size].start != model[addr+size-1].start)
	require.Equal(t, whole, s.Within(addr, size) != nil)
	if whole {
		bytes := uint64(0)
		for _, e := range s.Within(addr, size) {
			bytes += e.Size
		}
		require.Equal(t, size, bytes)
	}
}
