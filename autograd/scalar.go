package autograd

import "github.com/cistern-ml/cistern/tensor"

// The operations in this file take a Go number. As in PyTorch it does not widen the type of a tensor.

// AddScalar is v + s. Saves nothing.
func (v *Variable) AddScalar(s float64) *Variable { return addScalar.apply(s, v) }

var addScalar = define("add_scalar", addScalarForward, rule{grad: passGrad})

func addScalarForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).AddScalar(n.arg.(float64)) }

// SubScalar is v - s. Saves nothing.
func (v *Variable) SubScalar(s float64) *Variable { return subScalar.apply(s, v) }

var subScalar = define("sub_scalar", subScalarForward, rule{grad: passGrad})

func subScalarForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).SubScalar(n.arg.(float64)) }

// MulScalar is v * s. Saves nothing.
func (v *Variable) MulScalar(s float64) *Variable { return mulScalar.apply(s, v) }

var mulScalar = define("mul_scalar", mulScalarForward, rule{grad: mulScalarGrad})

func mulScalarForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).MulScalar(n.arg.(float64)) }

func mulScalarGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.MulScalar(n.arg.(float64)) })
}

// DivScalar is v / s, true division. Saves nothing.
func (v *Variable) DivScalar(s float64) *Variable { return divScalar.apply(s, v) }

var divScalar = define("div_scalar", divScalarForward, rule{grad: divScalarGrad})

func divScalarForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).DivScalar(n.arg.(float64)) }

func divScalarGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.DivScalar(n.arg.(float64)) })
}
