package tensor

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Transposed convolutions are the gradients of convolutions with respect to the image, and the other way round: w is that of a
// convolution whose image is the result here, [C, O/Groups, K, ...].

// conv is the convolution that c transposes.
func (c ConvTranspose) conv() Conv {
	return Conv{Stride: c.Stride, Padding: c.Padding, Dilation: c.Dilation, Groups: c.Groups}
}

// ConvTranspose1d is the transposed convolution of x, [N, C, L] or [C, L], with w, [C, O/Groups, K], plus bias, [O] or nil:
// [N, O, OL] or [O, OL], where OL = (L-1)*stride - 2*padding + dilation*(K-1) + outputPadding + 1. All operands have one
// floating-point type. It runs under x's Exec.
func ConvTranspose1d(x, w, bias *Tensor, c ConvTranspose) (*Tensor, error) {
	return convolveTransposed("ConvTranspose1d", 1, x, w, bias, c)
}

// ConvTranspose2d is ConvTranspose1d for images: x is [N, C, H, W] or [C, H, W], w is [C, O/Groups, KH, KW].
func ConvTranspose2d(x, w, bias *Tensor, c ConvTranspose) (*Tensor, error) {
	return convolveTransposed("ConvTranspose2d", 2, x, w, bias, c)
}

func convolveTransposed(name string, dims int, x, w, bias *Tensor, c ConvTranspose) (*Tensor, error) {
	if err := checkConv(name, dims, x, w, bias); err != nil {
		return nil, err
	}
	v, err := c.conv().resolve(name, w)
	if err != nil {
		return nil, err
	}
	more, err := numbersOf(name, "output padding", c.OutputPadding, dims, 0, 0)
	if err != nil {
		return nil, err
	}
	image, shapes, outputs := x.image(dims), []Shape{x.Shape(), w.Shape()}, w.Dim(1)*v.groups
	if err := v.checkChannels(name, shapes, image.shape[1], w.Dim(0), w.Dim(0)); err != nil {
		return nil, err
	}
	if bias != nil && (bias.NDim() != 1 || bias.Dim(0) != outputs) {
		return nil, shapeErr(name, append(shapes, bias.Shape()), "the bias has one element for each of %d outputs", outputs)
	}
	var size [2]int
	for d := range 2 {
		if more[d] >= max(v.stride[d], v.dilation[d]) {
			return nil, valueErr(name, "output padding %v must be less than the stride or the dilation", c.OutputPadding)
		}
		if image.shape[2+d] > math.MaxInt32 {
			return nil, shapeErr(name, shapes, "an image of %d rows or columns; at most %d are possible", image.shape[2+d], math.MaxInt32)
		}
		size[d] = (image.shape[2+d]-1)*v.stride[d] - 2*v.padding[d] + v.dilation[d]*(v.kernel(w, d)-1) + more[d] + 1
		if size[d] < 1 || image.shape[2+d] < 1 {
			return nil, shapeErr(name, shapes, "the result would have %v rows and columns", size)
		}
	}
	return v.run(name, op.Conv2DGradInput, x.imageShape(dims, outputs, size), formatOf(x, w), x, w, bias)
}

// ConvTransposeInput is the gradient of ConvTranspose1d or ConvTranspose2d with respect to x, of shape input, for the gradient
// grad of its result.
func (in gradients) ConvTransposeInput(grad, w *Tensor, input Shape, c ConvTranspose) (*Tensor, error) {
	const name = "ConvTransposeGradInput"
	v, err := c.conv().gradient(name, grad, w)
	if err != nil {
		return nil, err
	}
	if !v.fits(w.Shape(), grad.Shape(), input) {
		return nil, shapeErr(name, []Shape{grad.Shape(), w.Shape(), input}, "gradient, kernels and input do not belong together")
	}
	return v.run(name, op.Conv2D, input, in, grad, w, nil)
}

// ConvTransposeWeight is the gradient of ConvTranspose1d or ConvTranspose2d with respect to w, of shape weight, for the
// gradient grad of its result.
func (in gradients) ConvTransposeWeight(grad, x *Tensor, weight Shape, c ConvTranspose) (*Tensor, error) {
	const name = "ConvTransposeGradWeight"
	return in.gradWeight(name, grad, x, weight, c.conv(), true)
}
