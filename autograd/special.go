package autograd

import "github.com/cistern-ml/cistern/tensor"

// Gradients of hyperbolic and special functions that are other functions of the table.

// timesSlope makes the rule of an operation whose derivative is a function of its input.
func timesSlope(slope func(n *node, x *tensor.Tensor) (*tensor.Tensor, error)) gradFunc {
	return func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
		return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
			var w work
			return w.result(g.Mul(w.do(slope(n, n.savedInput(0)))))
		})
	}
}

var (
	sinhGrad      = timesSlope(func(_ *node, x *tensor.Tensor) (*tensor.Tensor, error) { return x.Cosh() })
	coshGrad      = timesSlope(func(_ *node, x *tensor.Tensor) (*tensor.Tensor, error) { return x.Sinh() })
	lgammaGrad    = timesSlope(func(_ *node, x *tensor.Tensor) (*tensor.Tensor, error) { return x.Digamma() })
	digammaGrad   = timesSlope(func(_ *node, x *tensor.Tensor) (*tensor.Tensor, error) { return x.Polygamma(1) })
	polygammaGrad = timesSlope(func(n *node, x *tensor.Tensor) (*tensor.Tensor, error) { return x.Polygamma(n.arg.(float64) + 1) })
)

// erfcGrad is that of Erf, negative.
func erfcGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		var w work
		return w.result(gradients.Erf(w.do(g.Neg()), n.savedInput(0)))
	})
}

// softshrinkGrad is that of Hardshrink.
func softshrinkGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		return gradients.Hardshrink(g, n.savedInput(0), n.arg.(float64))
	})
}
