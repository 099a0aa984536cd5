package nn

import (
	"fmt"
	"math"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// ConvLayer is a convolution: Conv1d, Conv2d or Conv3d.
type ConvLayer struct {
	Base
	Weight *autograd.Parameter // [out, in/groups, kernel...]
	Bias   *autograd.Parameter // [out], or nil
	dims   int
	args   tensor.Conv
}

// ConvTransposeLayer is a transposed convolution: ConvTranspose1d, ConvTranspose2d or ConvTranspose3d.
type ConvTransposeLayer struct {
	Base
	Weight *autograd.Parameter // [in, out/groups, kernel...]
	Bias   *autograd.Parameter // [out], or nil
	dims   int
	args   tensor.ConvTranspose
}

// Conv1d makes a layer from [N, in, L] or [in, L] to [N, out, ...] or [out, ...]. Weight and bias start uniform in
// ±1/sqrt(in/groups*kernel), as in PyTorch.
func Conv1d(in, out, kernel int, opts ...ConvOption) *ConvLayer {
	return newConv(1, in, out, kernel, opts)
}

// Conv2d makes a layer from [N, in, H, W] or [in, H, W] to [N, out, ...] or [out, ...], with square kernels unless KernelSize
// says otherwise. Weight and bias start uniform in ±1/sqrt(in/groups*kernel*kernel), as in PyTorch.
func Conv2d(in, out, kernel int, opts ...ConvOption) *ConvLayer {
	return newConv(2, in, out, kernel, opts)
}

// Conv3d makes a layer from [N, in, D, H, W] or [in, D, H, W] to [N, out, ...] or [out, ...], with cubic kernels unless KernelSize says otherwise. Weight
// and bias start uniform in ±1/sqrt(in/groups*kernel*kernel*kernel), as in PyTorch.
func Conv3d(in, out, kernel int, opts ...ConvOption) *ConvLayer {
	return newConv(3, in, out, kernel, opts)
}

// ConvTranspose1d makes a layer from [N, in, L] or [in, L] to [N, out, ...] or [out, ...]. Weight and bias start uniform in
// ±1/sqrt(out/groups*kernel), as in PyTorch.
func ConvTranspose1d(in, out, kernel int, opts ...ConvOption) *ConvTransposeLayer {
	return newConvTranspose(1, in, out, kernel, opts)
}

// ConvTranspose2d makes a layer from [N, in, H, W] or [in, H, W] to [N, out, ...] or [out, ...], with square kernels unless
// KernelSize says otherwise. Weight and bias start uniform in ±1/sqrt(out/groups*kernel*kernel), as in PyTorch.
func ConvTranspose2d(in, out, kernel int, opts ...ConvOption) *ConvTransposeLayer {
	return newConvTranspose(2, in, out, kernel, opts)
}

// ConvTranspose3d makes a layer from [N, in, D, H, W] or [in, D, H, W] to [N, out, ...] or [out, ...], with cubic kernels unless KernelSize says
// otherwise. Weight and bias start uniform in ±1/sqrt(out/groups*kernel*kernel*kernel), as in PyTorch.
func ConvTranspose3d(in, out, kernel int, opts ...ConvOption) *ConvTransposeLayer {
	return newConvTranspose(3, in, out, kernel, opts)
}

func newConv(dims, in, out, kernel int, opts []ConvOption) *ConvLayer {
	c, name := convOf(kernel, opts), fmt.Sprintf("Conv%dd", dims)
	l := &ConvLayer{dims: dims, args: tensor.Conv{
		Stride: c.stride, Padding: c.padding, Dilation: c.dilation, Same: c.same, Groups: c.cuts(),
	}}
	l.refuseForeign(&c.given, name, biased+" PaddingSame")
	c.refuseGroups(&l.Base, name, in, out)
	c.declare(&l.Base, &l.Weight, &l.Bias, dims, out, in/max(1, c.cuts()), out)
	return l
}

func newConvTranspose(dims, in, out, kernel int, opts []ConvOption) *ConvTransposeLayer {
	c, name := convOf(kernel, opts), fmt.Sprintf("ConvTranspose%dd", dims)
	l := &ConvTransposeLayer{dims: dims, args: tensor.ConvTranspose{
		Stride: c.stride, Padding: c.padding, OutputPadding: c.outputPadding, Dilation: c.dilation, Groups: c.cuts(),
	}}
	l.refuseForeign(&c.given, name, biased+" OutputPadding")
	c.refuseGroups(&l.Base, name, in, out)
	c.declare(&l.Base, &l.Weight, &l.Bias, dims, in, out/max(1, c.cuts()), out)
	return l
}

func convOf(kernel int, opts []ConvOption) *conv {
	c := &conv{kernel: []int{kernel}}
	for _, o := range opts {
		if o != nil {
			o.changeConv(c)
		}
	}
	return c
}

// cuts is the number of groups.
func (c *conv) cuts() int {
	if c.groups == nil {
		return 1
	}
	return *c.groups
}

// refuseGroups refuses groups that the channels do not divide into.
func (c *conv) refuseGroups(b *Base, name string, in, out int) {
	switch n := c.cuts(); {
	case n < 1:
		b.mistaken(argumentErr("Groups", "%d groups; there must be at least 1", n))
	case in%n != 0 || out%n != 0:
		b.mistaken(argumentErr(name, "%d channels and %d outputs do not divide into %d groups", in, out, n))
	}
}

// check is what is wrong with the options that the parameters are made by; the others are checked when the layer runs.
func (c *conv) check(dims int) error {
	if n := len(c.kernel); n != 1 && n != dims {
		return argumentErr("KernelSize", "%v has %d sizes; want 1 or %d", c.kernel, n, dims)
	}
	return nil
}

// declare makes the parameters: kernels of shape [first, second, kernel...], and a bias for each output.
func (c *conv) declare(b *Base, weight, bias **autograd.Parameter, dims, first, second, outputs int) {
	if err := c.check(dims); err != nil {
		b.mistaken(err)
	}
	shape, fan := []int{first, second}, second
	for d := range dims {
		n := c.kernel[min(d, len(c.kernel)-1)]
		shape, fan = append(shape, n), fan*n
	}
	bound := 0.0
	if fan > 0 {
		bound = 1 / math.Sqrt(float64(fan))
	}
	if c.weight == nil {
		c.weight = Uniform(-bound, bound)
	}
	if c.layer.bias == nil {
		c.layer.bias = Uniform(-bound, bound)
	}
	*weight = autograd.DeclareParameter("weight", c.weight, shape...)
	if !c.noBias {
		*bias = autograd.DeclareParameter("bias", c.layer.bias, outputs)
	}
	b.requires("weight", weight)
	b.RegisterParameterField("bias", bias)
}

// Forward implements Layer.
func (l *ConvLayer) Forward(x *autograd.Variable) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		w, b := param(g, l, "weight", l.Weight), optional(g, l, "bias", l.Bias)
		switch l.dims {
		case 1:
			return x.Conv1d(w, b, l.args)
		case 3:
			return x.Conv3d(w, b, l.args)
		}
		return x.Conv2d(w, b, l.args)
	})
}

