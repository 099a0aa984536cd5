package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

// How many places are copied at a time follows from what is a multiple of 16 or 8 bytes: a copy of any other address faults on a GPU.
func TestPlaces_WidthIsThatOfAlignedLines(t *testing.T) {
	const at = device.Ptr(1 << 20)
	planes := func(h, w int) places { return places{3, h, w, 64, 64, [4]int{64 * h * w, w, 1, h * w}} }
	for _, c := range []struct {
		name string
		of   places
		src  device.Ptr
		want int
	}{
		{"8 by 8", planes(8, 8), at, 8},
		{"4 by 6", planes(4, 6), at, 8},
		{"14 by 14", planes(14, 14), at, 4},
		{"7 by 7", planes(7, 7), at, 1},
		{"an even plane", planes(7, 6), at, 1},
		{"8 bytes from 16", planes(8, 8), at + 8, 4},
		{"an element from there", planes(8, 8), at + 2, 1},
		{"rows apart", places{3, 8, 8, 64, 64, [4]int{64 * 128, 16, 1, 128}}, at, 1},
		{"columns apart", places{3, 8, 8, 64, 64, [4]int{64 * 128, 16, 2, 128}}, at, 1},
		{"channels at multiples of 8 bytes", places{3, 8, 8, 64, 64, [4]int{64 * 128, 8, 1, 68}}, at, 4},
		{"channels at any", places{3, 8, 8, 64, 64, [4]int{64 * 128, 8, 1, 65}}, at, 1},
		{"images at any", places{3, 8, 8, 64, 64, [4]int{64*64 + 2, 8, 1, 64}}, at, 1},
		{"one row", places{3, 1, 8, 64, 64, [4]int{64 * 8, 77, 1, 8}}, at, 8},
		{"channels last", places{3, 8, 8, 64, 64, [4]int{64 * 64, 8 * 64, 64, 1}}, at, 1},
	} {
		require.Equal(t, c.want, c.of.width(c.src), c.name)
	}
}
