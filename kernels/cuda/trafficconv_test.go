package cuda_test

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// convolutions are works of convolutions on tensor cores, with the copies that turn their operands, whose bytes are moved too.
func (b *bench) convolutions() []work {
	const side = 32
	of := func(images, channels, kernel int, dt tensor.DType, mma float64) work {
		image, weights := b.of(dt, images, channels, side, side), b.of(dt, channels, channels, kernel, kernel)
		return work{
			name:  fmt.Sprintf("convolution of %d by %d, %d channels, %d images, %s", kernel, kernel, channels, images, dt),
			bytes: 2 * (2*images*channels*side*side + channels*channels*kernel*kernel),
			run: once(func() (*tensor.Tensor, error) {
				return tensor.Conv2d(image, weights, nil, tensor.Conv{Padding: []int{kernel / 2}})
			}), again: 1000, scatter: 1.6, mma: mma,
		}
	}
	last := of(4, 256, 1, tensor.BFloat16, 6)
	last.name = "convolution of 1 by 1 with a bias, 256 channels, 4 images with channels last, bfloat16"
	image, weights, bias := b.of(tensor.BFloat16, 4, side, side, 256), b.of(tensor.BFloat16, 256, 256, 1, 1), b.of(tensor.BFloat16, 256)
	turned := b.keep(b.keep(image.Transpose(2, 3)).Transpose(1, 2))
	last.run = once(func() (*tensor.Tensor, error) { return tensor.Conv2d(turned, weights, bias, tensor.Conv{}) })
	return []work{
		of(32, 64, 3, tensor.Float16, 6), of(16, 128, 3, tensor.BFloat16, 6), of(16, 256, 1, tensor.Float16, 6), last,
	}
}
