package autograd

import "github.com/cistern-ml/cistern/tensor"

// Sigmoid is 1/(1+exp(-v)). Saves its result.
func (v *Variable) Sigmoid() *Variable { return sigmoid.apply(nil, v) }

var sigmoid = define("sigmoid", sigmoidForward, rule{uses: output, grad: sigmoidGrad})

func sigmoidForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Sigmoid() }

func sigmoidGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.SigmoidGrad(n.savedOutput()) })
}

// Tanh is the hyperbolic tangent. Saves its result.
func (v *Variable) Tanh() *Variable { return tanh.apply(nil, v) }

var tanh = define("tanh", tanhForward, rule{uses: output, grad: tanhGrad})

func tanhForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Tanh() }

func tanhGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.TanhGrad(n.savedOutput()) })
}
