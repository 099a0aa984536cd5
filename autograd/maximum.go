package autograd

import "github.com/cistern-ml/cistern/tensor"

// Maximum is the larger of v and u element by element, with broadcasting. Equal elements share the gradient. Saves both.
func (v *Variable) Maximum(u *Variable) *Variable { return maximum.apply(nil, v, u) }

var maximum = define("maximum", maximumForward,
	rule{uses: input(0) | input(1), grad: maximumGrad},
	rule{uses: input(0) | input(1), grad: maximumGrad})

func maximumForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Maximum(n.tensor(1)) }

func maximumGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return extremumGrad(g, n.savedInput(i), n.savedInput(1-i), (*tensor.Tensor).Lt)
}

// Minimum is the smaller of v and u element by element, with broadcasting. Equal elements share the gradient. Saves both.
func (v *Variable) Minimum(u *Variable) *Variable { return minimum.apply(nil, v, u) }

var minimum = define("minimum", minimumForward,
	rule{uses: input(0) | input(1), grad: minimumGrad},
	rule{uses: input(0) | input(1), grad: minimumGrad})

func minimumForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Minimum(n.tensor(1)) }

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
