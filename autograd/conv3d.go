package autograd

import (
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// Volumes, [N, C, D, H, W] or [C, D, H, W], are made of the operations on images: convolutions slice by slice of the kernel, pooling first of images and
// then of what is left of them along the depth.

var (
	conv3d          = composite{name: "conv3d"}
	maxPool3d       = composite{name: "max_pool3d"}
	avgPool3d       = composite{name: "avg_pool3d"}
	adaptiveAvgPool = composite{name: "adaptive_avg_pool3d"}
	adaptiveMaxPool = composite{name: "adaptive_max_pool3d"}
)

// Conv3d is the convolution of volumes with kernels weight, [O, C/groups, kd, kh, kw], plus bias, [O], nil for none. It is the sum of kd convolutions of
// images, each of a copy of those slices that it meets (of none for a single volume), which are saved as Conv2d saves its image.
func (v *Variable) Conv3d(weight, bias *Variable, c tensor.Conv) *Variable {
	in := []*Variable{v, weight}
	if bias != nil {
		in = append(in, bias)
	}
	var depth slidingDepth
	return conv3d.run(in, func() (err error) {
		if v.NDim() != 4 && v.NDim() != 5 || weight.NDim() != 5 || weight.Dim(2) < 1 || v.Dim(-4) != weight.Dim(1)*max(1, c.Groups) {
			return conv3d.shapes("volumes are [N, C, D, H, W] or [C, D, H, W], and kernels [O, C/groups, kd, kh, kw]", in...)
		}
		depth, err = depthOf(c, weight.Dim(2), v.Dim(-3))
		return err
	}, func(in []*Variable) *Variable {
		x, bias := in[0].batched(), (*Variable)(nil)
		if len(in) > 2 {
			bias = in[2]
		}
		images := tensor.Conv{Stride: later(c.Stride), Padding: later(c.Padding), Dilation: later(c.Dilation), Same: c.Same, Groups: c.Groups}
		if depth.before+depth.after > 0 {
			x = x.Pad([]int{0, 0, 0, 0, depth.before, depth.after}, tensor.PadConstant, 0)
		}
		x = x.Transpose(1, 2)
		n, shape := x.Dim(0), x.Shape()
		if !x.Alive() {
			return x
		}
		var sum *Variable
		for k := range weight.Dim(2) {
			from := k * depth.dilation
			part := x.Slice(1, from, from+(depth.count-1)*depth.stride+1, depth.stride).Reshape(n*depth.count, shape[2], shape[3], shape[4])
			one := part.Conv2d(in[1].Select(2, k), bias, images)
			if bias = nil; sum != nil {
				one = sum.Add(one)
			}
			if sum = one; !sum.Alive() {
				return sum
			}
		}
		out := sum.Reshape(n, depth.count, sum.Dim(1), sum.Dim(2), sum.Dim(3)).Transpose(1, 2).Contiguous()
		return out.unbatched(v)
	})
}

// batched is v with a dimension for volumes.
func (v *Variable) batched() *Variable {
	if v.NDim() == 4 {
		return v.Unsqueeze(0)
	}
	return v
}

// unbatched is v without the dimension that batched gave to of.
func (v *Variable) unbatched(of *Variable) *Variable {
	if of.NDim() == 4 {
		return v.Squeeze(0)
	}
	return v
}

// later is the settings of rows and columns of those of three dimensions.
func later(list []int) []int {
	if len(list) == 3 {
		return list[1:]
	}
	return list
}

// first is the setting of the depth.
func first(list []int) []int { return slices.Clone(list[:min(1, len(list))]) }

// slidingDepth is a convolution along the depth.
type slidingDepth struct{ stride, dilation, before, after, count int }

func depthOf(c tensor.Conv, kernel, size int) (d slidingDepth, err error) {
	list := func(what string, of []int, least, missing int) int {
		all, wrong := conv3d.numbers(what, of, 3, least, missing)
		if wrong != nil {
			err = firstError(err, wrong)
			return 1
		}
		return all[0]
	}
	d.stride, d.dilation = list("stride", c.Stride, 1, 1), list("dilation", c.Dilation, 1, 1)
	d.before = list("padding", c.Padding, 0, 0)
	d.after = d.before
	span := d.dilation * (kernel - 1)
	if c.Same {
		for _, n := range [][]int{c.Stride, c.Padding} {
			if len(n) > 0 && n[0] != 1 && n[0] != 0 {
				err = firstError(err, conv3d.values("Same goes with a stride of 1, and no padding"))
			}
		}
		d.before = span / 2
		d.after = span - d.before
	}
	left := size + d.before + d.after - span - 1
	if err == nil && left < 0 {
		err = conv3d.values("a kernel of depth %d is larger than the volume's %d with its padding", kernel, size)
	}
	d.count = left/d.stride + 1
	return d, err
}

// MaxPool3d is the largest element of each window of volumes.
func (v *Variable) MaxPool3d(p tensor.Pool) *Variable {
	return maxPool3d.pool(v, p.Kernel, p.Stride, p.Padding, p.Dilation,
		func(x *Variable) *Variable { return x.MaxPool2d(part(p, later)) }, func(x *Variable) *Variable { return x.MaxPool1d(part(p, first)) })
}

// AvgPool3d is the average of each window of volumes.
func (v *Variable) AvgPool3d(p tensor.Pool) *Variable {
	return avgPool3d.pool(v, p.Kernel, p.Stride, p.Padding, nil, func(x *Variable) *Variable { return x.AvgPool2d(part(p, later)) }, func(x *Variable) *Variable {
		depth := part(p, first)
		depth.DivisorOverride = min(p.DivisorOverride, 1) // the images have been divided
		return x.AvgPool1d(depth)
	})
}

// part is pooling of some dimensions.
func part(p tensor.Pool, of func([]int) []int) tensor.Pool {
	p.Kernel, p.Stride, p.Padding, p.Dilation = of(p.Kernel), of(p.Stride), of(p.Padding), of(p.Dilation)
	if len(p.Stride) == 0 {
		p.Stride = nil
	}
	if len(p.Dilation) == 0 {
		p.Dilation = nil
	}
	return p
}

// AdaptiveAvgPool3d is the average of each window of volumes, where windows are such that the result has the size: one number, or three.
func (v *Variable) AdaptiveAvgPool3d(size ...int) *Variable {
	return adaptiveAvgPool.pool(v, size, nil, nil, nil, func(x *Variable) *Variable { return x.AdaptiveAvgPool2d(later(size)...) },
		func(x *Variable) *Variable { return x.AdaptiveAvgPool1d(size[0]) })
}

// AdaptiveMaxPool3d is the largest element of each window of volumes, where windows are such that the result has the size: one number, or three.
func (v *Variable) AdaptiveMaxPool3d(size ...int) *Variable {
	return adaptiveMaxPool.pool(v, size, nil, nil, nil, func(x *Variable) *Variable { return x.AdaptiveMaxPool2d(later(size)...) },
		func(x *Variable) *Variable { return x.AdaptiveMaxPool1d(size[0]) })
}

// pool pools images, and then what is left of them along the depth.
func (c composite) pool(v *Variable, kernel, stride, padding, dilation []int, images, depth func(x *Variable) *Variable) *Variable {
	return c.run([]*Variable{v}, func() error {
		if v.NDim() != 4 && v.NDim() != 5 {
			return c.shapes("volumes are [N, C, D, H, W] or [C, D, H, W]", v)
		}
		_, err := c.numbers("window or size", kernel, 3, 0, -1)
		_, err2 := c.numbers("stride", stride, 3, 1, 1)
		_, err3 := c.numbers("padding", padding, 3, 0, 0)
		_, err4 := c.numbers("dilation", dilation, 3, 1, 1)
		return firstError(err, err2, err3, err4)
	}, func(in []*Variable) *Variable {
		x := in[0].batched()
		n, channels, d := x.Dim(0), x.Dim(1), x.Dim(2)
		x = images(x.Reshape(n, channels*d, x.Dim(3), x.Dim(4)))
		h, w := x.Dim(2), x.Dim(3)
		if !x.Alive() {
			return x
		}
		x = depth(x.Reshape(n*channels, d, h*w).Transpose(1, 2))
		if !x.Alive() {
			return x
		}
		return x.Transpose(1, 2).Contiguous().Reshape(n, channels, x.Dim(2), h, w).unbatched(v) // as PyTorch's, which may be viewed
	})
}
