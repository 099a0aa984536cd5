package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
)

// PixelShuffle makes [N, C*r*r, H, W] to [N, C, H*r, W*r].
func PixelShuffle(r int) *FuncModule {
	return Func(fmt.Sprintf("PixelShuffle(upscale_factor=%d)", r), func(x *autograd.Variable) *autograd.Variable { return x.PixelShuffle(r) })
}

// PixelUnshuffle makes [N, C, H*r, W*r] to [N, C*r*r, H, W].
func PixelUnshuffle(r int) *FuncModule {
	return Func(fmt.Sprintf("PixelUnshuffle(downscale_factor=%d)", r), func(x *autograd.Variable) *autograd.Variable { return x.PixelUnshuffle(r) })
}

// ChannelShuffle takes the channels of [N, C, ...] from so many groups in turn.
func ChannelShuffle(groups int) *FuncModule {
	return Func(fmt.Sprintf("ChannelShuffle(groups=%d)", groups), func(x *autograd.Variable) *autograd.Variable { return x.ChannelShuffle(groups) })
}

// LocalResponseNorm divides by the mean of the squares of size neighbouring channels; see autograd.Variable.LocalResponseNorm.
func LocalResponseNorm(size int, l autograd.LocalResponse) *FuncModule {
	or := func(v, missing float64) float64 {
		if v == 0 {
			return missing
		}
		return v
	}
	return Func(fmt.Sprintf("LocalResponseNorm(%d, alpha=%v, beta=%v, k=%v)", size, or(l.Alpha, 1e-4), or(l.Beta, 0.75), or(l.K, 1)),
		func(x *autograd.Variable) *autograd.Variable { return x.LocalResponseNorm(size, l) })
}

// Unflatten makes several dimensions of one; of one of the sizes -1 stands for what is left.
func Unflatten(dim int, sizes ...int) *FuncModule {
	return Func(fmt.Sprintf("Unflatten(dim=%d, unflattened_size=%s)", dim, tuple(sizes, len(sizes), 0)),
		func(x *autograd.Variable) *autograd.Variable { return x.Unflatten(dim, sizes...) })
}

// Unfold makes the windows of images [N, C, H, W] columns, [N, C*kh*kw, L]. Its options are Stride, Padding, Dilation and KernelSize.
func Unfold(kernel int, opts ...WindowOption) *FuncModule {
	w := windowOf(kernel, opts)
	return Func("Unfold("+describeSlide(w)+")", func(x *autograd.Variable) *autograd.Variable { return x.Unfold(w) })
}

// Fold adds columns [N, C*kh*kw, L] up to images [N, C, rows, columns]. Its options are Unfold's.
func Fold(rows, columns, kernel int, opts ...WindowOption) *FuncModule {
	w := windowOf(kernel, opts)
	return Func(fmt.Sprintf("Fold(output_size=(%d, %d), %s)", rows, columns, describeSlide(w)),
		func(x *autograd.Variable) *autograd.Variable { return x.Fold(rows, columns, w) })
}

func windowOf(kernel int, opts []WindowOption) autograd.Window {
	c := conv{kernel: []int{kernel}}
	for _, o := range opts {
		o.changeConv(&c)
	}
	return autograd.Window{Kernel: c.kernel, Stride: c.stride, Padding: c.padding, Dilation: c.dilation}
}

func describeSlide(w autograd.Window) string {
	return fmt.Sprintf("kernel_size=%s, dilation=%s, padding=%s, stride=%s", plain(w.Kernel, 1), plain(w.Dilation, 1), plain(w.Padding, 0), plain(w.Stride, 1))
}
