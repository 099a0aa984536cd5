package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// What images go through, in both formats: the same numbers, and the channels stay last on the way forward and back, past a pool over whole
// images, whose gradient has one place and no order of its own.
func TestChannelsLast_StayLastForwardAndBackward(t *testing.T) {
	r := onHost(t)
	image, kernel, point, weight := r.random(1, 2, 3, 8, 6), r.random(2, 4, 3, 3, 3), r.random(3, 5, 4, 1, 1), r.random(4, 4)
	var want [][]float64
	for _, f := range []tensor.MemoryFormat{tensor.ContiguousFormat, tensor.ChannelsLast} {
		g := r.graph()
		in := func(x *tensor.Tensor) *autograd.Variable {
			return g.Input(keep(t)(x.ToMemoryFormat(f)), autograd.RequiresGrad())
		}
		x, w, u := in(image), in(kernel), in(point)
		h := x.Conv2d(w, nil, tensor.Conv{Padding: []int{1}}).BatchNorm(nil, nil, g.Input(weight), nil, true, 0.1, 1e-5).ReLU()
		h = h.Add(h.AddScalar(1).Tanh()).MaxPool2d(tensor.Pool{Kernel: []int{2}}).RetainGrad()
		up := h.UpsampleNearest2d(tensor.Upsample{Scale: []float64{2}}).AvgPool2d(tensor.Pool{Kernel: []int{2}})
		y := up.Conv2d(u, nil, tensor.Conv{})
		loss := y.AdaptiveAvgPool2d(1).Flatten(1, -1).Square().Sum(nil, false)
		for _, v := range []*autograd.Variable{h, up, y} {
			require.Equal(t, f, v.MemoryFormat())
		}
		require.NoError(t, loss.Backward())
		for _, v := range []*autograd.Variable{x, w, u, h} {
			require.Equal(t, f, v.Grad().MemoryFormat())
			require.True(t, v.Grad().IsContiguousIn(f))
		}
		got := [][]float64{values(t, x.Grad()), values(t, w.Grad()), values(t, u.Grad()), values(t, h.Grad())}
		g.Release()
		if want == nil {
			want = got
		}
		for i := range want {
			require.InDeltaSlice(t, want[i], got[i], 1e-9)
		}
	}
}

// A leaf's gradient lies as the leaf does, however it arrives.
func TestToMemoryFormat_LeavesGradientsAsTheirLeavesLie(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.random(1, 2, 3, 2, 2), autograd.RequiresGrad())
	last := x.ToMemoryFormat(tensor.ChannelsLast)
	require.Equal(t, tensor.ChannelsLast, last.MemoryFormat())
	require.NoError(t, last.Mul(last).Sum(nil, false).Backward())
	require.True(t, x.Grad().IsContiguous())

	require.Equal(t, tensor.ContiguousFormat, (*autograd.Variable)(nil).MemoryFormat())
	g.Input(r.random(1, 2, 3)).ToMemoryFormat(tensor.ChannelsLast)
	var shape *tensor.ShapeError
	require.ErrorAs(t, g.Err(), &shape)
}

// What moves channels to places and back keeps the channels last, and is the same in both formats, with its gradient.
func TestPixelShuffle_KeepsTheChannelsLast(t *testing.T) {
	r := onHost(t)
	for name, f := range map[string]func(v *autograd.Variable) *autograd.Variable{
		"shuffle":   func(v *autograd.Variable) *autograd.Variable { return v.PixelShuffle(2) },
		"unshuffle": func(v *autograd.Variable) *autograd.Variable { return v.PixelUnshuffle(2) },
		"channels":  func(v *autograd.Variable) *autograd.Variable { return v.ChannelShuffle(2) },
		"by one":    func(v *autograd.Variable) *autograd.Variable { return v.PixelShuffle(1) },
	} {
		image := r.random(1, 2, 8, 4, 6)
		var want [2][]float64
		for _, format := range []tensor.MemoryFormat{tensor.ContiguousFormat, tensor.ChannelsLast} {
			g := r.graph()
			x := g.Input(keep(t)(image.ToMemoryFormat(format)), autograd.RequiresGrad())
			y := f(x).Keep()
			require.Equal(t, format, y.MemoryFormat(), name)
			require.NoError(t, y.Square().Sum(nil, false).Backward())
			got := [2][]float64{valuesOf(t, y), values(t, x.Grad())}
			require.True(t, x.Grad().IsContiguousIn(format), name)
			g.Release()
			if format == tensor.ContiguousFormat {
				want = got
			}
			require.Equal(t, want, got, name)
		}
	}
}

// The gradient of dropout drops what it has dropped, in whatever format it arrives.
func TestDropout_OfChannelsLastDropsTheSameGradient(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(keep(t)(keep(t)(tensor.Ones(r.exec, tensor.Float64, 2, 3, 4, 5)).ToMemoryFormat(tensor.ChannelsLast)), autograd.RequiresGrad())
	y := x.Dropout(0.5).Keep()
	require.Equal(t, tensor.ChannelsLast, y.MemoryFormat())
	require.NoError(t, y.Backward(autograd.WithGradient(keep(t)(tensor.Ones(r.exec, tensor.Float64, 2, 3, 4, 5)))))
	require.Equal(t, valuesOf(t, y), values(t, x.Grad()))
	require.True(t, x.Grad().IsContiguousIn(tensor.ChannelsLast))
}
