package cpu

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// inner is the part of a larger view, from element at along each dimension on.
func inner(v op.View, at int, shape ...int) op.View {
	for d, n := range shape {
		v.Ptr += device.Ptr(at * v.Strides[d] * v.DType.Size())
		v.Shape[d] = n
	}
	return v
}

// permuted is v with its dimensions in another order.
func permuted(v op.View, dims ...int) op.View {
	p := v
	for i, d := range dims {
		p.Shape[i], p.Strides[i] = v.Shape[d], v.Strides[d]
	}
	return p
}

// checkCopy copies a view of n, h, w elements, in an order of the dimensions, into the midst of larger memory, and looks at all of that.
func checkCopy[T uint8 | uint16 | uint32 | uint64](t *testing.T, d dtype.DType, dims, shape [3]int) {
	const edge = 3
	to := [3]int{shape[dims[0]], shape[dims[1]], shape[dims[2]]}
	size := func(s [3]int) int { return (s[0] + 2*edge) * (s[1] + 2*edge) * (s[2] + 2*edge) }
	src, dst := make([]T, size(shape)), make([]T, size(to))
	for i := range src {
		src[i] = T(7*i + i>>8 + 1)
	}
	whole := func(v []T, s [3]int) op.View { return viewOf(t, d, v, s[0]+2*edge, s[1]+2*edge, s[2]+2*edge) }
	in, out := inner(whole(src, shape), edge, shape[:]...), inner(whole(dst, to), edge, to[:]...)
	launch(t, &op.Call{Op: op.Copy, Out: []op.View{out}, In: []op.View{permuted(in, dims[:]...)}})

	want := make([]T, len(dst))
	var at [3]int
	for i := range want {
		at[0], at[1], at[2] = i/((to[1]+2*edge)*(to[2]+2*edge))-edge, i/(to[2]+2*edge)%(to[1]+2*edge)-edge, i%(to[2]+2*edge)-edge
		if at[0] < 0 || at[0] >= to[0] || at[1] < 0 || at[1] >= to[1] || at[2] < 0 || at[2] >= to[2] {
			continue
		}
		var from [3]int
		for k, d := range dims {
			from[d] = at[k] + edge
		}
		want[i] = src[(from[0]*(shape[1]+2*edge)+from[1])*(shape[2]+2*edge)+from[2]]
	}
	require.Equal(t, want, dst, fmt.Sprint(dims, shape, d))
}

func TestCopy_ExchangesDimensionsAndWritesNothingBeside(t *testing.T) {
	check := func() {
		for _, dims := range [][3]int{{0, 2, 1}, {2, 1, 0}, {2, 0, 1}, {1, 2, 0}, {1, 0, 2}, {0, 1, 2}} {
			for _, shape := range [][3]int{{1, 1, 1}, {2, 7, 9}, {3, 8, 8}, {2, 65, 17}, {2, 63, 130}, {13, 24, 40}, {9, 1, 70}} {
				checkCopy[uint8](t, dtype.Uint8, dims, shape)
				checkCopy[uint16](t, dtype.Float16, dims, shape)
				checkCopy[uint32](t, dtype.Float32, dims, shape)
				checkCopy[uint64](t, dtype.Int64, dims, shape)
			}
		}
	}
	check()
	workers(2, check)
	withoutVectors(check)
}

// withoutVectors runs f with the loops of plain Go.
func withoutVectors(f func()) {
	defer func(v vectorLoops) { vector = v }(vector)
	vector = vectorLoops{}
	f()
}
