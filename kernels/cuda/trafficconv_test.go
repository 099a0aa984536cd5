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

// biasedWork is a convolution with a bias, forward, whose image, kernel and result lie in the same memory format: with the channels last nothing is copied.
type biasedWork struct {
	convWork
	last bool
}

func (w *biasedWork) work(b *bench) work {
	image, weights := b.part(w.dt, 0, w.images, w.channels, w.side, w.side), b.part(w.dt, 1, w.channels, w.channels, w.kernel, w.kernel)
	bias, format := b.part(w.dt, 1, w.channels), ""
	if w.last {
		image, weights, format = b.channelsLast(image), b.channelsLast(weights), ", channels last"
	}
	return work{
		name:  "with a bias" + format + ", " + w.String(),
		bytes: 2 * (2*image.Len() + weights.Len() + bias.Len()), again: 1000, scatter: 2, mma: w.mma,
		run: once(func() (*tensor.Tensor, error) { return tensor.Conv2d(image, weights, bias, w.conv()) }),
	}
}

// narrowWork is a convolution of one tap with 64 channels on one side, forward with a bias, and the gradient of its image.
type narrowWork struct {
	images, channels, results, side int
	dt                              tensor.DType
	last                            bool
	mma, gradientMMA                float64
}

func (w *narrowWork) String() string {
	s := fmt.Sprintf("convolution of 1 by 1, %d to %d channels, %d images of %d by %d, %s", w.channels, w.results, w.images, w.side, w.side, w.dt)
	if w.last {
		s = "channels last, " + s
	}
	return s
}

// tensors are image, result and weights. Those that lie with the channels last have weights that do.
func (w *narrowWork) tensors(b *bench) (image, result, weights *tensor.Tensor) {
	image, result = b.part(w.dt, 0, w.images, w.channels, w.side, w.side), b.part(w.dt, 1, w.images, w.results, w.side, w.side)
	if w.last {
		image, result = b.channelsLast(image), b.channelsLast(result)
	}
	return image, result, b.part(w.dt, 1, w.results, w.channels, 1, 1)
}

func (w *narrowWork) work(b *bench) work {
	image, result, weights := w.tensors(b)
	bias := b.part(w.dt, 1, w.results)
	return work{
		name: "with a bias, " + w.String(), bytes: 2 * (image.Len() + weights.Len() + result.Len()), again: 3, mma: w.mma,
		run: once(func() (*tensor.Tensor, error) { return tensor.Conv2d(image, weights, bias, tensor.Conv{}) }),
	}
}

func (w *narrowWork) gradient(b *bench) work {
	image, result, weights := w.tensors(b)
	format := tensor.ContiguousFormat
	if w.last {
		format = tensor.ChannelsLast
	}
	return work{
		name: "image's gradient, " + w.String(), bytes: 2 * (image.Len() + weights.Len() + result.Len()), again: 3, mma: w.gradientMMA,
		run: once(func() (*tensor.Tensor, error) {
			return gradients.In(format).ConvInput(result, weights, image.Shape(), tensor.Conv{})
		}),
	}
}

// channelsLast reads a tensor's memory as one with the channels last.
func (b *bench) channelsLast(x *tensor.Tensor) *tensor.Tensor {
	s := x.Shape()
	lies := b.keep(x.Reshape(s[0], s[2], s[3], s[1]))
	return b.keep(lies.Permute(0, 3, 1, 2))
}

// convolutions are works of convolutions on tensor cores, with the copies that turn their operands, whose bytes are moved too. Where sums
// go over 64 elements and more, each takes at most 6 instructions for an mma.
func (b *bench) convolutions() []work {
	f16, bf16 := tensor.Float16, tensor.BFloat16
	var works []work
	for _, w := range []convWork{
		{32, 64, 32, 3, 1, 1, f16, 4.8},
		{16, 128, 32, 3, 1, 1, bf16, 3.3},
		{16, 256, 32, 1, 1, 1, f16, 4.2},
		{64, 512, 7, 1, 1, 1, f16, 4.8},
		{16, 256, 14, 1, 1, 1, f16, 5.7},
		{16, 128, 16, 3, 1, 2, f16, 4.9},
		{32, 72, 16, 3, 1, 1, f16, 3.6},
	} {
		works = append(works, w.work(b, false))
	}
	for _, w := range []convWork{
		{32, 64, 32, 3, 1, 1, f16, 4.9},
		{16, 128, 32, 3, 2, 1, bf16, 4.8},
		{32, 128, 14, 3, 1, 1, bf16, 4.1},
		{16, 256, 32, 1, 1, 1, f16, 3.2},
		{16, 256, 14, 1, 1, 1, f16, 5.9},
		{64, 512, 7, 1, 1, 1, f16, 5.6},
		{16, 128, 16, 3, 1, 2, f16, 5.3},
		{32, 72, 16, 3, 1, 1, f16, 4.1},
	} {
		works = append(works, w.work(b, true))
	}
	for _, w := range []biasedWork{
		{convWork{4, 256, 32, 1, 1, 1, bf16, 4.4}, true},
		{convWork{64, 256, 14, 1, 1, 1, f16, 4.5}, true},
		{convWork{16, 256, 32, 1, 1, 1, bf16, 5}, false},
		{convWork{16, 256, 14, 1, 1, 1, f16, 5.8}, false},
		{convWork{32, 64, 32, 3, 1, 1, bf16, 4.9}, true},
		{convWork{32, 64, 32, 3, 1, 1, bf16, 4.9}, false},
	} {
		works = append(works, w.work(b))
	}
	for _, w := range []narrowWork{
		{20, 64, 64, 56, bf16, true, 5.5, 4.3},
		{32, 64, 64, 32, f16, true, 6, 4.9}, // fewer strips than there is room for on the GPU, so that a warp has a single one
		{16, 256, 64, 32, bf16, true, 3.2, 4.3},
		{16, 64, 256, 32, f16, true, 5.5, 2.9},
		{20, 64, 64, 56, f16, false, 5.5, 4.5},
		{32, 64, 64, 32, f16, false, 6, 5.2},
		{16, 256, 64, 32, bf16, false, 3.2, 4.4},
		{16, 64, 256, 32, f16, false, 5.5, 2.9},
	} {
		works = append(works, w.work(b), w.gradient(b))
	}
	return works
}
