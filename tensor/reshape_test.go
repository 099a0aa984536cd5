package tensor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// reshaped takes the shape of what it is given and nothing else of it: no element is visited where there are none, and a scalar has no
// stride to begin with, so row-major strides have to come from somewhere.
func TestReshaped_TakesTheShapeAlone(t *testing.T) {
	for _, c := range []struct{ from, to, strides []int }{
		{[]int{0, 3}, []int{3, 0, 2}, []int{2, 2, 1}},
		{[]int{}, []int{1, 1}, []int{1, 1}},
		{[]int{2, 3}, []int{3, 2}, []int{2, 1}},
	} {
		from, err := newLayout("from", c.from)
		require.NoError(t, err)
		to, err := newLayout("to", c.to)
		require.NoError(t, err)
		from.offset, to.offset = 7, 11
		for i := range to.ndim {
			to.strides[i] = 100
		}
		got, ok := from.reshaped(&to)
		require.True(t, ok)
		require.Equal(t, Shape(c.to), got.dims())
		require.Equal(t, c.strides, got.strides[:got.ndim], "%v as %v", c.from, c.to)
		require.Equal(t, 7, got.offset)
		require.Equal(t, 100, to.strides[0], "what it was given stays")
	}
}
