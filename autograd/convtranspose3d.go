package autograd

import "github.com/cistern-ml/cistern/tensor"

var convTranspose3d = composite{name: "conv_transpose3d"}

// ConvTranspose3d is the transposed convolution of volumes, [N, C, D, H, W] or [C, D, H, W], with weight, [C, O/groups, kd, kh, kw], plus bias, [O], nil
// for none. It is one transposed convolution of images, whose results for each slice of the kernel are added up along the depth: kd times the result is in
// memory for a moment.
func (v *Variable) ConvTranspose3d(weight, bias *Variable, c tensor.ConvTranspose) *Variable {
	in := []*Variable{v, weight}
	if bias != nil {
		in = append(in, bias)
	}
	var depth spreadDepth
	return convTranspose3d.run(in, func() (err error) {
		if v.NDim() != 4 && v.NDim() != 5 || weight.NDim() != 5 || weight.Dim(2) < 1 || v.Dim(-4) != weight.Dim(0) || v.Dim(-3) < 1 {
			return convTranspose3d.shapes("volumes are [N, C, D, H, W] or [C, D, H, W], and kernels [C, O/groups, kd, kh, kw]", in...)
		}
		if groups := max(1, c.Groups); v.Dim(-4)%groups != 0 {
			return convTranspose3d.values("%d channels do not divide into %d groups", v.Dim(-4), groups)
		}
		if outputs := weight.Dim(1) * max(1, c.Groups); bias != nil && (bias.NDim() != 1 || bias.Dim(0) != outputs) {
			return convTranspose3d.shapes("the bias has one element for each output", in...)
		}
		depth, err = spreadOf(c, weight.Dim(2), v.Dim(-3))
		return err
	}, func(in []*Variable) *Variable {
		x, w := in[0].batched(), in[1]
		n, d, groups, kd, outputs := x.Dim(0), x.Dim(2), max(1, c.Groups), w.Dim(2), w.Dim(1)
		w = w.Permute(0, 2, 1, 3, 4).Reshape(w.Dim(0), kd*outputs, w.Dim(3), w.Dim(4))
		z := x.Transpose(1, 2).Reshape(n*d, x.Dim(1), x.Dim(3), x.Dim(4)).ConvTranspose2d(w, nil, tensor.ConvTranspose{
			Stride: later(c.Stride), Padding: later(c.Padding), OutputPadding: later(c.OutputPadding), Dilation: later(c.Dilation), Groups: c.Groups,
		})
		if !z.Alive() {
			return z
		}
		rows, columns, all := z.Dim(2), z.Dim(3), groups*outputs
		z = z.Reshape(n, d, groups, kd, outputs, rows*columns).Permute(0, 3, 1, 2, 4, 5).Reshape(n, kd*d, all*rows*columns)
		places := z.g.places(kd, depth.dilation, d, depth.stride)
		y := z.g.Zeros(z.dtype, n, depth.full, all*rows*columns).IndexAdd(1, places, z).Narrow(1, depth.padding, depth.result)
		y = y.Reshape(n, depth.result, all, rows, columns).Transpose(1, 2)
		if len(in) > 2 {
			return y.Add(in[2].To(y.dtype).Reshape(all, 1, 1, 1)).unbatched(v)
		}
		return y.Contiguous().unbatched(v)
	})
}

// spreadDepth is a transposed convolution along the depth: result elements of the full ones, from padding on.
type spreadDepth struct{ stride, dilation, padding, full, result int }

func spreadOf(c tensor.ConvTranspose, kernel, size int) (d spreadDepth, err error) {
	list := func(what string, of []int, least, missing int) int {
		all, wrong := convTranspose3d.numbers(what, of, 3, least, missing)
		if wrong != nil {
			err = firstError(err, wrong)
			return 1
		}
		return all[0]
	}
	d.stride, d.dilation, d.padding = list("stride", c.Stride, 1, 1), list("dilation", c.Dilation, 1, 1), list("padding", c.Padding, 0, 0)
	more := list("output padding", c.OutputPadding, 0, 0)
	if err == nil && more >= max(d.stride, d.dilation) {
		err = convTranspose3d.values("output padding %v must be less than the stride or the dilation", c.OutputPadding)
	}
	d.full = (size-1)*d.stride + d.dilation*(kernel-1) + 1 + more
	d.result = d.full - 2*d.padding
	if err == nil && d.result < 1 {
		err = convTranspose3d.values("the result would have a depth of %d", d.result)
	}
	return d, err
}
