package tensor

import (
	"math"

	"github.com/cistern-ml/cistern/internal/plural"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Conv are the arguments of convolutions. Of Stride, Padding and Dilation each is one number for all dimensions, or one for each;
// nil stands for 1, 0 and 1.
type Conv struct {
	Stride, Padding, Dilation []int
	Same                      bool // pad so that the result has the image's size (padding="same"); the stride must be 1
	Groups                    int  // 0 is 1
}

// ConvTranspose are the arguments of transposed convolutions, as those of Conv. OutputPadding is added to one side of the result,
// and must be less than the stride or the dilation; nil stands for 0.
type ConvTranspose struct {
	Stride, Padding, OutputPadding, Dilation []int
	Groups                                   int // 0 is 1
}

// convolution is a convolution of two dimensions: those of one have rows of one element.
type convolution struct {
	dims                      int
	stride, padding, dilation [2]int
	groups                    int
}

// resolve checks the arguments of a convolution of kernels w, [.., .., k, ...].
func (c Conv) resolve(name string, w *Tensor) (convolution, error) {
	v := convolution{dims: w.NDim() - 2, groups: max(1, c.Groups)}
	var err error
	if c.Groups < 0 {
		return v, valueErr(name, "%d groups", c.Groups)
	}
	if v.stride, err = numbersOf(name, "stride", c.Stride, v.dims, 1, 1); err != nil {
		return v, err
	}
	if v.padding, err = numbersOf(name, "padding", c.Padding, v.dims, 0, 0); err != nil {
		return v, err
	}
	if v.dilation, err = numbersOf(name, "dilation", c.Dilation, v.dims, 1, 1); err != nil {
		return v, err
	}
	if !c.Same {
		return v, nil
	}
	if v.stride != [2]int{1, 1} || c.Padding != nil {
		return v, valueErr(name, "stride %v and padding %v, with the same size asked for", c.Stride, c.Padding)
	}
	for d := range 2 {
		v.padding[d] = v.dilation[d] * (v.kernel(w, d) - 1) / 2
	}
	return v, nil
}

// kernel is the size of kernels along dimension d of two.
func (v *convolution) kernel(w *Tensor, d int) int {
	if v.dims == 1 && d == 0 {
		return 1
	}
	return w.layout.shape[2+d-(2-v.dims)]
}

// numbersOf gives an argument of an operation on images of so many dimensions to rows and columns.
func numbersOf(name, what string, list []int, dims, least, missing int) ([2]int, error) {
	v := [2]int{missing, missing}
	if len(list) > 1 && len(list) != dims {
		return v, valueErr(name, "%s %v for %s", what, list, plural.Of(dims, "dimension"))
	}
	for d := 2 - dims; d < 2 && len(list) > 0; d++ {
		v[d] = list[min(d-(2-dims), len(list)-1)]
		if v[d] < least {
			return v, valueErr(name, "%s %v, at least %d is needed", what, list, least)
		}
		if v[d] > math.MaxInt32 { // sums and products of such numbers stay below an int
			return v, valueErr(name, "%s %v, at most %d is possible", what, list, math.MaxInt32)
		}
	}
	return v, nil
}

// image is the layout of t as [N, C, H, W]: without a batch N is 1, with one dimension H is 1.
func (t *Tensor) image(dims int) layout {
	l := t.layout
	if l.ndim == dims+1 {
		l.insert(0, 1, 0)
	}
	if dims == 1 {
		l.insert(2, 1, 0)
	}
	return l
}

// imageShape is the shape of an operation's result with other channels, rows and columns than t.
func (t *Tensor) imageShape(dims, channels int, size [2]int) Shape {
	shape := t.Shape()[:t.NDim()-dims-1].Clone()
	return append(append(shape, channels), size[2-dims:]...)
}

// Conv1d is the convolution (torch's: no kernel is flipped) of x, [N, C, L] or [C, L], with w, [O, C/Groups, K], plus bias, [O]
// or nil: [N, O, OL] or [O, OL], where OL = (L + 2*padding - dilation*(K-1) - 1)/stride + 1. All operands have one
// floating-point type. It runs under x's Exec. The result of Conv2d has its channels last if x has them there, or w.
func Conv1d(x, w, bias *Tensor, c Conv) (*Tensor, error) { return convolve("Conv1d", 1, x, w, bias, c) }

// Conv2d is Conv1d for images: x is [N, C, H, W] or [C, H, W], w is [O, C/Groups, KH, KW].
func Conv2d(x, w, bias *Tensor, c Conv) (*Tensor, error) { return convolve("Conv2d", 2, x, w, bias, c) }

func convolve(name string, dims int, x, w, bias *Tensor, c Conv) (*Tensor, error) {
	if err := checkConv(name, dims, x, w, bias); err != nil {
		return nil, err
	}
	v, err := c.resolve(name, w)
	if err != nil {
		return nil, err
	}
	image, shapes := x.image(dims), []Shape{x.Shape(), w.Shape()}
	outputs := w.Dim(0)
	if err := v.checkChannels(name, shapes, image.shape[1], w.Dim(1)*v.groups, outputs); err != nil {
		return nil, err
	}
	if bias != nil && (bias.NDim() != 1 || bias.Dim(0) != outputs) {
		return nil, shapeErr(name, append(shapes, bias.Shape()), "the bias has one element for each of %d outputs", outputs)
	}
	var size [2]int
	for d := range 2 {
		reach := v.dilation[d] * (v.kernel(w, d) - 1)
		room := image.shape[2+d] + 2*v.padding[d] - reach - 1
		if c.Same {
			room = image.shape[2+d] - 1
		}
		if room < 0 {
			return nil, shapeErr(name, shapes, "the kernel is larger than the padded image")
		}
		size[d] = room/v.stride[d] + 1
	}
	return v.run(name, op.Conv2D, x.imageShape(dims, outputs, size), formatOf(x, w), x, w, bias)
}

// formatOf gives results the format of an image or, if that has none with the channels last, of the kernels: as PyTorch does for cuDNN.
func formatOf(x, w *Tensor) gradients {
	if f := x.layout.format(); f != ContiguousFormat {
		return gradients{f}
	}
	return gradients{w.layout.format()}
}

// checkChannels refuses an image of other channels than kernels take, and channels that cannot be cut into groups.
func (v *convolution) checkChannels(name string, shapes []Shape, have, want, cut int) error {
	switch {
	case have != want && v.groups > 1:
		return shapeErr(name, shapes, "the image has %d channels, kernels of shape %v in %d groups take %d", have, shapes[1], v.groups, want)
	case have != want:
		return shapeErr(name, shapes, "the image has %d channels, kernels of shape %v take %d", have, shapes[1], want)
	case cut%v.groups != 0:
		return shapeErr(name, shapes, "%d channels cannot be cut into %d equal groups", cut, v.groups)
	}
	return nil
}

// imageShapes writes the shapes of images.
func imageShapes(dims int) string {
	if dims == 1 {
		return "[N, C, L] or [C, L]"
	}
	return "[N, C, H, W] or [C, H, W]"
}

// checkConv refuses operands of the wrong types or numbers of dimensions. w has no dimension of 0.
func checkConv(name string, dims int, x, w, bias *Tensor) error {
	operands := [3]*Tensor{x, w, bias}
	used := operands[:2]
	if bias != nil {
		used = operands[:]
	}
	if err := sameFloat(name, used...); err != nil {
		return err
	}
	if n := x.NDim(); n != dims+1 && n != dims+2 {
		return shapeErr(name, shapesOf(used), "the image has %s; want %s", counted(n, "dimension"), imageShapes(dims))
	}
	if w.NDim() != dims+2 || w.Len() == 0 {
		return shapeErr(name, shapesOf(used), "kernels of shape %v; want %d dimensions, none of 0", w.Shape(), dims+2)
	}
	return nil
}

// run launches an operation on a and b, images or kernels, and perhaps a bias. Kernels are what is not an image.
func (v *convolution) run(name string, id op.ID, shape Shape, in gradients, a, b, bias *Tensor) (*Tensor, error) {
	l, err := in.layout(name, shape)
	if err != nil {
		return nil, err
	}
	r, err := allocAs(name, a.exec, a.dtype, &l)
	if err != nil || r.Len() == 0 {
		return r, err
	}
	c := begin(id, a.exec)
	for d := range 2 {
		c.call.I[d], c.call.I[2+d], c.call.I[4+d] = int64(v.stride[d]), int64(v.padding[d]), int64(v.dilation[d])
	}
	c.call.I[6] = int64(v.groups)
	out, left, right := r.image(v.dims), a.image(v.dims), b.image(v.dims)
	c.out(r, &out)
	c.in(a, &left)
	c.in(b, &right)
	if bias != nil {
		c.in(bias, &bias.layout)
	}
	if err := c.run(name); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// ConvInput is the gradient of Conv1d or Conv2d with respect to x, of shape input, for the gradient grad of its result
// (torch.nn.grad.conv2d_input).
func (in gradients) ConvInput(grad, w *Tensor, input Shape, c Conv) (*Tensor, error) {
	const name = "ConvGradInput"
	v, err := c.gradient(name, grad, w)
	if err != nil {
		return nil, err
	}
	if !v.fits(w.Shape(), input, grad.Shape()) {
		return nil, shapeErr(name, []Shape{grad.Shape(), w.Shape(), input}, "gradient, kernels and input do not belong together")
	}
	return v.run(name, op.Conv2DGradInput, input, in, grad, w, nil)
}

// ConvWeight is the gradient of Conv1d or Conv2d with respect to w, of shape weight, for the gradient grad of its result
// (torch.nn.grad.conv2d_weight).
func (in gradients) ConvWeight(grad, x *Tensor, weight Shape, c Conv) (*Tensor, error) {
	const name = "ConvGradWeight"
	return in.gradWeight(name, grad, x, weight, c, false)
}

// gradient checks the operands of a gradient that has kernels among them.
func (c Conv) gradient(name string, t, w *Tensor) (convolution, error) {
	if err := sameFloat(name, t, w); err != nil {
		return convolution{}, err
	}
	if err := checkConv(name, max(1, min(2, w.NDim()-2)), t, w, nil); err != nil {
		return convolution{}, err
	}
	return c.resolve(name, w)
}

// gradWeight runs Conv2DGradWeight: the result's side of the convolution is the gradient, or x if the convolution is transposed.
func (in gradients) gradWeight(name string, grad, x *Tensor, weight Shape, c Conv, transposed bool) (*Tensor, error) {
	if err := sameFloat(name, grad, x); err != nil {
		return nil, err
	}
	result, image := grad, x
	if transposed {
		result, image = x, grad
	}
	kernel, err := newLayout(name, weight)
	if err != nil {
		return nil, err
	}
	shapes := []Shape{grad.Shape(), x.Shape(), weight}
	if n := len(weight); n != 3 && n != 4 || image.NDim() != result.NDim() || image.NDim() != n && image.NDim() != n-1 || weight.Len() == 0 {
		return nil, shapeErr(name, shapes, "images are [N, C, ...] or [C, ...], kernels [O, C/groups, ...], not empty")
	}
	v, err := c.resolve(name, &Tensor{layout: kernel})
	if err != nil {
		return nil, err
	}
	if !v.fits(weight, image.Shape(), result.Shape()) {
		return nil, shapeErr(name, shapes, "gradient, input and kernels do not belong together")
	}
	return v.run(name, op.Conv2DGradWeight, weight, in, result, image, nil)
}

// fits reports whether kernels of shape w can make result of image. How much padding is on the far side is what the sizes say.
func (v *convolution) fits(w, image, result Shape) bool {
	n := len(image) - v.dims - 1
	if len(image) != len(result) || n < 0 || n > 1 || image[n] != w[1]*v.groups || result[n] != w[0] || w[0]%v.groups != 0 {
		return false
	}
	for _, d := range append(image[n+1:].Clone(), result[n:]...) {
		if d < 1 {
			return false
		}
	}
	return n == 0 || image[0] == result[0] && image[0] >= 0
}
