package autograd

import "github.com/cistern-ml/cistern/tensor"

// Where is a where cond (of type bool) holds, else b, with broadcasting. Saves cond.
func Where(cond, a, b *Variable) *Variable { return where.apply(nil, cond, a, b) }

// WhereScalar is a where cond holds, else v. The number lifts a's type to its category, and does not widen it: see tensor.WhereScalar for numbers that
// the type does not hold. Of two numbers one is a scalar of the type that the result shall have: WhereScalar(cond, g.Scalar(1, tensor.Float32), 0).
func WhereScalar(cond, a *Variable, v float64) *Variable {
	return whereScalar.apply(v, cond, a)
}

// RWhereScalar is v where cond holds, else b; see WhereScalar.
func RWhereScalar(cond *Variable, v float64, b *Variable) *Variable {
	return rwhereScalar.apply(v, cond, b)
}

var whereScalar = define("where_scalar", func(n *node) (*tensor.Tensor, error) {
	return tensor.WhereScalar(n.tensor(0), n.tensor(1), n.arg.(float64))
}, notDifferentiable(condition), rule{uses: input(0), grad: whereGradThen})

var rwhereScalar = define("rwhere_scalar", func(n *node) (*tensor.Tensor, error) {
	return tensor.RWhereScalar(n.tensor(0), n.arg.(float64), n.tensor(1))
}, notDifferentiable(condition), rule{uses: input(0), grad: whereGradElse})

const condition = "a condition is true or false"

var where = define("where", whereForward,
	notDifferentiable(condition),
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
