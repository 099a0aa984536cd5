package cuda_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/op"
)

// manyGroups is more groups than a grid has blocks in its second and third dimension.
const manyGroups = 1<<16 + 3

// Convolutions of as many groups, each with one element of the image. They have kernels of their own, with a thread for each result
// or a block for each element of the kernel's gradient; groups with more rows are launched as the last.
func TestConv2D_TakesMoreGroupsThanAGridHas(t *testing.T) {
	if !fulltests.Enabled() {
		t.Skipf("50 million emulated threads run with %s=1", fulltests.Variable)
	}
	dev, rig := emulated(t)
	m := memory{t, dev}
	image, weights := ramp(manyGroups), make([]float64, manyGroups)
	var want [3][]float64
	for i, x := range image {
		w := float64(i%5 - 2)
		weights[i] = w
		for k, v := range []float64{w * x, w * w * x, w * x * x} {
			want[k] = append(want[k], v+0) // no -0
		}
	}
	put := func(values []float64, shape ...int) op.View { return m.put(dtype.Float32, values, shape) }
	row, column := []int{1, manyGroups, 1, 1}, []int{manyGroups, 1, 1, 1}
	zeros := make([]float64, manyGroups)
	x, w, y, dx, dw := put(image, row...), put(weights, column...), put(zeros, row...), put(zeros, row...), put(zeros, column...)
	for i, c := range []op.Call{
		{Op: op.Conv2D, Out: []op.View{y}, In: []op.View{x, w}},
		{Op: op.Conv2DGradInput, Out: []op.View{dx}, In: []op.View{y, w}},
		{Op: op.Conv2DGradWeight, Out: []op.View{dw}, In: []op.View{y, x}},
	} {
		c.Stream, c.I = dev.DefaultStream(), [8]int64{1, 1, 0, 0, 1, 1, manyGroups}
		require.NoError(t, op.Check(&c))
		require.Zero(t, kernels.Workspace(&c))
		before := rig.Calls()["cuLaunchKernel"]
		require.NoError(t, kernels.Launch(&c))
		require.NoError(t, c.Stream.Synchronize(context.Background()))
		require.Equal(t, 2, rig.Calls()["cuLaunchKernel"]-before, "%s is cut in two", c.Op)
		require.Equal(t, encode(dtype.Float32, want[i]), m.get(c.Out[0]), "%s", c.Op)
	}
}

// Indices have a row of blocks each, up to as many as a grid has.
func TestIndexAdd_TakesMoreIndicesThanAGridHas(t *testing.T) {
	dev, _ := emulated(t)
	m := memory{t, dev}
	const slots = 66_000
	index, values, want := make([]float64, manyGroups), ramp(manyGroups), make([]float64, slots)
	for i := range index {
		index[i] = float64(i * 7919 % slots)
		want[i*7919%slots] += values[i]
	}
	dst := m.put(dtype.Float32, make([]float64, slots), []int{slots, 1})
	a, b := m.put(dtype.Float32, values, []int{manyGroups, 1}), m.put(dtype.Int64, index, []int{manyGroups})
	c := op.Call{Op: op.IndexAdd, Stream: dev.DefaultStream(), Out: []op.View{dst}, In: []op.View{a, b}}
	n := int(kernels.Workspace(&c))
	c.Work = m.put(dtype.Uint8, make([]float64, n), []int{n})
	require.NoError(t, kernels.Launch(&c))
	require.NoError(t, c.Stream.Synchronize(context.Background()))
	require.Equal(t, encode(dtype.Float32, want), m.get(dst))
}
