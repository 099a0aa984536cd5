package rawbytes

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInt64s_AreTheSameMemory(t *testing.T) {
	s := []int{1, -1 << 63, 1<<53 + 1}
	whole := Int64s(s)
	require.Equal(t, []int64{1, math.MinInt64, 1<<53 + 1}, whole)
	whole[0] = 7
	require.Equal(t, 7, s[0])
	Ints(whole)[2] = 8
	require.Equal(t, 8, s[2])
	require.Empty(t, Int64s(nil))
	require.Empty(t, Ints([]int64{}))
}

func TestOf_IsTheMemoryOfTheSlice(t *testing.T) {
	s := []int32{1, -1}
	b := Of(s)
	require.Len(t, b, 8)
	copy(b, Of([]float32{1.5}))
	require.Equal(t, int32(math.Float32bits(1.5)), s[0])
	require.Equal(t, int32(-1), s[1])
	require.Nil(t, Of([]uint16{}))
}

func TestWords_AreEqualForTheSamePointerOfAType(t *testing.T) {
	type other int
	x, y := new(int), new(int)
	words := func(v any) [2]uintptr { kind, at := Words(v); return [2]uintptr{kind, at} }
	require.Equal(t, words(x), words(x))
	require.NotEqual(t, words(x), words(y))
	require.NotEqual(t, words(x), words((*other)(x)))
	require.Equal(t, [2]uintptr{}, words(nil))
	require.NotEqual(t, words((*int)(nil)), words(nil))
}
