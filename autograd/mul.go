package autograd

import "github.com/cistern-ml/cistern/tensor"

// Mul is v * u element by element, with broadcasting. Saves each factor whose partner needs a gradient.
func (v *Variable) Mul(u *Variable) *Variable { return mul.apply(nil, v, u) }

var mul = define("mul", mulForward,
	rule{uses: input(1), grad: mulGrad},
	rule{uses: input(0), grad: mulGrad})

func mulForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Mul(n.tensor(1)) }

// The gradient of one factor is g times the other.
func mulGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.Mul(n.savedInput(1 - i)) })
}

// Div is v / u, true division, with broadcasting. Saves u, and also v if u needs a gradient.
func (v *Variable) Div(u *Variable) *Variable { return div.apply(nil, v, u) }

var div = define("div", divForward,
	rule{uses: input(1), grad: divGradDividend},
	rule{uses: input(0) | input(1), grad: divGradDivisor})

func divForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Div(n.tensor(1)) }

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
