package autograd

import (
	"fmt"
	"math"
	"slices"

	"github.com/cistern-ml/cistern/internal/plural"
	"github.com/cistern-ml/cistern/tensor"
)

var (
	maxPool1dIndices = composite{name: "max_pool1d_with_indices"}
	maxPool2dIndices = composite{name: "max_pool2d_with_indices"}
	maxUnpool1d      = composite{name: "max_unpool1d"}
	maxUnpool2d      = composite{name: "max_unpool2d"}
	lpPool1d         = composite{name: "lp_pool1d"}
	lpPool2d         = composite{name: "lp_pool2d"}
)

// MaxPool1dIndices is MaxPool1d, and of each result the place of its element in the row, int64, as MaxUnpool1d takes it (return_indices=True). It pools twice,
// once for the indices.
func (v *Variable) MaxPool1dIndices(p tensor.Pool) (values, indices *Variable) {
	return maxPool1dIndices.withIndices(v, p, 1)
}

// MaxPool2dIndices is MaxPool2d, and of each result the place of its element in the image, counted row by row; see MaxPool1dIndices.
func (v *Variable) MaxPool2dIndices(p tensor.Pool) (values, indices *Variable) {
	return maxPool2dIndices.withIndices(v, p, 2)
}

func (c composite) withIndices(v *Variable, p tensor.Pool, dims int) (values, indices *Variable) {
	var kernel, stride, padding, spread []int
	out := c.runs(2, []*Variable{v}, func() (err error) {
		set := func(what string, list []int, least, missing int) (all []int) {
			if err == nil {
				all, err = c.numbers(what, list, dims, least, missing)
			}
			return all
		}
		kernel = set("the kernel", p.Kernel, 1, 0)
		stride, padding, spread = set("the stride", p.Stride, 1, 1), set("the padding", p.Padding, 0, 0), set("the dilation", p.Dilation, 1, 1)
		if len(p.Stride) == 0 {
			stride = kernel
		}
		if n := v.NDim(); err == nil && (n < dims+1 || n > dims+2) {
			err = c.shapes(fmt.Sprintf("images have %s, channels, and may have a batch", plural.Of(dims, "dimension")), v)
		}
		return err
	}, func(in []*Variable) []*Variable {
		x := in[0]
		pool, plain := x.MaxPool2d, (*tensor.Tensor).MaxPool2d
		if dims == 1 {
			pool, plain = x.MaxPool1d, (*tensor.Tensor).MaxPool1d
		}
		y := pool(p)
		within := v.g.New(func(tensor.Exec) (*tensor.Tensor, error) {
			t, err := x.Tensor()
			if err != nil {
				return nil, err
			}
			out, from, err := plain(t, p)
			if err != nil {
				return nil, err
			}
			defer out.Release()
			defer from.Release()
			return from.To(tensor.Int64)
		}).Reshape(y.Shape()...)
		at := v.g.Zeros(tensor.Int64, 1)
		for i := range dims { // row, then column
			k, d := within, i-dims
			if i < dims-1 {
				k = k.FloorDivide(v.g.Full(float64(kernel[dims-1]), tensor.Int64, 1))
			} else {
				k = k.RemainderScalar(float64(kernel[i]))
			}
			first := v.g.Arange(0, float64(y.Dim(d)), 1, tensor.Int64).MulScalar(float64(stride[i])).SubScalar(float64(padding[i]))
			at = at.MulScalar(float64(x.Dim(d))).Add(first.standing(d)).Add(k.MulScalar(float64(spread[i])))
		}
		return []*Variable{y, at}
	})
	return out[0], out[1]
}

// MaxUnpool1d puts the elements of v, [N, C, L] or [C, L], in rows of size elements at the places that indices says, and zeros else. Of several for one
// place the last wins.
func (v *Variable) MaxUnpool1d(indices *Variable, size int) *Variable {
	return maxUnpool1d.unpooled(v, indices, size)
}

// MaxUnpool2d puts the elements of v, [N, C, H, W] or [C, H, W], in images of rows and columns at the places that indices says, as MaxPool2dIndices gives them,
// and zeros else. Of several for one place the last wins.
func (v *Variable) MaxUnpool2d(indices *Variable, rows, columns int) *Variable {
	return maxUnpool2d.unpooled(v, indices, rows, columns)
}

func (c composite) unpooled(v, indices *Variable, sizes ...int) *Variable {
	return c.run([]*Variable{v, indices}, func() error {
		n := len(sizes)
		if v.NDim() < n+1 || v.NDim() > n+2 || !v.Shape().Equal(indices.Shape()) {
			return c.shapes(fmt.Sprintf("images have %s, channels, and may have a batch; indices have their shape", plural.Of(n, "dimension")), v, indices)
		}
		for _, s := range sizes {
			if s < 0 || s >= tooLarge {
				return c.values("the size is %v; it is at least 0", sizes)
			}
		}
		return nil
	}, func(in []*Variable) *Variable {
		lead := v.Shape()[:v.NDim()-len(sizes)].Clone()
		flat := []int{lead.Len(), v.Shape()[len(lead):].Len()}
		zeros := v.g.Zeros(v.dtype, flat[0], tensor.Shape(sizes).Len())
		return zeros.Scatter(1, in[1].Reshape(flat...), in[0].Reshape(flat...)).Reshape(slices.Concat(lead, sizes)...)
	})
}

// LPPool1d is the root of degree power of the sum of the powers of each window, of which p says the kernel, the stride and CeilMode.
func (v *Variable) LPPool1d(power float64, p tensor.Pool) *Variable {
	return lpPool1d.powers(v, power, p, 1)
}

// LPPool2d is LPPool1d of images.
func (v *Variable) LPPool2d(power float64, p tensor.Pool) *Variable {
	return lpPool2d.powers(v, power, p, 2)
}

func (c composite) powers(v *Variable, power float64, p tensor.Pool, dims int) *Variable {
	size := 1
	return c.run([]*Variable{v}, func() error {
		kernel, err := c.numbers("the kernel", p.Kernel, dims, 1, 0)
		if err == nil && (power == 0 || math.IsNaN(power)) {
			err = c.values("the power is %v; it is not 0", power)
		}
		if len(p.Padding) > 0 || p.ExcludePadding || p.DivisorOverride != 0 || len(p.Dilation) > 0 {
			err = firstError(err, c.values("there are a kernel, a stride and CeilMode alone"))
		}
		for _, k := range kernel {
			size *= k
		}
		return firstError(err, c.floats(v))
	}, func(in []*Variable) *Variable {
		x := in[0].PowScalar(power)
		if dims == 1 {
			x = x.AvgPool1d(p)
		} else {
			x = x.AvgPool2d(p)
		}
		return x.Sign().Mul(x.Abs().ReLU()).MulScalar(float64(size)).PowScalar(1 / power)
	})
}
