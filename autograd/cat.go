package autograd

import (
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

// Cat joins variables along dim; their other dimensions are equal. The gradients of the parts are views of that of the
// result. Saves nothing.
func Cat(vs []*Variable, dim int) *Variable {
	return cat.apply(&catArg{dim: dim}, slices.Clone(vs)...)
}

// catArg is the dimension, and where the parts start: the gradient of each would else add up the sizes of all before it.
type catArg struct {
	dim    int
	starts []int
}

var cat = variadic(define("cat", catForward, rule{grad: catGrad}))

// variadic makes o take any number of inputs, with one rule for all.
func variadic(o *op) *op {
	o.variadic = true
	return o
}

func catForward(n *node) (*tensor.Tensor, error) { return tensor.Cat(n.tensors(), n.arg.(*catArg).dim) }

func catGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	a := n.arg.(*catArg)
	if a.starts == nil {
		start := 0
		for _, v := range n.in {
			a.starts = append(a.starts, start)
			if !nothing(v) {
				start += v.Dim(a.dim)
			}
		}
	}
	if nothing(n.in[i]) && g.NDim() > 1 {
		return tensor.Zeros(g.Exec(), g.DType(), 0)
	}
	return g.Narrow(a.dim, a.starts[i], n.in[i].Dim(a.dim))
}

// nothing reports whether v is of shape [0], which Cat skips.
func nothing(v *Variable) bool { return v.NDim() == 1 && v.Len() == 0 }

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
