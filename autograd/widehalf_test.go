package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Places of wide images, and numbers of many bins, are none that half precision has.
func TestHalfPrecision_HasRoomForWideImagesAndManyBins(t *testing.T) {
	r := onHost(t)
	for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		g := r.graph()
		image := g.Arange(0, 4096, 1, tensor.Float32).MulScalar(1.0/4096).To(dt).Reshape(1, 1, 1, 4096)
		grid := autograd.FromSlice(g, []float32{1, 0, -1, 0, 0.5, 0}, 1, 1, 3, 2).To(dt)
		for _, padding := range []autograd.SamplePadding{autograd.SampleZeros, autograd.SampleBorder, autograd.SampleReflection} {
			out := image.GridSample(grid, autograd.Sampling{AlignCorners: true, Padding: padding})
			require.Equal(t, dt, out.DType())
			got, err := out.Float64s()
			require.NoError(t, err)
			require.InDeltaSlice(t, []float64{1, 0, 0.75}, got, 0.005, "%s, padding %d", dt, padding)
		}
		all, err := g.Linspace(0, 1, 1000, tensor.Float32).To(dt).Histc(3000, 0, 1).Sum(nil, false).Item()
		require.NoError(t, err)
		require.EqualValues(t, 1000, all, dt)
		same, err := g.Full(300, dt, 3).Histc(4, 0, 0).Sum(nil, false).Item()
		require.NoError(t, err)
		require.EqualValues(t, 3, same, dt)
		g.Release()
	}
	g := r.graph()
	defer g.Release()
	for _, values := range [][]float32{{1e9, 1e9}, {0, 1, 3e38, -3e38}} {
		counts, err := autograd.FromSlice(g, values).Histc(4, -3e38, 3e38).Sum(nil, false).Item()
		require.NoError(t, err)
		require.EqualValues(t, len(values), counts)
		counts, err = autograd.FromSlice(g, values[:2]).Histc(3, 0, 0).Sum(nil, false).Item()
		require.NoError(t, err)
		require.EqualValues(t, 2, counts)
	}
}

// What CreateGraph records is what a pass without it gives, at edges and of nothing too.
func TestCreateGraph_ChangesNoGradientAtEdges(t *testing.T) {
	r := onHost(t)
	for name, f := range map[string]func(x variable) variable{
		"hardswish": func(x variable) variable { return x.Hardswish() },
		"prod":      func(x variable) variable { return x.Narrow(0, 0, 0).Prod([]int{0}, false) },
	} {
		var grads [2][]float64
		for i, opts := range [][]autograd.BackwardOption{nil, {autograd.CreateGraph()}} {
			g := r.graph()
			x := g.Input(r.tensor([]float64{-3, 3, 4, 1}, 4), autograd.RequiresGrad())
			y := f(x)
			if y.NDim() > 0 {
				y = y.Sum(nil, false)
			}
			list, err := autograd.Grad([]variable{y}, []variable{x}, opts...)
			require.NoError(t, err, name)
			grads[i], err = list[0].Float64s()
			require.NoError(t, err, name)
			g.Release()
		}
		require.Equal(t, grads[0], grads[1], name)
	}
}
