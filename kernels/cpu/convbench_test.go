package cpu_test

import (
	"fmt"
	"testing"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// BenchmarkConv2D has layers of ResNet-50 and MobileNet, with 8 images: forward, and both gradients.
func BenchmarkConv2D(b *testing.B) {
	for _, s := range []struct{ c, size, o, k, stride, groups int }{
		{256, 8, 512, 3, 2, 1}, {32, 28, 64, 5, 1, 1}, {512, 4, 512, 3, 1, 1}, {64, 32, 128, 3, 2, 1}, {64, 56, 64, 3, 1, 1}, {256, 14, 256, 3, 1, 1}, {512, 7, 512, 3, 1, 1}, {256, 56, 64, 1, 1, 1},
		{128, 56, 128, 3, 2, 1}, {3, 224, 64, 7, 2, 1}, {144, 56, 144, 3, 1, 144}, {144, 56, 144, 3, 2, 144},
	} {
		for _, id := range []op.ID{op.Conv2D, op.Conv2DGradInput, op.Conv2DGradWeight} {
			b.Run(fmt.Sprintf("%s/%dx%dx%d,%d,%dx%d,s%d,g%d", id, s.c, s.size, s.size, s.o, s.k, s.k, s.stride, s.groups), func(b *testing.B) {
				r := newBench(b, dtype.Float32)
				out := (s.size-1)/s.stride + 1
				image, result, kernel := r.view(8, s.c, s.size, s.size), r.view(8, s.o, out, out), r.view(s.o, s.c/s.groups, s.k, s.k)
				c := op.Call{Op: id, I: [8]int64{int64(s.stride), int64(s.stride), int64(s.k / 2), int64(s.k / 2), 1, 1, int64(s.groups)}}
				switch id {
				case op.Conv2D:
					c.Out, c.In = []op.View{result}, []op.View{image, kernel}
				case op.Conv2DGradInput:
					c.Out, c.In = []op.View{image}, []op.View{result, kernel}
				default:
					c.Out, c.In = []op.View{kernel}, []op.View{result, image}
				}
				r.run(&c)
				flops := 2 * float64(result.Len()) * float64(s.c/s.groups*s.k*s.k)
				b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// BenchmarkPlanes has pooling and resampling as in ResNet-50 and in segmentation, of 8 images.
func BenchmarkPlanes(b *testing.B) {
	for _, id := range []op.ID{
		op.MaxPool2D, op.MaxPool2DGrad, op.AvgPool2D, op.AvgPool2DGrad,
		op.UpsampleNearest2D, op.UpsampleNearest2DGrad, op.UpsampleBilinear2D, op.UpsampleBilinear2DGrad,
	} {
		b.Run(id.String(), func(b *testing.B) {
			r := newBench(b, dtype.Float32)
			large, small := r.view(8, 64, 112, 112), r.view(8, 64, 56, 56)
			c := op.Call{Op: id, Out: []op.View{small}, In: []op.View{large}, I: [8]int64{3, 3, 2, 2, 1, 1, 1, 1}}
			r.d = dtype.Uint8
			numbers := r.view(8, 64, 56, 56)
			switch id {
			case op.MaxPool2D:
				c.Out = append(c.Out, numbers)
			case op.MaxPool2DGrad:
				c.Out, c.In = []op.View{large}, []op.View{small, numbers}
			case op.AvgPool2D, op.AvgPool2DGrad:
				c.I[7] = 0
			default:
				c.I, c.F = [8]int64{}, [8]float64{0.5, 0.5}
			}
			switch id {
			case op.AvgPool2DGrad, op.UpsampleNearest2D, op.UpsampleBilinear2D:
				c.Out, c.In = c.In, c.Out
			}
			r.run(&c)
		})
	}
}
