package tensor

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Upsample are the arguments of resampling: either the size of the result or the factors of its size, one number for rows and
// columns or one for each.
type Upsample struct {
	Size         []int
	Scale        []float64
	AlignCorners bool // not of nearest neighbours: the centres of the corners of image and result are the same
	// RecomputeScale takes the distance of results from the sizes, not from Scale: they differ where a size was rounded down.
	RecomputeScale bool
}

// resampling is resampling of an image to result, whose elements are step apart in the image.
type resampling struct {
	result [2]int
	step   [2]float64
}

// resolve checks the arguments for an image of rows and columns size.
func (u Upsample) resolve(name string, size [2]int) (resampling, error) {
	var v resampling
	if (len(u.Size) == 0) == (len(u.Scale) == 0) || len(u.Size) > 2 || len(u.Scale) > 2 {
		return v, valueErr(name, "size %v and scale %v, one of them is needed", u.Size, u.Scale)
	}
	for d := range 2 {
		in, step := float64(size[d]), 0.0
		if len(u.Size) > 0 {
			v.result[d] = u.Size[min(d, len(u.Size)-1)]
		} else {
			scale := u.Scale[min(d, len(u.Scale)-1)]
			if !(scale > 0) || math.Floor(in*scale) > math.MaxInt32 {
				return v, valueErr(name, "scale %v", u.Scale)
			}
			v.result[d] = int(math.Floor(in * scale))
			step = 1 / scale
		}
		if v.result[d] < 1 {
			return v, valueErr(name, "the result would have %d rows or columns", v.result[d])
		}
		if step == 0 || u.RecomputeScale {
			step = in / float64(v.result[d])
		}
		v.step[d] = step
	}
	return v, nil
}

// nearest makes the steps those of nearest neighbours, which PyTorch computes in float32.
func (v *resampling) nearest() {
	for d, s := range v.step {
		v.step[d] = float64(float32(s))
	}
}

// bilinear makes the steps those of interpolation: a size that stays is not resampled, whatever the scale.
func (v *resampling) bilinear(size [2]int) {
	for d := range 2 {
		if v.result[d] == size[d] {
			v.step[d] = 1
		}
	}
}

// aligned makes the steps those of aligned corners.
func (v *resampling) aligned(size [2]int) {
	for d := range 2 {
		v.step[d] = 0
		if v.result[d] > 1 {
			v.step[d] = float64(size[d]-1) / float64(v.result[d]-1)
		}
	}
}

// UpsampleNearest2d takes row y of the result from row floor(y*step) of t, [N, C, H, W], at most the last, where step is H divided by the
// rows of the result, or 1/scale if scales are given; columns likewise (torch's mode "nearest"). Step and product are rounded to
// float32, as in PyTorch. So it is the element before the place, and not the nearest one (PyTorch's "nearest-exact"). Floating-point types.
func (t *Tensor) UpsampleNearest2d(u Upsample) (*Tensor, error) {
	return upsample("UpsampleNearest2d", op.UpsampleNearest2D, t, u)
}

// UpsampleBilinear2d interpolates each element of the result between the four elements of t, [N, C, H, W], around it.
// Floating-point types.
func (t *Tensor) UpsampleBilinear2d(u Upsample) (*Tensor, error) {
	return upsample("UpsampleBilinear2d", op.UpsampleBilinear2D, t, u)
}

func upsample(name string, id op.ID, t *Tensor, u Upsample) (*Tensor, error) {
	if err := sameFloat(name, t); err != nil {
		return nil, err
	}
	v, err := resample(name, id, t.Shape(), u)
	if err != nil {
		return nil, err
	}
	return v.run(name, id, Shape{t.Dim(0), t.Dim(1), v.result[0], v.result[1]}, gradients{t.layout.format()}, t, u)
}

// resample checks the arguments of an operation, or of its gradient, on images of a shape.
func resample(name string, id op.ID, shape Shape, u Upsample) (resampling, error) {
	if len(shape) != 4 || min(shape[0], shape[1]) < 0 || min(shape[2], shape[3]) < 1 {
		return resampling{}, shapeErr(name, []Shape{shape}, "images are [N, C, H, W] with rows and columns")
	}
	size := [2]int{shape[2], shape[3]}
	v, err := u.resolve(name, size)
	switch nearest := id == op.UpsampleNearest2D || id == op.UpsampleNearest2DGrad; {
	case err != nil:
	case nearest && u.AlignCorners:
		err = valueErr(name, "corners are aligned by interpolation alone")
	case nearest:
		v.nearest()
	case u.AlignCorners:
		v.aligned(size)
	default:
		v.bilinear(size)
	}
	return v, err
}

func (v *resampling) run(name string, id op.ID, shape Shape, to gradients, t *Tensor, u Upsample) (*Tensor, error) {
	l, err := to.layout(name, shape)
	if err != nil {
		return nil, err
	}
	r, err := allocAs(name, t.exec, t.dtype, &l)
	if err != nil || r.Len() == 0 {
		return r, err
	}
	c := begin(id, t.exec)
	c.call.F[0], c.call.F[1] = v.step[0], v.step[1]
	if u.AlignCorners {
		c.call.I[0] = 1
	}
	c.out(r, &r.layout)
	c.in(t, &t.layout)
	if err := c.run(name); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// UpsampleNearest2d is the gradient of Tensor.UpsampleNearest2d of a tensor of shape input, for the gradient grad of its result.
func (to gradients) UpsampleNearest2d(grad *Tensor, input Shape, u Upsample) (*Tensor, error) {
	return to.upsampleGrad("UpsampleNearest2dGrad", op.UpsampleNearest2DGrad, grad, input, u)
}

// UpsampleBilinear2d is the gradient of Tensor.UpsampleBilinear2d of a tensor of shape input, for the gradient grad of its result.
func (to gradients) UpsampleBilinear2d(grad *Tensor, input Shape, u Upsample) (*Tensor, error) {
	return to.upsampleGrad("UpsampleBilinear2dGrad", op.UpsampleBilinear2DGrad, grad, input, u)
}

func (to gradients) upsampleGrad(name string, id op.ID, grad *Tensor, input Shape, u Upsample) (*Tensor, error) {
	if err := sameFloat(name, grad); err != nil {
		return nil, err
	}
	v, err := resample(name, id, input, u)
	if err != nil {
		return nil, err
	}
	if !grad.Shape().Equal(Shape{input[0], input[1], v.result[0], v.result[1]}) {
		return nil, shapeErr(name, []Shape{grad.Shape(), input}, "the gradient does not belong to the input")
	}
	return v.run(name, id, input, to, grad, u)
}
