package nn

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
)

// PReLULayer is ReLU with a slope below 0 that is learned.
type PReLULayer struct {
	Base
	Weight *autograd.Parameter // [1], or [C]
}

// PReLU makes a layer that is x where x > 0, else weight*x: with one weight, or with one for each of channels, dimension 1 of its input.
// They start as 0.25, as in PyTorch, unless WeightInit says otherwise.
func PReLU(channels int, opts ...LayerOption) *PReLULayer {
	c := layer{weight: Constant(0.25)}
	c.apply(opts)
	l := &PReLULayer{Weight: autograd.DeclareParameter("weight", c.weight, channels)}
	l.refuseForeign(&c.given, "PReLU", "WeightInit")
	l.requires("weight", &l.Weight)
	return l
}

// Forward implements Layer.
func (l *PReLULayer) Forward(x *autograd.Variable) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		w := param(g, l, "weight", l.Weight)
		if w.Len() == 1 || x.NDim() <= 2 {
			return x.PReLU(w)
		}
		shape := make([]int, x.NDim()-1)
		for i := range shape {
			shape[i] = 1
		}
		shape[0] = w.Len()
		return x.PReLU(w.Reshape(shape...))
	})
}

// String is PyTorch's description.
func (l *PReLULayer) String() string {
	if l == nil {
		return "nil"
	}
	return fmt.Sprintf("PReLU(num_parameters=%d)", size(l.Weight, 0))
}
