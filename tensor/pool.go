package tensor

import (
	"github.com/cistern-ml/cistern/internal/plural"
	"github.com/cistern-ml/cistern/kernels/op"
)

// begin starts the call.
func (v *pooling) begin(id op.ID, e Exec) *launch {
	c := begin(id, e)
	if v.adaptive {
		return c
	}
	for d := range 2 {
		c.call.I[d], c.call.I[2+d], c.call.I[4+d], c.call.I[6+d] = int64(v.kernel[d]), int64(v.stride[d]), int64(v.padding[d]), v.last[d]
	}
	return c
}

// MaxPool1d is the largest element of each window of t, [N, C, L] or [C, L]; NaN wins. from says for each which element of its
// window it is, for the gradient: as uint8, or as int32 if windows have more than 256 elements. Floating-point types.
func (t *Tensor) MaxPool1d(p Pool) (out, from *Tensor, err error) {
	return maxPool("MaxPool1d", 1, t, p)
}

// MaxPool2d is MaxPool1d for images, [N, C, H, W] or [C, H, W]; from counts through the rows of the window.
func (t *Tensor) MaxPool2d(p Pool) (out, from *Tensor, err error) {
	return maxPool("MaxPool2d", 2, t, p)
}

func maxPool(name string, dims int, t *Tensor, p Pool) (out, from *Tensor, err error) {
	v, image, err := prepare(name, dims, t, p, false)
	if err != nil {
		return nil, nil, err
	}
	l, err := gradients{t.layout.format()}.layout(name, t.imageShape(dims, image.shape[1], v.result))
	if err != nil {
		return nil, nil, err
	}
	if out, err = allocAs(name, t.exec, t.dtype, &l); err != nil {
		return nil, nil, err
	}
	if from, err = allocAs(name, t.exec, v.numbers(), &l); err != nil {
		out.Release()
		return nil, nil, err
	}
	if out.Len() == 0 {
		return out, from, nil
	}
	c := v.begin(op.MaxPool2D, t.exec)
	to, numbers := out.image(dims), from.image(dims)
	c.out(out, &to)
	c.out(from, &numbers)
	c.in(t, &image)
	if err := c.run(name); err != nil {
		out.Release()
		from.Release()
		return nil, nil, err
	}
	return out, from, nil
}

// prepare checks an image and the arguments.
func prepare(name string, dims int, t *Tensor, p Pool, average bool) (pooling, layout, error) {
	if err := sameFloat(name, t); err != nil {
		return pooling{}, layout{}, err
	}
	if err := checkImage(name, dims, t); err != nil {
		return pooling{}, layout{}, err
	}
	image := t.image(dims)
	v, err := p.resolve(name, dims, &image, average)
	return v, image, err
}

// checkImage refuses what is no image of so many dimensions, or an empty one.
func checkImage(name string, dims int, t *Tensor) error {
	if dims != 1 && dims != 2 {
		return valueErr(name, "%s", plural.Of(dims, "dimension"))
	}
	if n := t.NDim(); n != dims+1 && n != dims+2 {
		return shapeErr(name, []Shape{t.Shape()}, "the image has %s; want %s", counted(n, "dimension"), imageShapes(dims))
	}
	for _, d := range t.Shape()[t.NDim()-dims-1:] {
		if d == 0 {
			return shapeErr(name, []Shape{t.Shape()}, "only the batch may be empty")
		}
	}
	return nil
}

// AvgPool1d is the average of each window of t, [N, C, L] or [C, L]. Floating-point types.
func (t *Tensor) AvgPool1d(p Pool) (*Tensor, error) { return avgPool("AvgPool1d", 1, t, p) }

// AvgPool2d is the average of each window of t, [N, C, H, W] or [C, H, W]. Floating-point types.
func (t *Tensor) AvgPool2d(p Pool) (*Tensor, error) { return avgPool("AvgPool2d", 2, t, p) }

func avgPool(name string, dims int, t *Tensor, p Pool) (*Tensor, error) {
	v, image, err := prepare(name, dims, t, p, true)
	if err != nil {
		return nil, err
	}
	return v.run(name, op.AvgPool2D, t.imageShape(dims, image.shape[1], v.result), gradients{t.layout.format()}, t, nil)
}

