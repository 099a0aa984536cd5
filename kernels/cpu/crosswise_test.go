package cpu

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// numbered are n elements that differ from those near them.
func numbered[T number](n int) []T {
	v := onHeap[T](n)
	for i := range v {
		v[i] = T((7*i + i>>8) % 113)
	}
	return v
}

// straightCopy is a view's elements side by side, by a walk over places.
func straightCopy[T any](v op.View, from []T) []T {
	var to []T
	for i := range v.Len() {
		at, rest := 0, i
		for d := v.NDim - 1; d >= 0; d-- {
			at += rest % v.Shape[d] * v.Strides[d]
			rest /= v.Shape[d]
		}
		to = append(to, from[at])
	}
	return to
}

// crossesAlike computes what with inputs that lie across, into the midst of larger memory, and the same with inputs that lie straight.
func crossesAlike[T number](t *testing.T, id op.ID, d dtype.DType, shape, dims [3]int, both bool) {
	t.Helper()
	name := fmt.Sprint(id, d, shape, dims, both)
	n := shape[0] * shape[1] * shape[2]
	view := func(v []T) op.View { return viewOf(t, d, v, shape[:]...) }
	a, b := numbered[T](n), numbered[T](n + 5)[5:]
	across := permuted(view(a), dims[:]...)
	to := across.Shape[:3]
	second := viewOf(t, d, b, to...)
	if both {
		second = permuted(view(b), dims[:]...)
	}
	memory := onHeap[T]((to[0] + 1) * (to[1] + 1) * (to[2] + 1))
	fillSlice(memory, 99)
	whole := viewOf(t, d, memory, to[0]+1, to[1]+1, to[2]+1)
	out := inner(whole, 0, to...)
	c := &op.Call{Op: id, Out: []op.View{out}, In: []op.View{across, second}, F: [8]float64{1}, I: [8]int64{1}}
	require.True(t, mayCross(c, 2) && new(crosswiseCall).begin(c, 2), name)
	want := onHeap[T](n)
	callRow(t, id, d, want, d, straightCopy(across, a), straightCopy(second, b))

	run := func(c *op.Call) {
		for _, r := range allRows() {
			if r.Op == c.Op {
				require.NoError(t, r.Funcs[d](c))
			}
		}
	}
	run(c)
	require.Equal(t, want, straightCopy(out, memory), name)
	run(&op.Call{Op: op.Fill, Out: []op.View{out}, F: [8]float64{99}, I: [8]int64{99}})
	for _, v := range memory {
		require.True(t, v == 99, "%s wrote beside its elements", name)
	}
}

func TestCrosswise_CallsGiveWhatStraightOnesDo(t *testing.T) {
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	workers(2, func() {
		for _, s := range []struct{ shape, dims [3]int }{
			{[3]int{1, 300, 70}, [3]int{0, 2, 1}}, // four bands
			{[3]int{3, 130, 67}, [3]int{0, 2, 1}},
			{[3]int{130, 5, 33}, [3]int{2, 1, 0}},
			{[3]int{2, 2100, 9}, [3]int{0, 2, 1}},
			{[3]int{2000, 2, 8}, [3]int{1, 2, 0}},
		} {
			crossesAlike[float32](t, op.Sub, dtype.Float32, s.shape, s.dims, false)
			crossesAlike[float64](t, op.Mul, dtype.Float64, s.shape, s.dims, true)
			crossesAlike[uint8](t, op.Maximum, dtype.Uint8, s.shape, s.dims, true)
		}
	})
	require.Zero(t, g.check())
}
