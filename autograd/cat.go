package autograd

import (
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// Cat joins variables along dim; their other dimensions are equal. The gradients of the parts are views of that of the
// result. Saves nothing.
func Cat(vs []*Variable, dim int) *Variable { return cat.apply(dim, slices.Clone(vs)...) }

var cat = variadic(define("cat", catForward, rule{grad: catGrad}))

// variadic makes o take any number of inputs, with one rule for all.
func variadic(o *op) *op {
	o.variadic = true
	return o
}

func catForward(n *node) (*tensor.Tensor, error) { return tensor.Cat(n.tensors(), n.arg.(int)) }

func catGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	dim, start := n.arg.(int), 0
	for _, v := range n.in[:i] {
		start += v.Dim(dim)
	}
	return g.Narrow(dim, start, n.in[i].Dim(dim))
}

// Stack joins variables of one shape along a new dimension dim. Saves nothing.
func Stack(vs []*Variable, dim int) *Variable { return stack.apply(dim, slices.Clone(vs)...) }

var stack = variadic(define("stack", stackForward, rule{grad: stackGrad}))

func stackForward(n *node) (*tensor.Tensor, error) { return tensor.Stack(n.tensors(), n.arg.(int)) }

func stackGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return g.Select(n.arg.(int), i)
}

// tensors are the values of all inputs.
func (n *node) tensors() []*tensor.Tensor {
	ts := make([]*tensor.Tensor, len(n.in))
	for i := range ts {
		ts[i] = n.tensor(i)
	}
	return ts
}
