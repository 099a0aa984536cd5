package rawbytes

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf_IsTheMemoryOfTheSlice(t *testing.T) {
	s := []int32{1, -1}
	b := Of(s)
	require.Len(t, b, 8)
	copy(b, Of([]float32{1.5}))
	require.Equal(t, int32(math.Float32bits(1.5)), s[0])
	require.Equal(t, int32(-1), s[1])
	require.Nil(t, Of([]uint16{}))
}
