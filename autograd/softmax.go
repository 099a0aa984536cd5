package autograd

import "github.com/cistern-ml/cistern/tensor"

// Softmax is exp(v) divided by its sum along dim, computed relative to the maximum. Saves its result.
func (v *Variable) Softmax(dim int) *Variable { return softmax.apply(dim, v) }

var softmax = define("softmax", softmaxForward, rule{uses: output, grad: softmaxGrad})

func softmaxForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Softmax(n.arg.(int)) }

func softmaxGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		return gradients.Softmax(g, n.savedOutput(), n.arg.(int))
	})
}

// LogSoftmax is the logarithm of Softmax, computed as v - log(sum(exp(v))). Saves its result.
func (v *Variable) LogSoftmax(dim int) *Variable { return logSoftmax.apply(dim, v) }

var logSoftmax = define("log_softmax", logSoftmaxForward, rule{uses: output, grad: logSoftmaxGrad})

func logSoftmaxForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).LogSoftmax(n.arg.(int)) }

func logSoftmaxGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		return gradients.LogSoftmax(g, n.savedOutput(), n.arg.(int))
	})
}
