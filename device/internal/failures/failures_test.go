package failures

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTake_ReturnsTheFirstErrorUpToAPositionOnce(t *testing.T) {
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	var l List
	require.NoError(t, l.Take(100))
	l.Add(3, a)
	l.Add(4, b)
	l.Add(9, c)
	require.NoError(t, l.Take(2))
	require.Equal(t, a, l.Take(8), "b follows from a and goes with it")
	require.NoError(t, l.Take(8))
	require.Equal(t, c, l.Take(9))
	require.NoError(t, l.Take(9))
}

func TestAdd_KeepsOnlyTheFirstOfVeryMany(t *testing.T) {
	first, later := errors.New("first"), errors.New("later")
	var l List
	l.Add(1, first)
	for i := range uint64(1000) {
		l.Add(i+2, later)
	}
	require.Len(t, l.list, limit)
	require.Equal(t, first, l.Take(5000))
	require.Empty(t, l.list)
}
