package autograd

import "github.com/cistern-ml/cistern/tensor"

// ReLU is max(v, 0). Its gradient at 0 is 0. Saves its result, which the next layer usually saves as well.
func (v *Variable) ReLU() *Variable { return relu.apply(nil, v) }

var relu = define("relu", reluForward, rule{uses: output, grad: reluGrad})

func reluForward(n *node) (*tensor.Tensor, error) {
	if t := made(n); t != nil {
		return t, nil
	}
	return n.tensor(0).ReLU()
}

func reluGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.ReLUGrad(n.savedOutput()) })
}

// LeakyReLU is v where v > 0, else slope*v. PyTorch's default slope is 0.01. Saves v.
func (v *Variable) LeakyReLU(slope float64) *Variable { return leakyReLU.apply(slope, v) }

var leakyReLU = define("leaky_relu", leakyReLUForward, rule{uses: input(0), grad: leakyReLUGrad})

func leakyReLUForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).LeakyReLU(n.arg.(float64)) }

func leakyReLUGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		return g.LeakyReLUGrad(n.savedInput(0), n.arg.(float64))
	})
}
