package nn

import (
	"fmt"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// MaxPool1d is the largest element of each window of [N, C, L] or [C, L]. The stride is that of the window unless Stride says
// otherwise.
func MaxPool1d(kernel int, opts ...PoolOption) *FuncModule {
	return maxPool("MaxPool1d", kernel, opts, (*autograd.Variable).MaxPool1d)
}

// MaxPool2d is the largest element of each window of [N, C, H, W] or [C, H, W]. The stride is that of the window unless Stride
// says otherwise.
func MaxPool2d(kernel int, opts ...PoolOption) *FuncModule {
	return maxPool("MaxPool2d", kernel, opts, (*autograd.Variable).MaxPool2d)
}

// AvgPool1d is the average of each window of [N, C, L] or [C, L]. The stride is that of the window unless Stride says otherwise.
func AvgPool1d(kernel int, opts ...PoolOption) *FuncModule {
	return avgPool("AvgPool1d", 1, kernel, opts, (*autograd.Variable).AvgPool1d)
}

// AvgPool2d is the average of each window of [N, C, H, W] or [C, H, W]. The stride is that of the window unless Stride says
// otherwise.
func AvgPool2d(kernel int, opts ...PoolOption) *FuncModule {
	return avgPool("AvgPool2d", 2, kernel, opts, (*autograd.Variable).AvgPool2d)
}

func poolOf(kernel int, opts []PoolOption) pool {
	p := pool{Pool: tensor.Pool{Kernel: []int{kernel}}}
	for _, o := range opts {
		if o != nil {
			o.changePool(&p)
		}
	}
	return p
}

// module makes the layer, which cannot be used if an option is wrong.
func (p pool) module(name, own, text string, f func(*autograd.Variable, tensor.Pool) *autograd.Variable) *FuncModule {
	m := Func(text, func(x *autograd.Variable) *autograd.Variable { return f(x, p.Pool) })
	m.refuseForeign(&p.given, name, own)
	if p.wrong != nil {
		m.mistaken(p.wrong)
	}
	return m
}

// describeWindow writes window, stride and padding as they were given.
func describeWindow(name string, p pool, write func(list []int, missing int) string) string {
	stride := p.Stride
	if stride == nil {
		stride = p.Kernel
	}
	return fmt.Sprintf("%s(kernel_size=%s, stride=%s, padding=%s", name, write(p.Kernel, 1), write(stride, 1), write(p.Padding, 0))
}

func maxPool(name string, kernel int, opts []PoolOption, f func(*autograd.Variable, tensor.Pool) *autograd.Variable) *FuncModule {
	p := poolOf(kernel, opts)
	ceil := "False"
	if p.CeilMode {
		ceil = "True"
	}
	text := fmt.Sprintf("%s, dilation=%s, ceil_mode=%s)", describeWindow(name, p, plain), plain(p.Dilation, 1), ceil)
	return p.module(name, "Dilation", text, f)
}

func avgPool(name string, dims, kernel int, opts []PoolOption, f func(*autograd.Variable, tensor.Pool) *autograd.Variable,
) *FuncModule {
	p := poolOf(kernel, opts)
	write := plain
	if dims == 1 { // of one dimension PyTorch makes tuples
		write = func(list []int, missing int) string { return tuple(list, 1, missing) }
	}
	return p.module(name, "ExcludePadding DivisorOverride", describeWindow(name, p, write)+")", f)
}

// AdaptiveMaxPool1d is the largest element of each window of [N, C, L] or [C, L], where windows are such that the result is as
// long as size.
func AdaptiveMaxPool1d(size int) *FuncModule {
	return Func(fmt.Sprintf("AdaptiveMaxPool1d(output_size=%d)", size),
		func(x *autograd.Variable) *autograd.Variable { return x.AdaptiveMaxPool1d(size) })
}

// AdaptiveMaxPool2d is the largest element of each window of [N, C, H, W] or [C, H, W], where windows are such that the result
// has the size: one number, or one for rows and one for columns.
func AdaptiveMaxPool2d(size ...int) *FuncModule {
	return Func(fmt.Sprintf("AdaptiveMaxPool2d(output_size=%s)", plain(size, 0)),
		func(x *autograd.Variable) *autograd.Variable { return x.AdaptiveMaxPool2d(size...) })
}

// AdaptiveAvgPool1d is the average of each window of [N, C, L] or [C, L], where windows are such that the result is as long as
// size.
func AdaptiveAvgPool1d(size int) *FuncModule {
	return Func(fmt.Sprintf("AdaptiveAvgPool1d(output_size=%d)", size),
		func(x *autograd.Variable) *autograd.Variable { return x.AdaptiveAvgPool1d(size) })
}

// AdaptiveAvgPool2d is the average of each window of [N, C, H, W] or [C, H, W], where windows are such that the result has the
// size: one number, or one for rows and one for columns.
func AdaptiveAvgPool2d(size ...int) *FuncModule {
	return Func(fmt.Sprintf("AdaptiveAvgPool2d(output_size=%s)", plain(size, 0)),
		func(x *autograd.Variable) *autograd.Variable { return x.AdaptiveAvgPool2d(size...) })
}

// UpsampleMode says how Upsample fills places between elements.
type UpsampleMode uint8

// Nearest takes the element before, the others interpolate: Linear1d for [N, C, L], Bilinear2d and Bicubic for [N, C, H, W], Trilinear for [N, C, D, H, W].
const (
	Nearest UpsampleMode = iota
	Bilinear2d
	Linear1d
	Bicubic
	Trilinear
)

var upsampleModes = [...]string{Nearest: "nearest", Bilinear2d: "bilinear", Linear1d: "linear", Bicubic: "bicubic", Trilinear: "trilinear"}

// String is PyTorch's name.
func (m UpsampleMode) String() string {
	if int(m) < len(upsampleModes) {
		return upsampleModes[m]
	}
	return fmt.Sprintf("UpsampleMode(%d)", uint8(m))
}

// upsample resamples x.
func (m UpsampleMode) upsample(x *autograd.Variable, u tensor.Upsample) *autograd.Variable {
	switch {
	case m == Bilinear2d:
		return x.UpsampleBilinear2d(u)
	case m == Linear1d:
		return x.UpsampleLinear1d(u)
	case m == Bicubic:
		return x.UpsampleBicubic2d(u)
	case m == Trilinear:
		return x.UpsampleTrilinear3d(u)
	case m != Nearest:
		return x.Graph().Refuse("upsample", argumentErr("Upsample", "there is no %v", m), x)
	case x.NDim() == 3:
		return x.UpsampleNearest1d(u)
	case x.NDim() == 5:
		return x.UpsampleNearest3d(u)
	}
	return x.UpsampleNearest2d(u)
}

// Upsample resamples [N, C, H, W], or what its mode is for, to the size or by the scale that u says. Nearest is for [N, C, L] and [N, C, D, H, W] too.
func Upsample(mode UpsampleMode, u tensor.Upsample) *FuncModule {
	what := "size=" + plain(u.Size, 0)
	if len(u.Size) == 0 {
		what = "scale_factor=" + scales(u.Scale)
	}
	return Func(fmt.Sprintf("Upsample(%s, mode='%s')", what, mode), func(x *autograd.Variable) *autograd.Variable { return mode.upsample(x, u) })
}

// UpsamplingNearest2d is Upsample of images by their nearest elements.
func UpsamplingNearest2d(u tensor.Upsample) *FuncModule {
	return upsampling("UpsamplingNearest2d", Nearest, u)
}

// UpsamplingBilinear2d is bilinear Upsample with aligned corners.
func UpsamplingBilinear2d(u tensor.Upsample) *FuncModule {
	u.AlignCorners = true
	return upsampling("UpsamplingBilinear2d", Bilinear2d, u)
}

func upsampling(name string, mode UpsampleMode, u tensor.Upsample) *FuncModule {
	m := Upsample(mode, u)
	m.text = name + strings.TrimPrefix(m.text, "Upsample")
	return m
}

// scales writes factors as Python writes floats.
func scales(list []float64) string {
	text := func(f float64) string {
		if f == float64(int64(f)) {
			return fmt.Sprintf("%.1f", f)
		}
		return fmt.Sprint(f)
	}
	switch len(list) {
	case 1:
		return text(list[0])
	case 2:
		return fmt.Sprintf("(%s, %s)", text(list[0]), text(list[1]))
	}
	return fmt.Sprint(list)
}
