package autograd

import "github.com/cistern-ml/cistern/tensor"

// The operations in this file give v another shape. They save nothing: the gradient only needs v's shape.

// Reshape gives v another shape of as many elements; one dimension may be -1, for what is left. The result shares v's
// memory where its strides allow it, else it is a copy.
func (v *Variable) Reshape(shape ...int) *Variable { return reshape.apply(shape, v) }

var reshape = define("reshape", reshapeForward, rule{grad: reshapeGrad})

func reshapeForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Reshape(n.arg.([]int)...) }

// reshapeGrad gives g the shape of the input. It serves every operation that keeps the elements in their order.
func reshapeGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return g.Reshape(n.in[0].Shape()...)
}

// View is Reshape that never copies: where strides do not allow it, it is an error.
func (v *Variable) View(shape ...int) *Variable { return view.apply(shape, v) }

var view = define("view", viewForward, rule{grad: reshapeGrad})

func viewForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).View(n.arg.([]int)...) }

// Flatten joins the dimensions from..to, both included, into one.
func (v *Variable) Flatten(from, to int) *Variable { return flatten.apply([2]int{from, to}, v) }

var flatten = define("flatten", flattenForward, rule{grad: reshapeGrad})

func flattenForward(n *node) (*tensor.Tensor, error) {
	dims := n.arg.([2]int)
	return n.tensor(0).Flatten(dims[0], dims[1])
}

// Squeeze drops the named dimensions that have one element, or all such dimensions if none is named.
func (v *Variable) Squeeze(dims ...int) *Variable { return squeeze.apply(dims, v) }

var squeeze = define("squeeze", squeezeForward, rule{grad: reshapeGrad})

func squeezeForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Squeeze(n.arg.([]int)...) }

// Unsqueeze puts a dimension of one element before dimension dim.
func (v *Variable) Unsqueeze(dim int) *Variable { return unsqueeze.apply(dim, v) }

var unsqueeze = define("unsqueeze", unsqueezeForward, rule{grad: reshapeGrad})

func unsqueezeForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Unsqueeze(n.arg.(int)) }
