package autograd

import "github.com/cistern-ml/cistern/tensor"

// The operations in this file are MatMul for operands of given dimensions, and its relatives. Each saves the factors whose partners need
// a gradient.

// Dot is the sum of the products of two vectors.
func (v *Variable) Dot(u *Variable) *Variable { return dot.apply(nil, v, u) }

// MV is the product of a matrix and a vector.
func (v *Variable) MV(u *Variable) *Variable { return mv.apply(nil, v, u) }

// MM is the product of two matrices.
func (v *Variable) MM(u *Variable) *Variable { return mm.apply(nil, v, u) }

// BMM is the products of two batches of matrices, which do not broadcast.
func (v *Variable) BMM(u *Variable) *Variable { return bmm.apply(nil, v, u) }

var (
	dot = productOf("dot", (*tensor.Tensor).Dot)
	mv  = productOf("mv", (*tensor.Tensor).MV)
	mm  = productOf("mm", (*tensor.Tensor).MM)
	bmm = productOf("bmm", (*tensor.Tensor).BMM)
)

func productOf(name string, f func(t, u *tensor.Tensor) (*tensor.Tensor, error)) *op {
	return define(name, func(n *node) (*tensor.Tensor, error) { return f(n.tensor(0), n.tensor(1)) },
		rule{uses: input(1), grad: matMulGradA}, rule{uses: input(0), grad: matMulGradB})
}

// Outer is the products of all elements of a vector with all elements of another.
func (v *Variable) Outer(u *Variable) *Variable { return outer.apply(nil, v, u) }

var outer = define("outer", func(n *node) (*tensor.Tensor, error) { return n.tensor(0).Outer(n.tensor(1)) },
	rule{uses: input(1), grad: outerGrad}, rule{uses: input(0), grad: outerGrad})

// outerGrad is g @ u for the first vector, and gᵀ @ v for the second.
func outerGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	other := w.do(n.savedInput(1 - i).To(g.DType()))
	if i == 1 {
		g = w.do(g.Transpose(0, 1))
	}
	return w.result(g.MV(other))
}

// scales is the argument of AddMM and BAddBMM.
type scales struct{ beta, alpha float64 }

// AddMM is beta*c + alpha * a @ b for matrices a and b, with c broadcast to the product's shape. If beta is 0, c is not read.
func AddMM(c, a, b *Variable, beta, alpha float64) *Variable {
	return addMM.apply(scales{beta, alpha}, c, a, b)
}

// BAddBMM is beta*c + alpha * a @ b for batches of matrices a and b, with c broadcast to the product's shape. If beta is 0, c is not
// read.
func BAddBMM(c, a, b *Variable, beta, alpha float64) *Variable {
	return bAddBMM.apply(scales{beta, alpha}, c, a, b)
}

var addMM, bAddBMM = addedProduct("addmm", tensor.AddMM), addedProduct("baddbmm", tensor.BAddBMM)

func addedProduct(name string, f func(c, a, b *tensor.Tensor, beta, alpha float64) (*tensor.Tensor, error)) *op {
	forward := func(n *node) (*tensor.Tensor, error) {
		s := n.arg.(scales)
		return f(n.tensor(0), n.tensor(1), n.tensor(2), s.beta, s.alpha)
	}
	return define(name, forward, rule{grad: addedGrad}, rule{uses: input(2), grad: addedGradA}, rule{uses: input(1), grad: addedGradB})
}

func addedGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	if s := n.arg.(scales); s.beta != 1 {
		return g.MulScalar(s.beta)
	}
	return g.Retain(), nil
}

// addedGradA is alpha * g @ bᵀ, and addedGradB alpha * aᵀ @ g.
func addedGradA(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return inOwn(n.savedInput(2).Transpose(-2, -1))(func(b *tensor.Tensor) (*tensor.Tensor, error) {
		return changed(func() (*tensor.Tensor, error) { return g.MatMul(b) }, n.arg.(scales).scale)
	})
}

func addedGradB(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return inOwn(n.savedInput(1).Transpose(-2, -1))(func(a *tensor.Tensor) (*tensor.Tensor, error) {
		return changed(func() (*tensor.Tensor, error) { return a.MatMul(g) }, n.arg.(scales).scale)
	})
}

func (s scales) scale(t *tensor.Tensor) error {
	if s.alpha == 1 {
		return nil
	}
	return t.MulScalarInPlace(s.alpha)
}

// Einsum sums products of elements as an equation says, such as "bij,bjk->bik"; see tensor.Einsum. Saves the operands, and no product of
// some of them: a gradient is an Einsum of that of the result and the other operands.
func Einsum(text string, vs ...*Variable) *Variable {
	return einsum.apply(text, append([]*Variable{}, vs...)...)
}

// TensorDot sums the products of v and u over pairs of dimensions: those of v in dims, and those of u in others.
func (v *Variable) TensorDot(u *Variable, dims, others []int) *Variable {
	return tensorDot.apply([2][]int{dims, others}, v, u)
}

var (
	einsum = variadic(define("einsum", func(n *node) (*tensor.Tensor, error) {
		return tensor.Einsum(n.arg.(string), n.tensors()...)
	}, rule{uses: others, grad: func(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
		return einsumGrad(n, n.arg.(string), i, g)
	}}))
	tensorDot = define("tensordot", func(n *node) (*tensor.Tensor, error) {
		a := n.arg.([2][]int)
		return n.tensor(0).TensorDot(n.tensor(1), a[0], a[1])
	}, rule{uses: input(1), grad: tensorDotGrad}, rule{uses: input(0), grad: tensorDotGrad})
)

func einsumGrad(n *node, text string, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	operands := make([]*tensor.Tensor, len(n.in))
	for k := range operands {
		if k != i {
			operands[k] = n.savedInput(k)
		}
	}
	return gradients.Einsum(text, i, n.in[i].Shape(), g, operands...)
}

func tensorDotGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	a := n.arg.([2][]int)
	text, err := gradients.TensorDotEquation(n.in[0].Shape(), n.in[1].Shape(), a[0], a[1])
	if err != nil {
		return nil, err
	}
	return einsumGrad(n, text, i, g)
}
