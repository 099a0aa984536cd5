package plural

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	require.Equal(t, "0 blocks", Of(0, "block"))
	require.Equal(t, "1 block", Of(uint64(1), "block"))
	require.Equal(t, "2 blocks", Of(int64(2), "block"))
	require.Equal(t, "-1 blocks", Of(-1, "block"))
	require.Equal(t, "is", End(1, "is", "are"))
}
