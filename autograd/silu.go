package autograd

import "github.com/cistern-ml/cistern/tensor"

// SiLU is v*sigmoid(v). Saves v.
func (v *Variable) SiLU() *Variable { return silu.apply(nil, v) }

var silu = define("silu", siluForward, rule{uses: input(0), grad: siluGrad})

func siluForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).SiLU() }

func siluGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.SiLUGrad(n.savedInput(0)) })
}

// Softplus is log(1+exp(beta*v))/beta, and v itself where beta*v > threshold. PyTorch's defaults are 1 and 20. Saves v.
func (v *Variable) Softplus(beta, threshold float64) *Variable {
	return softplus.apply(softplusArg{beta, threshold}, v)
}

type softplusArg struct{ beta, threshold float64 }

var softplus = define("softplus", softplusForward, rule{uses: input(0), grad: softplusGrad})

func softplusForward(n *node) (*tensor.Tensor, error) {
	a := n.arg.(softplusArg)
	return n.tensor(0).Softplus(a.beta, a.threshold)
}

func softplusGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	a := n.arg.(softplusArg)
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) {
		return g.SoftplusGrad(n.savedInput(0), a.beta, a.threshold)
	})
}
