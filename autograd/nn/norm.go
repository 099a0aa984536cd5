package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
)

// Options of normalisations, beside NoBias, WeightInit and BiasInit.

// Eps is what is added to variances, instead of the layer's default.
func Eps(eps float64) LayerOption { return func(l *layer) { l.note("Eps"); l.eps = &eps } }

// Affine makes a normalisation with a weight and a bias, or without: the default is with, but for instance norm.
func Affine(on bool) LayerOption { return func(l *layer) { l.note("Affine"); l.affine = on } }

// epsOr is the option, or the default.
func (l *layer) epsOr(eps float64) float64 {
	if l.eps != nil {
		return *l.eps
	}
	return eps
}

// affine declares the weight and the bias of a normalisation, which start as 1 and 0, and registers their fields; what the options
// leave out stays nil. A nil bias is the place of none.
func (b *Base) affine(c *layer, weight, bias **autograd.Parameter, shape ...int) {
	if c.affine {
		*weight = autograd.DeclareParameter("weight", c.weight, shape...)
	}
	b.RegisterParameterField("weight", weight)
	if bias == nil {
		return
	}
	if c.affine && !c.noBias {
		*bias = autograd.DeclareParameter("bias", c.bias, shape...)
	}
	b.RegisterParameterField("bias", bias)
}

// normLayer is the options of a normalisation.
func normLayer(affine bool, opts []LayerOption) *layer {
	c := &layer{weight: Ones, bias: Zeros, affine: affine}
	c.apply(opts)
	return c
}

// LayerNormLayer normalises over the last dimensions.
type LayerNormLayer struct {
	Base
	Shape  []int // of the last dimensions
	Eps    float64
	Weight *autograd.Parameter // of that shape, or nil
	Bias   *autograd.Parameter // likewise
}

// LayerNorm makes a layer that normalises over the last dimensions, whose sizes are shape, and multiplies by a weight and adds
// a bias of that shape, which start as 1 and 0. Eps is 1e-5 unless an option says otherwise.
func LayerNorm(shape []int, opts ...LayerOption) *LayerNormLayer {
	c := normLayer(true, opts)
	l := &LayerNormLayer{Shape: shape, Eps: c.epsOr(1e-5)}
	l.refuseForeign(&c.given, "LayerNorm", normalises)
	l.affine(c, &l.Weight, &l.Bias, shape...)
	return l
}

// Forward implements Layer.
func (l *LayerNormLayer) Forward(x *autograd.Variable) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		return x.LayerNorm(l.Shape, optional(g, l, "weight", l.Weight), optional(g, l, "bias", l.Bias), l.Eps)
	})
}

// BeforeLinear is Forward for a result that linear layers alone read: under autocast the layer then writes it in the precision in which they compute, and needs
// no conversion behind it. With hooks, which see what a layer returns, it is Forward.
func (l *LayerNormLayer) BeforeLinear(x *autograd.Variable) *autograd.Variable {
	if l != nil && l.hooked() {
		return l.Forward(x)
	}
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		return x.LayerNormFor("linear", l.Shape, optional(g, l, "weight", l.Weight), optional(g, l, "bias", l.Bias), l.Eps)
	})
}

// String is PyTorch's description.
func (l *LayerNormLayer) String() string {
	if l == nil {
		return "nil"
	}
	return fmt.Sprintf("LayerNorm(%s, eps=%v, elementwise_affine=%s)", tuple(l.Shape, len(l.Shape), 1), l.Eps, truth(l.Weight != nil))
}

// RMSNormLayer divides by the root of the mean of squares over the last dimensions.
type RMSNormLayer struct {
	Base
	Shape  []int               // of the last dimensions
	Eps    float64             // autograd.DefaultEps: that of the input's type
	Weight *autograd.Parameter // of that shape, or nil
}

// RMSNorm makes a layer that divides by the root of the mean of squares over the last dimensions, whose sizes are shape, and
// multiplies by a weight of that shape, which starts as 1. Eps is the machine epsilon of the input's type unless an option says
// otherwise.
func RMSNorm(shape []int, opts ...LayerOption) *RMSNormLayer {
	c := normLayer(true, opts)
	l := &RMSNormLayer{Shape: shape, Eps: c.epsOr(autograd.DefaultEps)}
	l.refuseForeign(&c.given, "RMSNorm", "WeightInit Eps Affine")
	l.affine(c, &l.Weight, nil, shape...)
	return l
}

// Forward implements Layer.
func (l *RMSNormLayer) Forward(x *autograd.Variable) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		return x.RMSNorm(l.Shape, optional(g, l, "weight", l.Weight), l.Eps)
	})
}

// BeforeLinear is Forward for a result that linear layers alone read, as LayerNormLayer.BeforeLinear is.
func (l *RMSNormLayer) BeforeLinear(x *autograd.Variable) *autograd.Variable {
	if l != nil && l.hooked() {
		return l.Forward(x)
	}
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		return x.RMSNormFor("linear", l.Shape, optional(g, l, "weight", l.Weight), l.Eps)
	})
}

