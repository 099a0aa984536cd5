package cuda_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/op"
)

// kernelGradient is a gradient of a convolution's kernel, whose numbers are small integers, so that sums are exact.
type kernelGradient struct {
	n, c, h, w, o, kh, kw     int
	stride, padding, dilation [2]int
	groups                    int
	last                      bool   // image and result have their channels last
	way                       string // the kernel that computes it
}

func (g *kernelGradient) results() (h, w int) {
	size := func(n, k, d int) int { return (n+2*g.padding[d]-g.dilation[d]*(k-1)-1)/g.stride[d] + 1 }
	return size(g.h, g.kh, 0), size(g.w, g.kw, 1)
}

// some are numbers between -2 and 2 of which few follow a rule.
func some(n, step int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64((i*step+i*i%7+i/13)%5 - 2)
	}
	return v
}

// guarded puts a tensor of [n, c, h, w] between guards that are no numbers, channels last or first.
func guarded(m memory, d dtype.DType, values []float64, n, c, h, w int, last bool) (v op.View, all op.View) {
	const guard = 64
	strides := []int{c * h * w, h * w, w, 1}
	if last {
		strides = []int{c * h * w, 1, w * c, c}
	}
	whole := make([]float64, len(values)+2*guard)
	for i := range whole {
		whole[i] = math.NaN()
	}
	for i, x := range values {
		at := [4]int{i / (c * h * w), i / (h * w) % c, i / w % h, i % w}
		whole[guard+at[0]*strides[0]+at[1]*strides[1]+at[2]*strides[2]+at[3]*strides[3]] = x
	}
	all = m.put(d, whole, []int{len(whole)})
	v = all
	v.Ptr += device.Ptr(guard * d.Size())
	v.NDim = 4
	copy(v.Shape[:], []int{n, c, h, w})
	copy(v.Strides[:], strides)
	return v, all
}

func (g *kernelGradient) want(image, result []float64) []float64 {
	oh, ow := g.results()
	channels, outputs := g.c/g.groups, g.o/g.groups
	want := make([]float64, g.o*channels*g.kh*g.kw)
	for i := range want {
		x, y, c, o := i%g.kw, i/g.kw%g.kh, i/(g.kw*g.kh)%channels, i/(g.kw*g.kh*channels)
		from := o/outputs*channels + c
		for n := range g.n {
			for u := range oh {
				h := u*g.stride[0] - g.padding[0] + y*g.dilation[0]
				if h < 0 || h >= g.h {
					continue
				}
				for v := range ow {
					if w := v*g.stride[1] - g.padding[1] + x*g.dilation[1]; w >= 0 && w < g.w {
						want[i] += result[((n*g.o+o)*oh+u)*ow+v] * image[((n*g.c+from)*g.h+h)*g.w+w]
					}
				}
			}
		}
	}
	return want
}

// run computes it on a device and compares all that is written, and what lies around it.
func (g *kernelGradient) run(t *testing.T, dev device.Device, d dtype.DType) {
	t.Helper()
	m := memory{t, dev}
	oh, ow := g.results()
	image, result := some(g.n*g.c*g.h*g.w, 7), some(g.n*g.o*oh*ow, 3)
	x, _ := guarded(m, d, image, g.n, g.c, g.h, g.w, g.last)
	dy, _ := guarded(m, d, result, g.n, g.o, oh, ow, g.last)
	want := g.want(image, result)
	dw, all := guarded(m, d, make([]float64, len(want)), g.o, g.c/g.groups, g.kh, g.kw, false)
	_, wanted := guarded(m, d, want, g.o, g.c/g.groups, g.kh, g.kw, false)
	c := op.Call{Op: op.Conv2DGradWeight, Stream: dev.DefaultStream(), Out: []op.View{dw}, In: []op.View{dy, x}}
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
	require.Equal(t, m.get(wanted), m.get(all))
}

func (g *kernelGradient) String() string {
	return fmt.Sprintf("%d images of %d by %d by %d, %d results, kernel %d by %d, stride %v, padding %v, dilation %v, %d groups, last %t",
		g.n, g.c, g.h, g.w, g.o, g.kh, g.kw, g.stride, g.padding, g.dilation, g.groups, g.last)
}

