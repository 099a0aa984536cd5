package autograd

import "github.com/cistern-ml/cistern/tensor"

// log1pGrad is g / (1+v).
func log1pGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return inOwn(n.savedInput(0).AddScalar(1))(func(d *tensor.Tensor) (*tensor.Tensor, error) { return g.Div(d) })
}

// expm1Grad is g * (exp(v)-1 + 1), computed in one tensor.
func expm1Grad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return changed(func() (*tensor.Tensor, error) { return n.savedOutput().AddScalar(1) }, multiplied(g))
}

// ReLU6 is v brought into 0..6, with Hardtanh's gradient. Saves v.
func (v *Variable) ReLU6() *Variable { return hardtanh.apply([2]float64{0, 6}, v) }

// zeroGrad is one 0, repeated without taking memory.
func zeroGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	z, err := zero(g)
	if err != nil {
		return nil, err
	}
	return after(z, func(z *tensor.Tensor) (*tensor.Tensor, error) { return z.Expand(n.in[i].Shape()...) })
}
