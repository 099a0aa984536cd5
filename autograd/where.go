package autograd

import "github.com/cistern-ml/cistern/tensor"

// Where is a where cond (of type bool) holds, else b, with broadcasting. Saves cond.
func Where(cond, a, b *Variable) *Variable { return where.apply(nil, cond, a, b) }

var where = define("where", whereForward,
	notDifferentiable("a condition is true or false"),
	rule{uses: input(0), grad: whereGradThen},
	rule{uses: input(0), grad: whereGradElse})

func whereForward(n *node) (*tensor.Tensor, error) {
	return tensor.Where(n.tensor(0), n.tensor(1), n.tensor(2))
}

func whereGradThen(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return keepWhere(n.savedInput(0), g) })
}

func whereGradElse(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return zeroWhere(n.savedInput(0), g) })
}
