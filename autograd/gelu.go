package autograd

import "github.com/cistern-ml/cistern/tensor"

// GELU is v times the normal distribution function at v. Saves v.
func (v *Variable) GELU() *Variable { return gelu.apply(nil, v) }

var gelu = define("gelu", geluForward, rule{uses: input(0), grad: geluGrad})

func geluForward(n *node) (*tensor.Tensor, error) {
	if t := made(n); t != nil {
		return t, nil
	}
	return n.tensor(0).GELU()
}

func geluGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.GELUGrad(n.savedInput(0)) })
}

// GELUTanh is the tanh approximation of GELU. Saves v.
func (v *Variable) GELUTanh() *Variable { return geluTanh.apply(nil, v) }

var geluTanh = define("gelu_tanh", geluTanhForward, rule{uses: input(0), grad: geluTanhGrad})

func geluTanhForward(n *node) (*tensor.Tensor, error) {
	if t := made(n); t != nil {
		return t, nil
	}
	return n.tensor(0).GELUTanh()
}

func geluTanhGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.GELUTanhGrad(n.savedInput(0)) })
}
