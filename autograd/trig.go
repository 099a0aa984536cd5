package autograd

import "github.com/cistern-ml/cistern/tensor"

// Sin is the sine of v in radians. Saves v.
func (v *Variable) Sin() *Variable { return sin.apply(nil, v) }

var sin = define("sin", sinForward, rule{uses: input(0), grad: sinGrad})

func sinForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Sin() }

func sinGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		var w work
		return w.result(g.Mul(w.do(n.savedInput(0).Cos())))
	})
}

// Cos is the cosine of v in radians. Saves v.
func (v *Variable) Cos() *Variable { return cos.apply(nil, v) }

var cos = define("cos", cosForward, rule{uses: input(0), grad: cosGrad})

func cosForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Cos() }

func cosGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		var w work
		return w.result(w.scrap(g.Neg()).Mul(w.do(n.savedInput(0).Sin())))
	})
}
