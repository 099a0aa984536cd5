package autograd

import "github.com/cistern-ml/cistern/tensor"

func maximumGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return extremumGrad(g, n.savedInput(i), n.savedInput(1-i), (*tensor.Tensor).Lt)
}

func minimumGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return extremumGrad(g, n.savedInput(i), n.savedInput(1-i), (*tensor.Tensor).Gt)
}

// extremumGrad is g where x won, half of it where x and y are equal, and 0 where x loses to y.
func extremumGrad(g, x, y *tensor.Tensor, loses func(x, y *tensor.Tensor) (*tensor.Tensor, error)) (*tensor.Tensor, error) {
	var w work
	half := w.do(g.MulScalar(0.5))
	shared := w.do(tensor.Where(w.do(x.Eq(y)), half, g))
	return w.result(zeroWhere(w.do(loses(x, y)), shared))
}
