package autograd

import "github.com/cistern-ml/cistern/tensor"

// MatMul is the matrix product by PyTorch's rules: vectors, matrices, and batches of matrices that broadcast. Saves each
// factor whose partner needs a gradient.
func (v *Variable) MatMul(u *Variable) *Variable { return matMul.apply(nil, v, u) }

var matMul = define("matmul", matMulForward,
	rule{uses: input(1), grad: matMulGradA},
	rule{uses: input(0), grad: matMulGradB})

func matMulForward(n *node) (*tensor.Tensor, error) { return n.tensor(0).MatMul(n.tensor(1)) }

// The rules treat a vector on the left as a matrix of one row and one on the right as a matrix of one column; g gets the
// dimension back that the product had dropped. Broadcast batches are summed by the engine afterwards, which also drops the
// dimension of one element in front that a vector had got.

// matMulGradA is g @ bᵀ.
func matMulGradA(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	b := n.savedInput(1)
	g = w.do(asMatrix(g, n))
	if b.NDim() == 1 { // [..., M, 1] @ [1, K]
		return w.result(g.Mul(b))
	}
	return w.result(g.MatMul(w.do(b.Transpose(-2, -1))))
}

// matMulGradB is aᵀ @ g.
func matMulGradB(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	a, b := n.savedInput(0), n.in[1]
	g = w.do(asMatrix(g, n))
	switch {
	case a.NDim() == 1: // [K, 1] @ [..., 1, N]
		a = w.do(a.Unsqueeze(-1))
		return w.result(dropColumn(b, w.do(a.Mul(g))))
	case a.NDim() > 2 && b.NDim() <= 2:
		// One product over all rows of the batch, not a batch of products that would have to be stored and summed.
		a = w.do(asRows(a))
		g = w.do(asRows(g))
	}
	return w.result(dropColumn(b, w.do(w.do(a.Transpose(-2, -1)).MatMul(g))))
}

// dropColumn turns the gradient of a vector that served as a matrix of one column back into that of a vector.
func dropColumn(b *Variable, t *tensor.Tensor) (*tensor.Tensor, error) {
	if t == nil {
		return nil, tensor.ErrReleased
	}
	if b.NDim() == 1 {
		return t.Squeeze(-1)
	}
	return t.Retain(), nil
}

// asMatrix gives g the dimensions that a product with a vector on either side had dropped.
func asMatrix(g *tensor.Tensor, n *node) (*tensor.Tensor, error) {
	g = g.Retain()
	for i, dim := range []int{-2, -1} {
		if n.in[i].NDim() > 1 {
			continue
		}
		at := dim
		if i == 0 && n.in[1].NDim() == 1 {
			at = -1 // a scalar: first becomes [1], then [1, 1]
		}
		var err error
		if g, err = after(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.Unsqueeze(at) }); err != nil {
			return nil, err
		}
	}
	return g, nil
}
