package cpu

import "github.com/cistern-ml/cistern/device"

// A convolution as a product of matrices that are never formed ("implicit GEMM"): the product is that of gemm.go, but its panels are
// packed straight from the image (convpack.go). For the result and for the gradient of the image
//
//	dst[output, place] = bias[output] + sum over (channel, tap) of kernel[output, (channel, tap)] * image[(channel, tap), place]
//
// where places are those of all images. For the gradient of the kernel the sum is over places:
//
//	dst[output, (channel, tap)] = sum over places of gradient[output, place] * image[(channel, tap), place]
//
// The memory taken is that of packed panels, blockM*blockK and blockN*blockK elements, whatever the size of the images.

// taps is the kernel as a matrix: rows are dst's channels, steps are (channel, tap).
type taps struct {
	ptr                        device.Ptr
	row, channel, down, across int // distances in elements
}

// convGemm is one convolution's product in work.
type convGemm[T float] struct {
	gemm[T]
	overPlaces bool // the sum is over places: the gradient of the kernel
	image      patch[T]
	kernels    taps     // unless overPlaces
	turned     *turning // the kernels packed for all phases of a gradient, or nil
	pair       phasePair
	gradient   patch[T] // if overPlaces
	bias       []T      // of m elements, or nil
}

func newConvGemm[T float](l accessor[T]) *convGemm[T] {
	g := &convGemm[T]{gemm: gemm[T]{access: l, all: matMulKernelsOf[T](), alpha: 1, fine: true}}
	g.operands = g
	return g
}

func (g *convGemm[T]) begins() bool { return g.bias != nil }

func (g *convGemm[T]) begin(dst []T, row, _ int) {
	var v T
	if g.bias != nil {
		v = g.bias[g.i+row]
	}
	fillSlice(dst, v)
}
