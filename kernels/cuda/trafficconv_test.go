package cuda_test

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// convWork is a convolution of as many channels as results on tensor cores.
type convWork struct {
	images, channels, side, kernel, stride, groups int
	dt                                             tensor.DType
	mma                                            float64 // instructions for each mma that it may take
}

func (w *convWork) String() string {
	s := fmt.Sprintf("convolution of %d by %d", w.kernel, w.kernel)
	if w.stride > 1 {
		s += fmt.Sprintf(", stride %d", w.stride)
	}
	if w.groups > 1 {
		s += fmt.Sprintf(", %d groups", w.groups)
	}
	return s + fmt.Sprintf(", %d channels, %d images of %d by %d, %s", w.channels, w.images, w.side, w.side, w.dt)
}

func (w *convWork) conv() tensor.Conv {
	return tensor.Conv{Stride: []int{w.stride}, Padding: []int{w.kernel / 2}, Groups: w.groups}
}

// part is the beginning of one of two tensors of each type, which all these works share: together theirs would be more than the device has.
func (b *bench) part(dt tensor.DType, which int, shape ...int) *tensor.Tensor {
	key := fmt.Sprint(dt, which)
	if b.whole[key] == nil {
		b.whole[key] = b.of(dt, 4<<20)
	}
	n := tensor.Shape(shape).Len()
	return b.keep(b.keep(b.whole[key].Narrow(0, 0, n)).Reshape(shape...))
}

// work is the product itself, or the gradient of its kernel. Operands that the call turns are moved more than once.
func (w *convWork) work(b *bench, gradient bool) work {
	size := (w.side-1)/w.stride + 1
	shape := []int{w.channels, w.channels / w.groups, w.kernel, w.kernel}
	image, weights := b.part(w.dt, 0, w.images, w.channels, w.side, w.side), b.part(w.dt, 0, shape...)
	result := b.part(w.dt, 1, w.images, w.channels, size, size)
	made := work{name: w.String(), bytes: 2 * (image.Len() + weights.Len() + result.Len()), again: 1000, scatter: 1.8, mma: w.mma}
	if gradient {
		made.name = "kernel's gradient, " + made.name
		made.run = once(func() (*tensor.Tensor, error) { return gradients.ConvWeight(result, image, shape, w.conv()) })
		return made
	}
	made.run = once(func() (*tensor.Tensor, error) { return tensor.Conv2d(image, weights, nil, w.conv()) })
	return made
}

// convolutions are works of convolutions on tensor cores, with the copies that turn their operands, whose bytes are moved too.
func (b *bench) convolutions() []work {
	f16, bf16 := tensor.Float16, tensor.BFloat16
	var works []work
	for _, w := range []convWork{
		{32, 64, 32, 3, 1, 1, f16, 6},
		{16, 128, 32, 3, 1, 1, bf16, 6},
		{16, 256, 32, 1, 1, 1, f16, 6},
		{64, 512, 7, 1, 1, 1, f16, 6},
		{16, 256, 14, 1, 1, 1, f16, 8},
		{16, 128, 16, 3, 1, 2, f16, 6},
		{32, 72, 16, 3, 1, 1, f16, 6},
	} {
		works = append(works, w.work(b, false))
	}
	for _, w := range []convWork{
		{32, 64, 32, 3, 1, 1, f16, 6},
		{16, 128, 32, 3, 2, 1, bf16, 6},
		{32, 128, 14, 3, 1, 1, bf16, 6},
		{16, 256, 32, 1, 1, 1, f16, 6},
		{16, 256, 14, 1, 1, 1, f16, 8},
		{64, 512, 7, 1, 1, 1, f16, 6},
		{16, 128, 16, 3, 1, 2, f16, 6},
		{32, 72, 16, 3, 1, 1, f16, 6},
	} {
		works = append(works, w.work(b, true))
	}
	const side = 32
	image, weights, bias := b.of(bf16, 4, side, side, 256), b.of(bf16, 256, 256, 1, 1), b.of(bf16, 256)
	turned := b.keep(b.keep(image.Transpose(2, 3)).Transpose(1, 2))
	return append(works, work{
		name:  "convolution of 1 by 1 with a bias, 256 channels, 4 images with channels last, bfloat16",
		bytes: 2 * (2*image.Len() + weights.Len()), again: 1000, scatter: 1.6, mma: 6.5, // the result has its channels last too, and the bias is read along rows
		run: once(func() (*tensor.Tensor, error) { return tensor.Conv2d(turned, weights, bias, tensor.Conv{}) }),
	})
}
