package nn

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/autograd"
)

// LinearLayer is x @ Weightᵀ + Bias.
type LinearLayer struct {
	Base
	Weight *autograd.Parameter // [out, in]
	Bias   *autograd.Parameter // [out], or nil
}

// LayerOption changes how a layer with parameters is made. One that the layer does not have is an *ArgumentError of To and Forward.
type LayerOption func(*layer)

type layer struct {
	given
	noBias       bool
	weight, bias autograd.Initializer

	// normalisations: see norm.go and batchnorm.go
	affine        bool
	eps, momentum *float64 // nil for the default
	noStats       bool

	padding *int // the padding row of an embedding, nil for none
}

// apply applies options.
func (l *layer) apply(opts []LayerOption) {
	for _, o := range opts {
		if o != nil {
			o(l)
		}
	}
}

// NoBias makes a layer without a bias.
func NoBias() LayerOption { return func(l *layer) { l.note("NoBias"); l.noBias = true } }

// WeightInit initializes the weight by init, not by the layer's default.
func WeightInit(init autograd.Initializer) LayerOption {
	return func(l *layer) { l.note("WeightInit"); l.weight = init }
}

// BiasInit initializes the bias by init, not by the layer's default.
func BiasInit(init autograd.Initializer) LayerOption {
	return func(l *layer) { l.note("BiasInit"); l.bias = init }
}

// Linear makes a layer from [..., in] to [..., out]. Weight and bias start uniform in ±1/sqrt(in), as in PyTorch, which
// writes it as KaimingUniform with a gain of 1/sqrt 3.
func Linear(in, out int, opts ...LayerOption) *LinearLayer {
	bound := 0.0
	if in > 0 {
		bound = 1 / math.Sqrt(float64(in))
	}
	c := layer{weight: Uniform(-bound, bound), bias: Uniform(-bound, bound)}
	c.apply(opts)
	l := new(LinearLayer)
	l.refuseForeign(&c.given, "Linear", biased)
	l.Weight = autograd.DeclareParameter("weight", c.weight, out, in)
	if !c.noBias {
		l.Bias = autograd.DeclareParameter("bias", c.bias, out)
	}
	l.requires("weight", &l.Weight)
	l.RegisterParameterField("bias", &l.Bias)
	return l
}

// Forward implements Layer.
func (l *LinearLayer) Forward(x *autograd.Variable) *autograd.Variable {
	return l.forward(x, (*autograd.Variable).Linear)
}

// ForwardReLU is ReLU of Forward, in one pass over the result: what Sequential does with a ReLU behind a Linear.
func (l *LinearLayer) ForwardReLU(x *autograd.Variable) *autograd.Variable {
	return l.forwardThen(x, (*autograd.Variable).LinearReLU, (*autograd.Variable).ReLU)
}

// ForwardGELU is GELU of Forward, as ForwardReLU is ReLU.
func (l *LinearLayer) ForwardGELU(x *autograd.Variable) *autograd.Variable {
	return l.forwardThen(x, (*autograd.Variable).LinearGELU, (*autograd.Variable).GELU)
}

// ForwardGELUTanh is GELUTanh of Forward, as ForwardReLU is ReLU.
func (l *LinearLayer) ForwardGELUTanh(x *autograd.Variable) *autograd.Variable {
	return l.forwardThen(x, (*autograd.Variable).LinearGELUTanh, (*autograd.Variable).GELUTanh)
}

// forwardThen is Forward and a function of its result at once, or, where hooks see the result, one after the other.
func (l *LinearLayer) forwardThen(x *autograd.Variable, both func(x, weight, bias *autograd.Variable) *autograd.Variable,
	then func(*autograd.Variable) *autograd.Variable) *autograd.Variable {
	if l != nil && l.hooked() {
		return then(l.Forward(x))
	}
	return l.forward(x, both)
}

// forward is Forward with another function of input, weight and bias.
func (l *LinearLayer) forward(x *autograd.Variable, f func(x, weight, bias *autograd.Variable) *autograd.Variable) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		return f(x, param(g, l, "weight", l.Weight), optional(g, l, "bias", l.Bias))
	})
}

// String is PyTorch's description.
func (l *LinearLayer) String() string {
	if l == nil {
		return "nil"
	}
	bias := "True"
	if l.Bias == nil {
		bias = "False"
	}
	return fmt.Sprintf("Linear(in_features=%d, out_features=%d, bias=%s)", size(l.Weight, 1), size(l.Weight, 0), bias)
}

// size is the number of elements of p along a dimension, 0 where there is none: descriptions must not depend on what is in a field.
func size(p *autograd.Parameter, dim int) int {
	if s := p.Shape(); dim < len(s) {
		return s[dim]
	}
	return 0
}
