package autograd

import "github.com/cistern-ml/cistern/tensor"

// The operations in this file walk v's memory in another order. Their results share it, and they save nothing.

// Transpose exchanges two dimensions.
func (v *Variable) Transpose(a, b int) *Variable { return transpose.apply([2]int{a, b}, v) }

var transpose = define("transpose", transposeForward, rule{grad: transposeGrad})

func transposeForward(n *node) (*tensor.Tensor, error) {
	dims := n.arg.([2]int)
	return n.tensor(0).Transpose(dims[0], dims[1])
}

func transposeGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	dims := n.arg.([2]int)
	return g.Transpose(dims[0], dims[1])
}

// T is the transpose of a matrix. Variables of fewer dimensions stay as they are.
func (v *Variable) T() *Variable { return matrixT.apply(nil, v) }

var matrixT = define("t", matrixTForward, rule{grad: matrixTGrad})

func matrixTForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).T() }

func matrixTGrad(_ *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) { return g.T() }

// MT exchanges the last two dimensions: it transposes each matrix of a batch. Variables have at least two.
func (v *Variable) MT() *Variable {
	if v.Alive() && v.NDim() < 2 {
		return v.Graph().Refuse("mt", &tensor.ShapeError{Op: "MT", Shapes: []tensor.Shape{v.Shape().Clone()}, Detail: "want matrices, of two dimensions"}, v)
	}
	return v.Transpose(-2, -1)
}

// Permute puts the dimensions in another order: dimension i of the result is dimension dims[i] of v.
func (v *Variable) Permute(dims ...int) *Variable { return permute.apply(dims, v) }

var permute = define("permute", permuteForward, rule{grad: permuteGrad})

func permuteForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Permute(n.arg.([]int)...) }

// permuteGrad undoes the order.
func permuteGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	dims := n.arg.([]int)
	back := make([]int, len(dims))
	for i, d := range dims {
		if d < 0 {
			d += len(dims)
		}
		back[d] = i
	}
	return g.Permute(back...)
}

// Expand repeats dimensions of one element, without copying them, to the given shape, which may have more dimensions in
// front; -1 keeps a dimension.
func (v *Variable) Expand(shape ...int) *Variable { return expand.apply(shape, v) }

// The engine sums the gradient over the dimensions that were repeated.
var expand = define("expand", expandForward, rule{grad: passGrad})

func expandForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).Expand(n.arg.([]int)...) }