// Forward implements Layer.
func (l *ConvTransposeLayer) Forward(x *autograd.Variable) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		w, b := param(g, l, "weight", l.Weight), optional(g, l, "bias", l.Bias)
		switch l.dims {
		case 1:
			return x.ConvTranspose1d(w, b, l.args)
		case 3:
			return x.ConvTranspose3d(w, b, l.args)
		}
		return x.ConvTranspose2d(w, b, l.args)
	})
}

// String is PyTorch's description.
func (l *ConvLayer) String() string {
	if l == nil {
		return "nil"
	}
	a := &l.args
	padding := tuple(a.Padding, l.dims, 0)
	if a.Same {
		padding = "same"
	}
	return describeConv("Conv", l.dims, size(l.Weight, 1)*max(1, a.Groups), size(l.Weight, 0), kernelOf(l.Weight), a.Stride, padding, nil, a.Dilation,
		a.Groups, l.Bias)
}

// String is PyTorch's description.
func (l *ConvTransposeLayer) String() string {
	if l == nil {
		return "nil"
	}
	a := &l.args
	return describeConv("ConvTranspose", l.dims, size(l.Weight, 0), size(l.Weight, 1)*max(1, a.Groups), kernelOf(l.Weight), a.Stride,
		tuple(a.Padding, l.dims, 0), a.OutputPadding, a.Dilation, a.Groups, l.Bias)
}

// kernelOf is the size of the kernels of a weight.
func kernelOf(weight *autograd.Parameter) []int {
	s := weight.Shape()
	return s[min(2, len(s)):]
}

// describeConv writes what differs from the defaults, and the sizes.
func describeConv(name string, dims, in, out int, kernel, stride []int, padding string, outputPadding, dilation []int, groups int,
	bias *autograd.Parameter,
) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%dd(%d, %d, kernel_size=%s, stride=%s", name, dims, in, out, tuple(kernel, dims, 1), tuple(stride, dims, 1))
	for _, a := range []struct{ name, value, missing string }{
		{"padding", padding, tuple(nil, dims, 0)},
		{"dilation", tuple(dilation, dims, 1), tuple(nil, dims, 1)},
		{"output_padding", tuple(outputPadding, dims, 0), tuple(nil, dims, 0)},
		{"groups", fmt.Sprint(max(1, groups)), "1"},
	} {
		if a.value != a.missing {
			fmt.Fprintf(&b, ", %s=%s", a.name, a.value)
		}
	}
	if bias == nil {
		b.WriteString(", bias=False")
	}
	return b.String() + ")"
}