// Odd sizes, strides, padding and dilation, places that are no multiple of a step, one image and several, edges of tiles of both sizes,
// splits of the sum, groups, and channels that are a multiple of 8 alone.
var kernelGradients = []kernelGradient{
	{2, 64, 6, 7, 96, 3, 3, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 1, false, "last_128"},
	{1, 24, 17, 15, 32, 3, 3, [2]int{2, 2}, [2]int{1, 1}, [2]int{1, 1}, 1, false, "last_64"},
	{3, 40, 12, 13, 136, 2, 3, [2]int{1, 2}, [2]int{0, 2}, [2]int{3, 1}, 1, true, "last_64"},
	{1, 24, 20, 19, 120, 3, 2, [2]int{3, 1}, [2]int{2, 3}, [2]int{2, 4}, 1, false, "last_128"},
	{5, 16, 17, 15, 64, 3, 3, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 1, false, "last_64"},
	{2, 96, 7, 7, 64, 3, 3, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 2, false, "last_64"},
	{1, 16, 3, 40, 128, 1, 5, [2]int{1, 2}, [2]int{1, 4}, [2]int{1, 2}, 1, false, "last_128"},
	{1, 8, 9, 9, 32, 4, 8, [2]int{1, 1}, [2]int{2, 4}, [2]int{1, 1}, 1, true, "last_64"},
	{5, 40, 6, 10, 64, 3, 3, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 1, false, "last_64"},
	{2, 72, 7, 7, 64, 1, 1, [2]int{1, 1}, [2]int{0, 0}, [2]int{1, 1}, 1, false, "last_64"},
	{2, 72, 8, 8, 64, 1, 1, [2]int{2, 2}, [2]int{0, 0}, [2]int{1, 1}, 1, false, "last_64"},
	{2, 72, 4, 6, 64, 1, 1, [2]int{1, 1}, [2]int{0, 0}, [2]int{1, 1}, 1, false, "lines_64"},
	{3, 144, 4, 14, 200, 1, 1, [2]int{1, 1}, [2]int{0, 0}, [2]int{1, 1}, 1, false, "lines_128"},
	{7, 64, 12, 14, 32, 1, 1, [2]int{1, 1}, [2]int{0, 0}, [2]int{1, 1}, 1, false, "lines_64"},
	{2, 128, 4, 4, 240, 1, 1, [2]int{1, 1}, [2]int{0, 0}, [2]int{1, 1}, 2, false, "lines_128"},
	{1, 12, 9, 9, 64, 3, 3, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 1, false, ""},
	{1, 16, 9, 9, 36, 3, 3, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 1, false, ""},
	{1, 16, 9, 9, 64, 3, 11, [2]int{1, 1}, [2]int{1, 5}, [2]int{1, 1}, 1, false, ""},
}

// All of them on the committed PTX and on the sources, in both orders of warps, and by the kernel that is meant for them.
func TestConv2D_GradientOfTheKernelOnTensorCores(t *testing.T) {
	for _, greedy := range []bool{false, true} {
		everyway(t, func(t *testing.T, dev device.Device, r *cudatest.Rig) {
			r.Greedy(greedy)
			r.Set("counts", "1")
			for i := range kernelGradients {
				g := &kernelGradients[i]
				d := []dtype.DType{dtype.Float16, dtype.BFloat16}[i%2]
				t.Run(g.String(), func(t *testing.T) {
					before := strings.Join(r.Counts(), "\n")
					g.run(t, dev, d)
					if after := r.Counts(); len(after) > 0 {
						require.Equal(t, g.way != "", strings.Contains(changed(before, after), "conv_weight_"+cmp.Or(g.way, "sum")), changed(before, after))
					}
				})
			}
		})
	}
}

// changed is what counts have that is not among those before.
func changed(before string, after []string) string {
	var lines []string
	for _, line := range after {
		if !strings.Contains(before, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
