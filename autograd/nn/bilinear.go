package nn

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/autograd"
)

// BilinearLayer is x1 * Weight * x2 + Bias of two inputs.
type BilinearLayer struct {
	Base
	Weight *autograd.Parameter // [out, in1, in2]
	Bias   *autograd.Parameter // [out], or nil
}

// Bilinear makes a layer from [..., in1] and [..., in2] to [..., out]. Weight and bias start uniform in ±1/sqrt(in1), as in PyTorch.
func Bilinear(in1, in2, out int, opts ...LayerOption) *BilinearLayer {
	bound := 0.0
	if in1 > 0 {
		bound = 1 / math.Sqrt(float64(in1))
	}
	c := layer{weight: Uniform(-bound, bound), bias: Uniform(-bound, bound)}
	c.apply(opts)
	l := new(BilinearLayer)
	l.refuseForeign(&c.given, "Bilinear", biased)
	if in1 <= 0 {
		l.mistaken(argumentErr("Bilinear", "%d features of the first input; there must be 1 at least", in1))
	}
	l.Weight = autograd.DeclareParameter("weight", c.weight, out, in1, in2)
	if !c.noBias {
		l.Bias = autograd.DeclareParameter("bias", c.bias, out)
	}
	l.requires("weight", &l.Weight)
	l.RegisterParameterField("bias", &l.Bias)
	return l
}

// Forward computes the layer's function of two inputs, which have one shape but for the last dimension.
func (l *BilinearLayer) Forward(x1, x2 *autograd.Variable) *autograd.Variable {
	return within(l, x1, func(g *autograd.Graph) *autograd.Variable {
		return autograd.Bilinear(x1, x2, param(g, l, "weight", l.Weight), optional(g, l, "bias", l.Bias))
	})
}

// String is PyTorch's description.
func (l *BilinearLayer) String() string {
	if l == nil {
		return "nil"
	}
	bias := "True"
	if l.Bias == nil {
		bias = "False"
	}
	return fmt.Sprintf("Bilinear(in1_features=%d, in2_features=%d, out_features=%d, bias=%s)", size(l.Weight, 1), size(l.Weight, 2), size(l.Weight, 0), bias)
}
