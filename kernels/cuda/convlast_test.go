package cuda_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/op"
)

// wantPlaces is the result of a convolution, or the gradient of its image, of the other of them.
func (g *kernelGradient) wantPlaces(id op.ID, image, result, kernel []float64) []float64 {
	oh, ow := g.results()
	channels, outputs := g.c/g.groups, g.o/g.groups
	y, x := make([]float64, len(result)), make([]float64, len(image))
	for n := range g.n {
		for o := range g.o {
			for i := range oh * ow {
				at := (n*g.o+o)*oh*ow + i
				for k := range channels * g.kh * g.kw {
					h, w := i/ow*g.stride[0]-g.padding[0]+k/g.kw%g.kh*g.dilation[0], i%ow*g.stride[1]-g.padding[1]+k%g.kw*g.dilation[1]
					if h < 0 || h >= g.h || w < 0 || w >= g.w {
						continue
					}
					from, by := ((n*g.c+o/outputs*channels+k/(g.kh*g.kw))*g.h+h)*g.w+w, kernel[o*channels*g.kh*g.kw+k]
					y[at] += image[from] * by
					x[from] += result[at] * by
				}
			}
		}
	}
	if id == op.Conv2D {
		return y
	}
	return x
}

// places computes the result, or the gradient of the image, and compares all that is written, and what lies around it.
func (g *kernelGradient) places(t *testing.T, dev device.Device, d dtype.DType, id op.ID) {
	t.Helper()
	m := memory{t, dev}
	oh, ow := g.results()
	image, result, kernel := some(g.n*g.c*g.h*g.w, 7), some(g.n*g.o*oh*ow, 3), some(g.o*g.c/g.groups*g.kh*g.kw, 11)
	x, ofX := guarded(m, d, image, g.n, g.c, g.h, g.w, g.last)
	y, ofY := guarded(m, d, result, g.n, g.o, oh, ow, g.last)
	w, _ := guarded(m, d, kernel, g.o, g.c/g.groups, g.kh, g.kw, g.last)
	want := g.wantPlaces(id, image, result, kernel)
	c := op.Call{Op: id, Stream: dev.DefaultStream(), Out: []op.View{y}, In: []op.View{x, w}}
	written, shape := ofY, [4]int{g.n, g.o, oh, ow}
	if id == op.Conv2DGradInput {
		c.Out[0], c.In[0], written, shape = x, y, ofX, [4]int{g.n, g.c, g.h, g.w}
	}
	_, wanted := guarded(m, d, want, shape[0], shape[1], shape[2], shape[3], g.last)
	for i := range 2 {
		c.I[i], c.I[2+i], c.I[4+i] = int64(g.stride[i]), int64(g.padding[i]), int64(g.dilation[i])
	}
	c.I[6] = int64(g.groups)
	require.NoError(t, op.Check(&c))
	if n := int(kernels.Workspace(&c)); n > 0 {
		c.Work = m.put(dtype.Uint8, make([]float64, n), []int{n})
	}
	require.NoError(t, kernels.Launch(&c))
	require.NoError(t, c.Stream.Synchronize(context.Background()))
	require.Equal(t, m.get(wanted), m.get(written))
}

// Groups, and channels that are no multiple of a step, in one phase and in several, with and without splits of the sum.
var lastConvolutions = []kernelGradient{
	{2, 64, 6, 7, 64, 3, 3, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 2, false, "conv_last"},
	{1, 96, 9, 8, 96, 3, 2, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 3, true, "conv_last"},
	{2, 64, 15, 13, 128, 3, 3, [2]int{2, 2}, [2]int{1, 1}, [2]int{1, 1}, 2, false, "conv_last"},
	{1, 72, 9, 8, 40, 3, 3, [2]int{1, 1}, [2]int{1, 1}, [2]int{2, 1}, 1, false, "conv_last"},
	{2, 40, 17, 15, 72, 2, 3, [2]int{2, 1}, [2]int{0, 1}, [2]int{1, 1}, 1, true, "conv_last"},
	{2, 40, 7, 7, 56, 1, 1, [2]int{1, 1}, [2]int{0, 0}, [2]int{1, 1}, 1, false, "conv_last"},
	{1, 128, 6, 8, 128, 3, 3, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 1, false, "conv_join"}, // in two splits
	// More places than a block copies, of images that are copied 16 and 8 bytes at a time.
	{5, 72, 8, 9, 40, 1, 3, [2]int{1, 1}, [2]int{0, 1}, [2]int{1, 1}, 1, false, "conv_last"},
	{5, 40, 6, 10, 136, 1, 1, [2]int{1, 1}, [2]int{0, 0}, [2]int{1, 1}, 1, false, "conv_last"},
	{2, 80, 7, 7, 80, 3, 3, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 2, false, "conv_tensor"},
}

func TestConv2D_OfGroupsAndFewChannelsOnTensorCores(t *testing.T) {
	for _, greedy := range []bool{false, true} {
		everyway(t, func(t *testing.T, dev device.Device, r *cudatest.Rig) {
			r.Greedy(greedy)
			r.Set("counts", "1")
			for i := range lastConvolutions {
				g := &lastConvolutions[i]
				d := []dtype.DType{dtype.Float16, dtype.BFloat16}[i%2]
				for _, id := range []op.ID{op.Conv2D, op.Conv2DGradInput} {
					t.Run(id.String()+" "+g.String(), func(t *testing.T) {
						before := strings.Join(r.Counts(), "\n")
						g.places(t, dev, d, id)
						if after := r.Counts(); len(after) > 0 {
							require.Contains(t, changed(before, after), g.way)
						}
					})
				}
			}
		})
	}
}

// Two neighbours of a result are one word where places are even; a bias is added in either way.
func TestConv2D_OfOneTapWithABiasInPlanes(t *testing.T) {
	everyway(t, func(t *testing.T, dev device.Device, r *cudatest.Rig) {
		r.Set("counts", "1")
		for i, places := range []int{14, 12, 18} {
			for formats := range 4 {
				o := &oneTap{id: op.Conv2D, d: []dtype.DType{dtype.Float16, dtype.BFloat16}[i%2], n: 5, channels: 40, outputs: 72, places: places,
					lastImage: formats&1 != 0, lastResult: formats&2 != 0, biased: true}
				before := strings.Join(r.Counts(), "\n")
				o.run(t, dev)
				if after := r.Counts(); len(after) > 0 && !o.lastImage {
					require.Contains(t, changed(before, after), "conv_last", o.String())
				}
			}
		}
	})
}
