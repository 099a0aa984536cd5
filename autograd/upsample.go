package autograd

import "github.com/cistern-ml/cistern/tensor"

// UpsampleNearest2d takes each element of the result from an element of v, [N, C, H, W], as tensor.UpsampleNearest2d says. Saves nothing.
func (v *Variable) UpsampleNearest2d(u tensor.Upsample) *Variable {
	return upsampleNearest2d.apply(u, v)
}

var upsampleNearest2d = define("upsample_nearest2d",
	func(n *node) (*tensor.Tensor, error) { return n.tensor(0).UpsampleNearest2d(n.arg.(tensor.Upsample)) },
	rule{grad: func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
		return gradients.In(n.in[0].order()).UpsampleNearest2d(g, n.in[0].Shape(), n.arg.(tensor.Upsample))
	}})

// UpsampleBilinear2d interpolates each element of the result between the four elements of v, [N, C, H, W], around it. Saves
// nothing.
func (v *Variable) UpsampleBilinear2d(u tensor.Upsample) *Variable {
	return upsampleBilinear2d.apply(u, v)
}

var upsampleBilinear2d = define("upsample_bilinear2d",
	func(n *node) (*tensor.Tensor, error) { return n.tensor(0).UpsampleBilinear2d(n.arg.(tensor.Upsample)) },
	rule{grad: func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
		return gradients.In(n.in[0].order()).UpsampleBilinear2d(g, n.in[0].Shape(), n.arg.(tensor.Upsample))
	}})
