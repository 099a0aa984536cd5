package autograd

import "github.com/cistern-ml/cistern/tensor"

func absGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		var w work
		return w.result(g.Mul(w.do(n.savedInput(0).Sign())))
	})
}
