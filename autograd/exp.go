package autograd

import "github.com/cistern-ml/cistern/tensor"

// Exp is e to the power of v. Saves its result.
func (v *Variable) Exp() *Variable { return exp.apply(nil, v) }

var exp = define("exp", expForward, rule{uses: output, grad: expGrad})

func expForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Exp() }

func expGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.Mul(n.savedOutput()) })
}

// Log is the natural logarithm. Saves v.
func (v *Variable) Log() *Variable { return log.apply(nil, v) }

var log = define("log", logForward, rule{uses: input(0), grad: logGrad})

func logForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Log() }

func logGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.Div(n.savedInput(0)) })
}

// Sqrt is the square root. Saves its result.
func (v *Variable) Sqrt() *Variable { return sqrt.apply(nil, v) }

var sqrt = define("sqrt", sqrtForward, rule{uses: output, grad: sqrtGrad})

func sqrtForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Sqrt() }

// sqrtGrad is g / (2*sqrt v).
func sqrtGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		var w work
		return w.result(g.Div(w.do(n.savedOutput().MulScalar(2))))
	})
}

// Rsqrt is 1/sqrt(v). Saves its result.
func (v *Variable) Rsqrt() *Variable { return rsqrt.apply(nil, v) }

var rsqrt = define("rsqrt", rsqrtForward, rule{uses: output, grad: rsqrtGrad})

func rsqrtForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Rsqrt() }

// rsqrtGrad is -g/2 * rsqrt(v)^3.
func rsqrtGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		var w work
		cube := w.do(n.savedOutput().PowScalar(3))
		return w.result(w.scrap(g.MulScalar(-0.5)).Mul(cube))
	})
}

// Reciprocal is 1/v. Saves its result.
func (v *Variable) Reciprocal() *Variable { return reciprocal.apply(nil, v) }

var reciprocal = define("reciprocal", reciprocalForward, rule{uses: output, grad: reciprocalGrad})

func reciprocalForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Reciprocal() }

// reciprocalGrad is -g / v².
func reciprocalGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		var w work
		out := n.savedOutput()
		return w.result(w.scrap(g.Neg()).Mul(w.do(out.Mul(out))))
	})
}
