package osmem

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoundUp_IsWholePagesAndZeroWhenThatOverflows(t *testing.T) {
	page := PageSize()
	require.Zero(t, page&(page-1))
	for n, want := range map[uint64]uint64{
		0: 0, 1: page, page: page, page + 1: 2 * page, math.MaxUint64 - page + 1: math.MaxUint64 - page + 1,
		math.MaxUint64 - page + 2: 0, math.MaxUint64: 0,
	} {
		require.Equal(t, want, RoundUp(n))
	}
}

func TestAlloc_IsZeroedAndWritable(t *testing.T) {
	n := RoundUp(4 << 20) // large enough for huge pages
	p, err := Alloc(n)
	require.NoError(t, err)
	b := Bytes(p, n)
	require.Equal(t, make([]byte, n), b)
	b[0], b[n-1] = 1, 2
	require.Equal(t, p, Address(b))
	require.Equal(t, p, Address(b[:0]))
	require.NoError(t, Free(p, n))
}

func TestCommit_PutsFreshMemoryBehindReservedAddresses(t *testing.T) {
	page := PageSize()
	p, err := Reserve(1 << 40) // more than there is
	require.NoError(t, err)
	at := p + uintptr(7*page)
	for range 3 {
		require.NoError(t, Commit(at, 2*page))
		b := Bytes(at, 2*page)
		require.Equal(t, make([]byte, 2*page), b)
		for i := range b {
			b[i] = 0xEE
		}
		require.NoError(t, Decommit(at, 2*page))
	}
	require.NoError(t, Release(p, 1<<40))
}

func TestAlloc_OfTooMuchIsAnError(t *testing.T) {
	_, err := Alloc(1 << 62)
	require.Error(t, err)
	_, err = Reserve(1 << 62)
	require.Error(t, err)
}

func TestAddress_OfNoMemoryIsZero(t *testing.T) {
	require.Zero(t, Address(nil))
	require.Empty(t, Bytes(0, 0))
}
