package autograd

import "github.com/cistern-ml/cistern/tensor"

func expGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.Mul(n.savedOutput()) })
}

func logGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.Div(n.savedInput(0)) })
}

// sqrtGrad is g / (2*sqrt v).
func sqrtGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		var w work
		return w.result(g.Div(w.do(n.savedOutput().MulScalar(2))))
	})
}

// rsqrtGrad is -g/2 * rsqrt(v)^3.
func rsqrtGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		var w work
		cube := w.do(n.savedOutput().PowScalar(3))
		return w.result(w.scrap(g.MulScalar(-0.5)).Mul(cube))
	})
}

// reciprocalGrad is -g / v².
func reciprocalGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		var w work
		out := n.savedOutput()
		return w.result(w.scrap(g.Neg()).Mul(w.do(out.Mul(out))))
	})
}

// log1pGrad is g / (1+v).
func log1pGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return inOwn(n.savedInput(0).AddScalar(1))(func(d *tensor.Tensor) (*tensor.Tensor, error) { return g.Div(d) })
}

// expm1Grad is g * (exp(v)-1 + 1), computed in one tensor.
func expm1Grad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return changed(func() (*tensor.Tensor, error) { return n.savedOutput().AddScalar(1) }, multiplied(g))
}
