package autograd

import "github.com/cistern-ml/cistern/tensor"

// Add is v + u, with broadcasting and PyTorch's promotion of types. Saves nothing.
func (v *Variable) Add(u *Variable) *Variable { return add.apply(nil, v, u) }

var add = define("add", addForward, rule{grad: passGrad}, rule{grad: passGrad})

func addForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Add(n.tensor(1)) }

// passGrad hands the gradient through: no copy is made, both sides share its memory.
func passGrad(_ *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) { return g.Retain(), nil }

func negGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, (*tensor.Tensor).Neg)
}
