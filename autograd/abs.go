package autograd

import "github.com/cistern-ml/cistern/tensor"

// Abs is |v|. Its gradient at 0 is 0. Saves v.
func (v *Variable) Abs() *Variable { return abs.apply(nil, v) }

var abs = define("abs", absForward, rule{uses: input(0), grad: absGrad})

func absForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Abs() }

func absGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		var w work
		return w.result(g.Mul(w.do(n.savedInput(0).Sign())))
	})
}
