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
		rule{uses: input(0), grad: linearGradWeight, wide: true})
	linearBias = define("linear_bias", linearForward,
		rule{uses: input(1), grad: linearGradInput},
		rule{uses: input(0), grad: linearGradWeight, wide: true},
		rule{grad: linearGradBias, wide: true})
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

// linearGradWeight is gᵀ @ v over all rows. Where the gradient shall be float32 it is computed as that, and not rounded to the type of g first; and
// the bias's comes with it, from one kernel.
func linearGradWeight(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	rows := w.do(asRows(n.savedInput(0)))
	g = w.do(asRows(g))
	dt := gradients.LinearWeightType(g)
	if n.gradType(1) != dt {
		return w.result(w.do(g.Transpose(0, 1)).MatMul(rows))
	}
	weight, bias, err := gradients.LinearWeight(g, rows, n.flowing(2) && n.gradType(2) == dt)
	if bias != nil {
		n.beside = n.g.ledger.add(bias)
	}
	return w.result(weight, err)
}

// linearGradBias is what linearGradWeight has computed of it, or else g, which the engine sums over the rows.
func linearGradBias(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	if n.beside == nil {
		return passGrad(n, i, g)
	}
	t := n.g.ledger.surrender(n.beside)
	n.beside = nil
	return t, nil
}

// asRows joins all dimensions of t but the last into one. It is a view, unless t's strides do not allow it.
func asRows(t *tensor.Tensor) (*tensor.Tensor, error) {
	if t == nil {
		return nil, tensor.ErrReleased
	}
	last := t.NDim() - 1
	return t.Reshape(t.Shape()[:last].Len(), t.Dim(last))
}
