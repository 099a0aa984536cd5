package autograd

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// powered is the argument of Norm.
type powered struct {
	reduction
	p float64
}

// Norm is the p-norm along dims, or of all elements if there are none; p may be infinite (torch.linalg.vector_norm). Where the norm is 0
// the gradient is 0; equal largest elements share it for infinite p. Saves v and its result.
func (v *Variable) Norm(p float64, dims []int, keep bool) *Variable {
	return norm.apply(powered{reduction{dims, keep}, p}, v)
}

var norm = define("norm", vectorNormForward, rule{uses: input(0) | output, grad: vectorNormGrad})

func vectorNormForward(n *node) (*tensor.Tensor, error) {
	a := n.arg.(powered)
	return n.tensor(0).Norm(a.p, a.dims, a.keep)
}

// vectorNormGrad has the cases of PyTorch's norm_backward. In types of two bytes all is computed in float32, with the norm before it was
// rounded, and rounded once.
func vectorNormGrad(n *node, i int, g *tensor.Tensor) (*tensor.Tensor, error) {
	a, v := n.arg.(powered), n.savedInput(0)
	if a.p == 0 {
		return zeroGrad(n, i, g)
	}
	var w work
	if a.p == 1 {
		g = w.do(a.restore(g, v.Shape()))
		return w.result(changed(v.Sign, multiplied(g)))
	}
	out := n.savedOutput()
	if v.DType().Size() == 2 {
		v, g = w.do(widened(v)), w.do(widened(g))
		out = w.do(v.Norm(a.p, a.dims, a.keep))
	}
	d := w.do(a.grad(v, out, g))
	return w.result(d.To(n.savedInput(0).DType()))
}

// grad is the gradient for the norm out of v, in v's type.
func (a powered) grad(v, out, g *tensor.Tensor) (*tensor.Tensor, error) {
	if v == nil {
		return nil, tensor.ErrReleased
	}
	var w work
	g = w.do(a.restore(g, v.Shape()))
	out = w.do(a.restore(out, v.Shape()))
	switch {
	case math.IsInf(a.p, 0):
		return w.result(a.extreme(v, out, g))
	case a.p == 2:
		return w.result(v.Mul(w.do(zeroWhere(w.do(out.EqScalar(0)), w.do(g.Div(out))))))
	}
	// g * sign(v) * (|v| / norm)^(p-1), and 0 where the norm is 0, or where v is 0 and the power is negative.
	d := w.do(changed(v.Sign, multiplied(g)))
	if w.err == nil {
		w.fail(a.scale(d, v, out))
	}
	vanishes := w.do(out.EqScalar(0))
	if a.p < 1 {
		vanishes = w.do(v.EqScalar(0))
	}
	return w.result(zeroWhere(vanishes, d))
}

// scale multiplies d by (|v| / out)^(p-1). The quotient may leave the type's range where a small power of it does not: then powers are
// taken first, of half the exponent each, so that nothing leaves the range before the result does.
func (a powered) scale(d, v, out *tensor.Tensor) error {
	var w work
	abs := w.do(v.Abs())
	if a.p < 0 || a.p > 2 {
		return w.release(d.MulInPlace(w.do(w.do(abs.Div(out)).PowScalar(a.p - 1))))
	}
	half := (a.p - 1) / 2
	root := w.do(w.do(abs.PowScalar(half)).Mul(w.do(out.PowScalar(-half))))
	if err := d.MulInPlace(root); err != nil {
		return w.release(err)
	}
	return w.release(d.MulInPlace(root))
}

// extreme is sign(v) * g / k at the k elements whose size is the norm, and 0 at the others.
func (a powered) extreme(v, out, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	mask := w.do(w.do(v.Abs()).Eq(out))
	count := w.do(mask.CountNonzero(a.dims...))
	count = w.do(reduction{dims: a.dims}.restore(count, v.Shape()))
	share := w.do(keepWhere(mask, w.do(g.Div(w.do(count.To(g.DType()))))))
	if w.err != nil {
		return w.result(nil, nil)
	}
	return w.result(changed(v.Sign, multiplied(share)))
}

// LogSumExp is the logarithm of the sum of the exponentials along dims, or of all elements if there are none. Saves v and its result.
func (v *Variable) LogSumExp(dims []int, keep bool) *Variable {
	return logSumExp.apply(reduction{dims, keep}, v)
}

var logSumExp = define("logsumexp", logSumExpForward, rule{uses: input(0) | output, grad: logSumExpGrad})

func logSumExpForward(n *node) (*tensor.Tensor, error) {
	r := n.arg.(reduction)
	return n.tensor(0).LogSumExp(r.dims, r.keep)
}

// logSumExpGrad is g * exp(v - result), computed in one tensor: in float32 for types of two bytes, in which the rounded difference of
// large numbers would be a factor of the gradient.
func logSumExpGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	r, v, out := n.arg.(reduction), n.savedInput(0), n.savedOutput()
	if v.DType().Size() == 2 {
		v, g = w.do(widened(v)), w.do(widened(g))
		out = w.do(v.LogSumExp(r.dims, r.keep))
	}
	if w.err != nil {
		return w.result(nil, nil)
	}
	g, out = w.do(r.restore(g, v.Shape())), w.do(r.restore(out, v.Shape()))
	d := w.do(changed(func() (*tensor.Tensor, error) { return v.Sub(out) }, (*tensor.Tensor).ExpInPlace, multiplied(g)))
	return w.result(d.To(n.savedInput(0).DType()))
}

// CountNonzero is how many elements along dims, or of all if there are none, are not 0, as int64, without a gradient.
func (v *Variable) CountNonzero(dims ...int) *Variable { return countNonzero.apply(dims, v) }

var countNonzero = define("count_nonzero", func(n *node) (*tensor.Tensor, error) {
	return n.tensor(0).CountNonzero(n.arg.([]int)...)
}, notDifferentiable(steps))

// CumSum is the running sum along dim. Saves nothing.
func (v *Variable) CumSum(dim int) *Variable { return cumSum.apply(dim, v) }

var cumSum = define("cumsum", func(n *node) (*tensor.Tensor, error) { return n.tensor(0).CumSum(n.arg.(int)) }, rule{grad: cumSumGrad})

func cumSumGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return gradients.CumSum(g, n.arg.(int))
}

// CumProd is the running product along dim. Saves v and its result.
func (v *Variable) CumProd(dim int) *Variable { return cumProd.apply(dim, v) }

var cumProd = define("cumprod", func(n *node) (*tensor.Tensor, error) { return n.tensor(0).CumProd(n.arg.(int)) },
	rule{uses: input(0) | output, grad: cumProdGrad})

func cumProdGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return gradients.CumProd(g, n.savedInput(0), n.savedOutput(), n.arg.(int))
}
