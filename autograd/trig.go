package autograd

import "github.com/cistern-ml/cistern/tensor"

func sinGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		var w work
		return w.result(g.Mul(w.do(n.savedInput(0).Cos())))
	})
}

func cosGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		var w work
		return w.result(w.scrap(g.Neg()).Mul(w.do(n.savedInput(0).Sin())))
	})
}
