package pages

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAlloc_GivesZeroedMemoryThatCanBeGivenBack(t *testing.T) {
	if !Supported {
		_, err := Alloc(1)
		require.Error(t, err)
		require.Error(t, Free(nil))
		return
	}
	const n = 100_001
	b, err := Alloc(n)
	require.NoError(t, err)
	require.Equal(t, make([]byte, n), b)
	b[0], b[n-1] = 1, 2
	require.EqualValues(t, n, Live())
	require.NoError(t, Free(b))
	require.Error(t, Free(b), "only once")
	_, err = Alloc(0)
	require.Error(t, err)
	require.Zero(t, Live())
}
