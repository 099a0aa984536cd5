package autograd

import "github.com/cistern-ml/cistern/tensor"

// The operations in this file take a Go number. As in PyTorch it does not widen the type of a tensor.

// SubScalar is v - s. Saves nothing.
func (v *Variable) SubScalar(s float64) *Variable { return subScalar.apply(s, v) }

var subScalar = define("sub_scalar", subScalarForward, rule{grad: passGrad})

func subScalarForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).SubScalar(n.arg.(float64)) }

func mulScalarGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.MulScalar(n.arg.(float64)) })
}

func divScalarGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.DivScalar(n.arg.(float64)) })
}
