package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
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

// Two results are written as a word only where it lies at a multiple of 4 bytes and is of one image, in each row and image.
func TestConvolution_PairsAreWords(t *testing.T) {
	const at = device.Ptr(1 << 20)
	planes := func(h, w int) convolution {
		return convolution{groups: 2, m: 64, splits: 1, dst: at, axis: [2]op.Axis{{Size: h}, {Size: w}}, d: [5]int{64 * h * w, h * w, 128 * h * w, w, 1}}
	}
	for _, c := range []struct {
		name   string
		of     convolution
		change func(p *convolution)
		want   bool
	}{
		{"14 by 14", planes(14, 14), nil, true},
		{"7 by 6", planes(7, 6), nil, true},
		{"6 by 7", planes(6, 7), nil, true},
		{"7 by 7", planes(7, 7), nil, false},
		{"7 by 7, each from an even element on", planes(7, 7), func(p *convolution) { p.d[1], p.d[2], p.d[0] = 50, 128*50, 64*50 }, false},
		{"split", planes(14, 14), func(p *convolution) { p.splits = 2 }, false},
		{"from an odd element on", planes(14, 14), func(p *convolution) { p.dst += 2 }, false},
		{"from an even one", planes(14, 14), func(p *convolution) { p.dst += 4 }, true},
		{"rows of an odd distance", planes(14, 14), func(p *convolution) { p.d[1]++ }, false},
		{"images of an odd distance", planes(14, 14), func(p *convolution) { p.d[2]++ }, false},
		{"groups of an odd distance", planes(14, 14), func(p *convolution) { p.d[0]++ }, false},
		{"lines apart", planes(14, 14), func(p *convolution) { p.d[3] += 2 }, false},
		{"every second place", planes(14, 14), func(p *convolution) { p.d[3], p.d[4] = 28, 2 }, false},
		{"channels last", planes(14, 14), func(p *convolution) { p.d[1], p.d[3], p.d[4] = 1, 14*128, 128 }, false},
	} {
		if c.change != nil {
			c.change(&c.of)
		}
		require.Equal(t, c.want, c.of.pairs(), c.name)
	}
}
