package autograd

import "github.com/cistern-ml/cistern/tensor"

// Linear is v @ weightᵀ + bias, where v is [..., in], weight is [out, in] and bias is [out], or nil for none. It saves v if
// the weight needs a gradient, and the weight if v does.
func (v *Variable) Linear(weight, bias *Variable) *Variable {
	if bias == nil {
		return linear.apply(nil, v, weight)
	}
	return linearBias.apply(nil, v, weight, bias)
}

var (
	linear = define("linear", linearForward,
		rule{uses: input(1), grad: linearGradInput},
		rule{uses: input(0), grad: linearGradWeight})
	linearBias = define("linear_bias", linearForward,
		rule{uses: input(1), grad: linearGradInput},
		rule{uses: input(0), grad: linearGradWeight},
		rule{grad: passGrad}) // summed over the rows by the engine
)

func linearForward(n *node) (*tensor.Tensor, error) {
	var bias *tensor.Tensor
	if len(n.in) == 3 {
		bias = n.tensor(2)
	}
	if f, ok := n.arg.(*fusion); ok {
		return f.forward(n, bias)
	}
	return tensor.Linear(n.tensor(0), n.tensor(1), bias)
}

// linearGradInput is g @ weight.
func linearGradInput(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return g.MatMul(n.savedInput(1))
}

// linearGradWeight is gᵀ @ v over all rows.
func linearGradWeight(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	rows := w.do(asRows(n.savedInput(0)))
	g = w.do(asRows(g))
	return w.result(w.do(g.Transpose(0, 1)).MatMul(rows))
}

// asRows joins all dimensions of t but the last into one. It is a view, unless t's strides do not allow it.
func asRows(t *tensor.Tensor) (*tensor.Tensor, error) {
	if t == nil {
		return nil, tensor.ErrReleased
	}
	last := t.NDim() - 1
	return t.Reshape(t.Shape()[:last].Len(), t.Dim(last))
}