// String is PyTorch's description.
func (l *RMSNormLayer) String() string {
	if l == nil {
		return "nil"
	}
	eps := "None"
	if l.Eps != autograd.DefaultEps {
		eps = fmt.Sprint(l.Eps)
	}
	return fmt.Sprintf("RMSNorm(%s, eps=%s, elementwise_affine=%s)", tuple(l.Shape, len(l.Shape), 1), eps, truth(l.Weight != nil))
}

// GroupNormLayer normalises over groups of channels.
type GroupNormLayer struct {
	Base
	Groups, Channels int
	Eps              float64
	Weight           *autograd.Parameter // [channels], or nil
	Bias             *autograd.Parameter // likewise
}

// GroupNorm makes a layer that normalises each sample of [N, channels, ...] over groups of channels, and multiplies by a weight and
// adds a bias of each channel, which start as 1 and 0. Eps is 1e-5 unless an option says otherwise.
func GroupNorm(groups, channels int, opts ...LayerOption) *GroupNormLayer {
	c := normLayer(true, opts)
	l := &GroupNormLayer{Groups: groups, Channels: channels, Eps: c.epsOr(1e-5)}
	l.refuseForeign(&c.given, "GroupNorm", normalises)
	if groups < 1 || channels%groups != 0 {
		l.mistaken(argumentErr("GroupNorm", "%d channels do not divide into %d groups", channels, groups))
	}
	l.affine(c, &l.Weight, &l.Bias, channels)
	return l
}

// Forward implements Layer.
func (l *GroupNormLayer) Forward(x *autograd.Variable) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		if x.Alive() && x.NDim() >= 2 && x.Dim(1) != l.Channels {
			return g.Refuse("group_norm", shapeError("GroupNorm", x, "%d channels, the layer has %d; want [N, %d, ...]", x.Dim(1), l.Channels, l.Channels), x)
		}
		return x.GroupNorm(l.Groups, optional(g, l, "weight", l.Weight), optional(g, l, "bias", l.Bias), l.Eps)
	})
}

// String is PyTorch's description.
func (l *GroupNormLayer) String() string {
	if l == nil {
		return "nil"
	}
	return fmt.Sprintf("GroupNorm(%d, %d, eps=%v, affine=%s)", l.Groups, l.Channels, l.Eps, truth(l.Weight != nil))
}

// InstanceNormLayer normalises each channel of each sample.
type InstanceNormLayer struct {
	Base
	name     string
	dims     []int // numbers of dimensions that it takes
	Channels int
	Eps      float64
	Weight   *autograd.Parameter // [channels], or nil
	Bias     *autograd.Parameter // likewise
}

// InstanceNorm1d makes a layer that normalises each channel of each sample of [N, channels, L]. Eps is 1e-5 unless an option says
// otherwise; weight and bias are there with Affine(true). It keeps no running statistics (PyTorch's track_running_stats).
func InstanceNorm1d(channels int, opts ...LayerOption) *InstanceNormLayer {
	return instanceNorm("InstanceNorm1d", []int{3}, channels, opts)
}

// InstanceNorm2d is InstanceNorm1d for [N, channels, H, W].
func InstanceNorm2d(channels int, opts ...LayerOption) *InstanceNormLayer {
	return instanceNorm("InstanceNorm2d", []int{4}, channels, opts)
}

// InstanceNorm3d is InstanceNorm1d for [N, channels, D, H, W].
func InstanceNorm3d(channels int, opts ...LayerOption) *InstanceNormLayer {
	return instanceNorm("InstanceNorm3d", []int{5}, channels, opts)
}

func instanceNorm(name string, dims []int, channels int, opts []LayerOption) *InstanceNormLayer {
	c := normLayer(false, opts)
	l := &InstanceNormLayer{name: name, dims: dims, Channels: channels, Eps: c.epsOr(1e-5)}
	l.refuseForeign(&c.given, name, normalises)
	l.affine(c, &l.Weight, &l.Bias, channels)
	return l
}

// Forward implements Layer.
func (l *InstanceNormLayer) Forward(x *autograd.Variable) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		if err := channelsOf(l.name, x, l.dims, l.Channels); err != nil {
			return g.Refuse("instance_norm", err, x)
		}
		return x.InstanceNorm(optional(g, l, "weight", l.Weight), optional(g, l, "bias", l.Bias), l.Eps)
	})
}

// String is PyTorch's description.
func (l *InstanceNormLayer) String() string {
	if l == nil {
		return "nil"
	}
	return fmt.Sprintf("%s(%d, eps=%v, momentum=0.1, affine=%s, track_running_stats=False)", l.name, l.Channels, l.Eps, truth(l.Weight != nil))
}

// truth is a bool as Python writes it.
func truth(b bool) string {
	if b {
		return "True"
	}
	return "False"
}
