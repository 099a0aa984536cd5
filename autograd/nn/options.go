package nn

import (
	"fmt"
	"strings"

	"github.com/cistern-ml/cistern/tensor"
)

// ConvOption changes how a convolution is made: a LayerOption, a WindowOption, or one of those that only convolutions have.
type ConvOption interface{ changeConv(c *conv) }

// PoolOption changes how a pooling layer is made: a WindowOption, or one of those that only pooling has.
type PoolOption interface{ changePool(p *pool) }

// conv is a convolution in the making.
type conv struct {
	layer
	kernel, stride, padding, outputPadding, dilation []int
	same                                             bool
	groups                                           *int // nil if not given
}

// pool is a pooling layer in the making.
type pool struct {
	tensor.Pool
	given
	wrong error
}

func (o LayerOption) changeConv(c *conv) {
	if o != nil {
		o(&c.layer)
	}
}

// WindowOption is an option of both convolutions and pooling.
type WindowOption struct {
	conv func(c *conv)
	pool func(p *pool)
}

func (o WindowOption) changeConv(c *conv) {
	if o.conv != nil {
		o.conv(c)
	}
}

func (o WindowOption) changePool(p *pool) {
	if o.pool != nil {
		o.pool(p)
	}
}

// KernelSize makes a window of different sizes along the dimensions, in place of the constructor's one number, which stays if none
// are given.
func KernelSize(n ...int) WindowOption {
	if len(n) == 0 {
		return WindowOption{}
	}
	return WindowOption{func(c *conv) { c.kernel = n }, func(p *pool) { p.Kernel = n }}
}

// Stride moves the window by so much: one number for all dimensions, or one for each, as in the options below.
func Stride(n ...int) WindowOption {
	return WindowOption{func(c *conv) { c.stride = n }, func(p *pool) { p.Stride = n }}
}

// Padding adds zeros on all sides (for MaxPool: what is never the largest).
func Padding(n ...int) WindowOption {
	return WindowOption{func(c *conv) { c.padding = n }, func(p *pool) { p.Padding = n }}
}

// Dilation is the distance of neighbouring elements of the window.
func Dilation(n ...int) WindowOption {
	return WindowOption{func(c *conv) { c.dilation = n }, func(p *pool) { p.note("Dilation"); p.Dilation = n }}
}

type convOption func(c *conv)

func (o convOption) changeConv(c *conv) { o(c) }

// Groups cuts channels and outputs into n groups, at least 1, which have nothing to do with each other.
func Groups(n int) ConvOption { return convOption(func(c *conv) { c.groups = &n }) }

// PaddingSame pads so that the result has the size of the input (padding="same"). The stride must be 1.
func PaddingSame() ConvOption {
	return convOption(func(c *conv) { c.note("PaddingSame"); c.same = true })
}

// OutputPadding adds to one side of the result of a transposed convolution.
func OutputPadding(n ...int) ConvOption {
	return convOption(func(c *conv) { c.note("OutputPadding"); c.outputPadding = n })
}

type poolOption func(p *pool)

func (o poolOption) changePool(p *pool) { o(p) }

// CeilMode lets the last window reach over the input, if it begins inside.
func CeilMode() PoolOption { return poolOption(func(p *pool) { p.CeilMode = true }) }

// ExcludePadding makes averages of the elements of the input alone (count_include_pad=False).
func ExcludePadding() PoolOption {
	return poolOption(func(p *pool) { p.note("ExcludePadding"); p.ExcludePadding = true })
}

// DivisorOverride is what sums are divided by, in place of the size of the window; it may not be 0.
func DivisorOverride(n int) PoolOption {
	return poolOption(func(p *pool) {
		p.note("DivisorOverride")
		if p.DivisorOverride = n; n == 0 {
			p.wrong = argumentErr("DivisorOverride", "the divisor is 0")
		}
	})
}

// tuple is PyTorch's way to write numbers of dimensions: missing stands for none, and one number for all of them.
func tuple(list []int, dims, missing int) string {
	if len(list) == 0 {
		list = []int{missing}
	}
	parts := make([]string, dims)
	for d := range parts {
		parts[d] = fmt.Sprint(list[min(d, len(list)-1)])
	}
	if dims == 1 {
		return "(" + parts[0] + ",)"
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// plain is PyTorch's way to write an argument as it was given: one number, or a tuple.
func plain(list []int, missing int) string {
	switch len(list) {
	case 0:
		return fmt.Sprint(missing)
	case 1:
		return fmt.Sprint(list[0])
	}
	return tuple(list, len(list), missing)
}
