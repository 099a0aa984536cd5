package cuda_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/op"
)

// oneTap is a convolution of one tap, whose numbers are small integers, so that sums are exact.
type oneTap struct {
	id                           op.ID
	d                            dtype.DType
	n, channels, outputs, places int
	lastImage, lastResult        bool // channels last
	biased                       bool
}

// values are of [n, channels, places].
func (o *oneTap) values(channels, step int) []float64 {
	v := make([]float64, o.n*channels*o.places)
	for i := range v {
		v[i] = float64(i*step%5 - 2)
	}
	return v
}

// lie is the order in which a tensor has its values in memory.
func (o *oneTap) lie(values []float64, channels int, last bool) []float64 {
	if !last {
		return values
	}
	out := make([]float64, 0, len(values))
	for n := range o.n {
		for s := range o.places {
			for c := range channels {
				out = append(out, values[(n*channels+c)*o.places+s])
			}
		}
	}
	return out
}

// view is a tensor of two rows of places.
func (o *oneTap) view(m memory, values []float64, channels int, last bool) op.View {
	h, w := 2, o.places/2
	strides := []int{channels * o.places, o.places, w, 1}
	if last {
		strides = []int{channels * o.places, 1, w * channels, channels}
	}
	return m.put(o.d, o.lie(values, channels, last), []int{o.n, channels, h, w}, strides...)
}

// run computes it on a device and compares each element.
func (o *oneTap) run(t *testing.T, dev device.Device) {
	t.Helper()
	m := memory{t, dev}
	x, y, w, bias := o.values(o.channels, 7), o.values(o.outputs, 3), make([]float64, o.outputs*o.channels), make([]float64, o.outputs)
	for i := range w {
		w[i] = float64(i*11%3 - 1)
	}
	for i := range bias {
		bias[i] = float64(i % 4)
	}
	wantX, wantY, wantW := make([]float64, len(x)), make([]float64, len(y)), make([]float64, len(w))
	for n := range o.n {
		for k := range o.outputs {
			for s := range o.places {
				at := (n*o.outputs+k)*o.places + s
				for c := range o.channels {
					from := (n*o.channels+c)*o.places + s
					wantY[at] += w[k*o.channels+c] * x[from]
					wantX[from] += w[k*o.channels+c] * y[at]
					wantW[k*o.channels+c] += y[at] * x[from]
				}
				if o.biased {
					wantY[at] += bias[k]
				}
			}
		}
	}
	image, result := o.view(m, x, o.channels, o.lastImage), o.view(m, y, o.outputs, o.lastResult)
	weights := m.put(o.d, w, []int{o.outputs, o.channels, 1, 1})
	c := op.Call{Op: o.id, Stream: dev.DefaultStream(), I: [8]int64{1, 1, 0, 0, 1, 1, 1}}
	var want []float64
	switch o.id {
	case op.Conv2D:
		c.Out, c.In, want = []op.View{result}, []op.View{image, weights}, o.lie(wantY, o.outputs, o.lastResult)
		if o.biased {
			c.In = append(c.In, m.put(o.d, bias, []int{o.outputs}))
		}
	case op.Conv2DGradInput:
		c.Out, c.In, want = []op.View{image}, []op.View{result, weights}, o.lie(wantX, o.channels, o.lastImage)
	default:
		c.Out, c.In, want = []op.View{weights}, []op.View{result, image}, wantW
	}
	require.NoError(t, op.Check(&c))
	if n := int(kernels.Workspace(&c)); n > 0 {
		c.Work = m.put(dtype.Uint8, make([]float64, n), []int{n})
	}
	require.NoError(t, kernels.Launch(&c))
	require.NoError(t, c.Stream.Synchronize(context.Background()))
	for i := range want {
		want[i] += 0 // no -0
	}
	require.Equal(t, encode(o.d, want), m.get(c.Out[0]))
}

// oneTaps are convolutions of one tap of a type, by the memory formats of image and result.
func oneTaps(d dtype.DType, visit func(o *oneTap)) {
	for i, id := range []op.ID{op.Conv2D, op.Conv2D, op.Conv2DGradInput, op.Conv2DGradWeight} {
		for formats := range 4 {
			visit(&oneTap{id: id, d: d, n: 2, channels: 24, outputs: 40, places: 16, lastImage: formats&1 != 0, lastResult: formats&2 != 0, biased: i == 1})
		}
	}
}

func (o *oneTap) String() string {
	return fmt.Sprint(o.id, " of ", o.d, ", last ", o.lastImage, o.lastResult, ", biased ", o.biased)
}

// Without stride and padding they are products, of which those of half types are for tensor cores; only the sum over the places of several images
// is none with the places last.
func TestConv2D_OfOneTapIsAProduct(t *testing.T) {
	dev, r := onPTX(t)
	r.Set("counts", "1")
	products := func() (n int) {
		for _, line := range r.Counts() {
			if strings.HasPrefix(line, "matmul_") && !strings.HasPrefix(line, "matmul_join") {
				var launches int
				for _, f := range strings.Fields(line) {
					fmt.Sscanf(f, "launches=%d", &launches)
				}
				n += launches
			}
		}
		return n
	}
	for _, d := range []dtype.DType{dtype.Float16, dtype.BFloat16} {
		oneTaps(d, func(o *oneTap) {
			t.Run(o.String(), func(t *testing.T) {
				before := products()
				o.run(t, dev)
				want := 1
				if o.id == op.Conv2DGradWeight && !(o.lastImage && o.lastResult) {
					want = 0
				}
				require.Equal(t, want, products()-before)
			})
		})
	}
	// What tensor cores do not take goes another way: rows of 7 places, other types, few channels.
	for _, o := range []oneTap{
		{id: op.Conv2D, d: dtype.Float16, n: 2, channels: 24, outputs: 40, places: 14},
		{id: op.Conv2D, d: dtype.Float32, n: 2, channels: 24, outputs: 40, places: 16},
		{id: op.Conv2D, d: dtype.Float16, n: 1, channels: 8, outputs: 40, places: 16},
	} {
		before := products()
		o.run(t, dev)
		require.Equal(t, before, products(), o.String())
	}
}

// The library takes them in every type: a batch of strided products of images with the places last, and one product with the channels last.
func TestConv2D_OfOneTapByTheLibrary(t *testing.T) {
	r := withLibrary(t)
	for _, d := range []dtype.DType{dtype.Float16, dtype.Float32} {
		oneTaps(d, func(o *oneTap) {
			t.Run(o.String(), func(t *testing.T) {
				before := r.Calls()
				o.run(t, r.Devices[0])
				after := r.Calls()
				did := func(f string) int { return after[f] - before[f] }
				last := o.lastImage && o.lastResult
				switch {
				case o.id == op.Conv2DGradWeight && !last, o.biased && !last: // the library has no bias for a batch
					require.Positive(t, did("cuLaunchKernel"))
				case last:
					require.Equal(t, 1, did("cublasGemmEx")+did("cublasLtMatmul"))
					require.Zero(t, did("cuLaunchKernel"))
				default:
					require.Equal(t, 1, did("cublasGemmStridedBatchedEx"))
					require.Zero(t, did("cuLaunchKernel"))
				}
			})
		})
	}
}
