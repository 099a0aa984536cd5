package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of a long log the beginning and the end are kept, whatever its length is.
func TestCapped_KeepsTheBeginningAndTheEnd(t *testing.T) {
	for _, beyond := range []int{-1, 0, 1, keptLast - 1, keptLast, keptLast + 1, 2 * keptLast} {
		name := filepath.Join(t.TempDir(), "log")
		c, err := newCapped(name)
		require.NoError(t, err)
		all := make([]byte, keptFirst+beyond)
		for i := range all {
			all[i] = 'a' + byte(i%23)
		}
		for part := range slices.Chunk(all, 300_001) {
			n, err := c.Write(part)
			require.NoError(t, err)
			require.Len(t, part, n)
		}
		c.close()
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		if beyond <= keptLast {
			require.True(t, bytes.Equal(all, got), "%d beyond: %d bytes of %d", beyond, len(got), len(all))
			continue
		}
		require.True(t, bytes.HasPrefix(got, all[:keptFirst]), beyond)
		require.True(t, bytes.HasSuffix(got, all[len(all)-keptLast:]), beyond)
	}
}