// run launches an operation on t, and perhaps numbers.
func (v *pooling) run(name string, id op.ID, shape Shape, to gradients, t, numbers *Tensor) (*Tensor, error) {
	l, err := to.layout(name, shape)
	if err != nil {
		return nil, err
	}
	r, err := allocAs(name, t.exec, t.dtype, &l)
	if err != nil || r.Len() == 0 {
		return r, err
	}
	c := v.begin(id, t.exec)
	out, in := r.image(v.dims), t.image(v.dims)
	c.out(r, &out)
	c.in(t, &in)
	if numbers != nil {
		in = numbers.image(v.dims)
		c.in(numbers, &in)
	}
	if err := c.run(name); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// MaxPool is the gradient of MaxPool1d or MaxPool2d (dims 1 or 2) of a tensor of shape input, for the gradient grad of its
// result and the numbers from that it returned.
func (to gradients) MaxPool(grad, from *Tensor, input Shape, dims int, p Pool) (*Tensor, error) {
	const name = "MaxPoolGrad"
	if err := together(name, grad, from); err != nil {
		return nil, err
	}
	v, err := poolGradient(name, grad, input, dims, p, false)
	if err != nil {
		return nil, err
	}
	if from.dtype != v.numbers() {
		return nil, dtypeErr(name, "the numbers are not those of MaxPool", grad.dtype, from.dtype)
	}
	if !from.Shape().Equal(grad.Shape()) {
		return nil, shapeErr(name, []Shape{grad.Shape(), from.Shape()}, "the gradient and the numbers have one shape")
	}
	return v.run(name, op.MaxPool2DGrad, input, to, grad, from)
}

// AvgPool is the gradient of AvgPool1d or AvgPool2d (dims 1 or 2) of a tensor of shape input, for the gradient grad of its
// result.
func (to gradients) AvgPool(grad *Tensor, input Shape, dims int, p Pool) (*Tensor, error) {
	const name = "AvgPoolGrad"
	v, err := poolGradient(name, grad, input, dims, p, true)
	if err != nil {
		return nil, err
	}
	return v.run(name, op.AvgPool2DGrad, input, to, grad, nil)
}

// poolGradient checks the operands of a gradient of pooling.
func poolGradient(name string, grad *Tensor, input Shape, dims int, p Pool, average bool) (pooling, error) {
	if err := sameFloat(name, grad); err != nil {
		return pooling{}, err
	}
	l, err := newLayout(name, input)
	if err != nil {
		return pooling{}, err
	}
	t := &Tensor{layout: l}
	if err := checkImage(name, dims, t); err != nil {
		return pooling{}, err
	}
	image := t.image(dims)
	v, err := p.resolve(name, dims, &image, average)
	if err == nil && !grad.Shape().Equal(t.imageShape(dims, image.shape[1], v.result)) {
		err = shapeErr(name, []Shape{grad.Shape(), input}, "the gradient does not belong to the input")
	}
	return v, err
}

// AdaptiveMaxPool1d is MaxPool1d with windows such that the result has a given size.
func (t *Tensor) AdaptiveMaxPool1d(size int) (out, from *Tensor, err error) {
	return maxPool("AdaptiveMaxPool1d", 1, t, Adaptive(size))
}

// AdaptiveMaxPool2d is MaxPool2d with windows such that the result has a given size: one number, or one for rows and one for
// columns.
func (t *Tensor) AdaptiveMaxPool2d(size ...int) (out, from *Tensor, err error) {
	return maxPool("AdaptiveMaxPool2d", 2, t, Adaptive(size...))
}

// AdaptiveAvgPool1d is AvgPool1d with windows such that the result has a given size.
func (t *Tensor) AdaptiveAvgPool1d(size int) (*Tensor, error) {
	return avgPool("AdaptiveAvgPool1d", 1, t, Adaptive(size))
}

// AdaptiveAvgPool2d is AvgPool2d with windows such that the result has a given size: one number, or one for rows and one for
// columns.
func (t *Tensor) AdaptiveAvgPool2d(size ...int) (*Tensor, error) {
	return avgPool("AdaptiveAvgPool2d", 2, t, Adaptive(size...))
}
