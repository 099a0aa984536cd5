package autograd

import "fmt"

var (
	im2col = composite{name: "im2col"}
	col2im = composite{name: "col2im"}
)

// Window is how Unfold and Fold go over images. Each is one number for rows and columns, or one for each; of the last three nil stands for 1, 0 and 1.
type Window struct {
	Kernel, Stride, Padding, Dilation []int
}

// sliding is a Window over images.
type sliding struct{ kernel, stride, padding, dilation, size, count [2]int }

// over checks the settings for images of a size.
func (w Window) over(c composite, size [2]int) (s sliding, err error) {
	s.size = size
	for _, a := range []struct {
		to             *[2]int
		what           string
		list           []int
		least, missing int
	}{{&s.kernel, "kernel", w.Kernel, 1, 0}, {&s.stride, "stride", w.Stride, 1, 1}, {&s.padding, "padding", w.Padding, 0, 0}, {&s.dilation, "dilation", w.Dilation, 1, 1}} {
		list, err := c.numbers(a.what, a.list, 2, a.least, a.missing)
		if err != nil {
			return s, err
		}
		copy(a.to[:], list)
	}
	for i := range 2 {
		span := size[i] + 2*s.padding[i] - s.dilation[i]*(s.kernel[i]-1) - 1
		if size[i] < 1 || size[i] >= tooLarge || span < 0 {
			return s, c.values("no window of %v fits images of %v", w, size)
		}
		s.count[i] = span/s.stride[i] + 1
	}
	return s, nil
}

// Unfold is the windows of images [N, C, H, W] or [C, H, W] as columns, [N, C*kh*kw, L] or [C*kh*kw, L], L of them from the left to the right and
// downwards (nn.functional.unfold). It copies the images once for their rows and once for their columns.
func (v *Variable) Unfold(w Window) *Variable {
	var s sliding
	return im2col.run([]*Variable{v}, func() (err error) {
		if v.NDim() != 3 && v.NDim() != 4 {
			return im2col.shapes("images are [N, C, H, W] or [C, H, W]", v)
		}
		s, err = w.over(im2col, [2]int{v.Dim(-2), v.Dim(-1)})
		return err
	}, func(in []*Variable) *Variable {
		x := in[0]
		if s.padding != [2]int{} {
			x = x.Pad([]int{s.padding[1], s.padding[1], s.padding[0], s.padding[0]}, 0, 0)
		}
		lead := v.Shape().Clone()[:v.NDim()-2]
		n := lead.Len()
		if x = x.Reshape(n, x.Dim(-2), x.Dim(-1)); !x.Alive() {
			return x
		}
		x = x.slid(1, s.kernel[0], s.stride[0], s.dilation[0]) // [N*C, kh, oh, W]
		if !x.Alive() {
			return x
		}
		x = x.slid(3, s.kernel[1], s.stride[1], s.dilation[1]) // [N*C, kh, oh, kw, ow]
		last := len(lead) - 1
		lead[last] *= s.kernel[0] * s.kernel[1]
		return x.Permute(0, 1, 3, 2, 4).Reshape(append(lead, s.count[0]*s.count[1])...)
	})
}

// Fold adds columns [N, C*kh*kw, L] or [C*kh*kw, L] up to images [N, C, H, W] or [C, H, W] of the size, the windows of which they are (nn.functional.fold): the
// gradient of Unfold.
func (v *Variable) Fold(rows, columns int, w Window) *Variable {
	var s sliding
	return col2im.run([]*Variable{v}, func() (err error) {
		if s, err = w.over(col2im, [2]int{rows, columns}); err != nil {
			return err
		}
		if (v.NDim() != 2 && v.NDim() != 3) || v.Dim(-2)%(s.kernel[0]*s.kernel[1]) != 0 || v.Dim(-1) != s.count[0]*s.count[1] {
			return col2im.shapes(fmt.Sprintf("columns are [N, C*%d, %d]", s.kernel[0]*s.kernel[1], s.count[0]*s.count[1]), v)
		}
		return col2im.floats(v)
	}, func(in []*Variable) *Variable {
		g, k, at := in[0].g, s.kernel, s.count
		lead := v.Shape().Clone()[:v.NDim()-1]
		lead[len(lead)-1] /= k[0] * k[1]
		n := lead.Len()
		h, width := rows+2*s.padding[0], columns+2*s.padding[1]
		x := in[0].Reshape(n, k[0], k[1], at[0], at[1]).Permute(0, 1, 3, 2, 4).Reshape(n, k[0]*at[0], k[1]*at[1])
		x = g.Zeros(v.dtype, n, k[0]*at[0], width).IndexAdd(2, g.places(k[1], s.dilation[1], at[1], s.stride[1]), x)
		x = g.Zeros(v.dtype, n, h, width).IndexAdd(1, g.places(k[0], s.dilation[0], at[0], s.stride[0]), x)
		x = x.Narrow(1, s.padding[0], rows).Narrow(2, s.padding[1], columns)
		return x.Reshape(append(lead, rows, columns)...).Contiguous() // as PyTorch's, which may be viewed
	})
}
