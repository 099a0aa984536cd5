package autograd

import "github.com/cistern-ml/cistern/tensor"

// The gradient of one factor is g times the other.
func mulGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.Mul(n.savedInput(1 - i)) })
}

// divGradDividend is g / u.
func divGradDividend(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.Div(n.savedInput(1)) })
}

// divGradDivisor is -g * (v/u)/u, in the order of PyTorch.
func divGradDivisor(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		var w work
		v, u := n.savedInput(0), n.savedInput(1)
		q := w.do(w.scrap(v.Div(u)).Div(u))
		return w.result(w.scrap(g.Neg()).Mul(q))
	})
}
