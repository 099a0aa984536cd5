package memory

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// Blocks that two threads write must not share a cache line: it made two streams 1.5 times as slow as one.
func TestBlock_FillsWholeCacheLines(t *testing.T) {
	require.Zero(t, reflect.TypeFor[block]().Size()%64)
}
