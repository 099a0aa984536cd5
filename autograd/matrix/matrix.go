package matrix

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/linalg"
)

type (
	none    = struct{}
	context = autograd.Context
)

// Inv is the inverse of square matrices [..., n, n]. Saves the result.
func Inv(a *autograd.Variable) *autograd.Variable { return inv.Apply(none{}, a) }

// With y the inverse, the gradient is -yT*grad*yT.
var inv = autograd.Function[none]{
	Name: "linalg_inv",
	Forward: func(c *context, _ none, in []*tensor.Tensor) (*tensor.Tensor, error) {
		y, err := linalg.Inv(in[0])
		c.Save(y)
		return y, err
	},
	Backward: func(c *context, _ none, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		var w work
		y := w.flipped(c.Saved(0))
		return list(w.end(w.of(w.times(w.times(y, grad), y).Neg())))
	},
}

// list is the gradients of one input.
func list(t *tensor.Tensor, err error) ([]*tensor.Tensor, error) { return []*tensor.Tensor{t}, err }

// Solve solves a*x = b for square matrices a [..., n, n] and b [..., n, k], whose batches broadcast, or a vector b [n]. Saves a and the result.
func Solve(a, b *autograd.Variable) *autograd.Variable { return solve.Apply(none{}, a, b) }

// The gradient of b solves aT*y = grad, and that of a is -y*xT.
var solve = autograd.Function[none]{
	Name: "linalg_solve",
	Forward: func(c *context, _ none, in []*tensor.Tensor) (*tensor.Tensor, error) {
		x, err := linalg.Solve(in[0], in[1])
		c.Save(in[0], x)
		return x, err
	},
	Backward: func(c *context, _ none, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		var ofB, ofA work
		db, err := ofB.end(ofB.of(linalg.Solve(ofB.flipped(c.Saved(0)), grad)))
		if err != nil || !c.NeedsGrad(0) {
			return []*tensor.Tensor{nil, db}, err
		}
		y, x := db, c.Saved(1)
		if x.NDim() == 1 {
			y, x = ofA.of(y.Unsqueeze(1)), ofA.of(x.Unsqueeze(1))
		}
		da, err := ofA.end(ofA.of(ofA.times(y, ofA.flipped(x)).Neg()))
		if err != nil {
			db.Release()
			return nil, err
		}
		return []*tensor.Tensor{da, db}, nil
	},
}

// Det is the determinant of square matrices [..., n, n], as [...]. Saves a and the result. The gradient of a singular matrix is an error: take
// SlogDet of what may become one.
func Det(a *autograd.Variable) *autograd.Variable { return det.Apply(none{}, a) }

// The gradient is grad*det times the transposed inverse.
var det = autograd.Function[none]{
	Name: "linalg_det",
	Forward: func(c *context, _ none, in []*tensor.Tensor) (*tensor.Tensor, error) {
		d, err := linalg.Det(in[0])
		c.Save(in[0], d)
		return d, err
	},
	Backward: func(c *context, _ none, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		var w work
		scale := w.over(w.of(grad.Mul(c.Saved(1))))
		return list(w.end(w.of(w.flipped(w.of(linalg.Inv(c.Saved(0)))).Mul(scale))))
	},
}

// SlogDet is the sign of the determinant of square matrices [..., n, n], which has no gradient, and the logarithm of its absolute value, each
// [...]. Saves a.
func SlogDet(a *autograd.Variable) (sign, logAbs *autograd.Variable) {
	both := slogDet.ApplyAll(none{}, a)
	return first(both, 0), first(both, 1)
}

// LogDet is the logarithm of the determinant of square matrices [..., n, n], NaN where that is negative. Saves a.
func LogDet(a *autograd.Variable) *autograd.Variable {
	sign, logAbs := SlogDet(a)
	if sign == nil {
		return nil
	}
	return logAbs.MaskedFill(sign.LtScalar(0), math.NaN())
}

// first is result i, or what there is of a graph with an error.
func first(results []*autograd.Variable, i int) *autograd.Variable {
	if i < len(results) {
		return results[i]
	}
	return nil
}

// The gradient of the logarithm is the transposed inverse.
var slogDet = autograd.Function[none]{
	Name:    "linalg_slogdet",
	Results: 2,
	ForwardAll: func(c *context, _ none, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		sign, logAbs, err := linalg.SlogDet(in[0])
		if err != nil {
			return nil, err
		}
		c.Save(in[0])
		return []*tensor.Tensor{sign, logAbs}, nil
	},
	BackwardAll: func(c *context, _ none, grads []*tensor.Tensor) ([]*tensor.Tensor, error) {
		if grads[1] == nil {
			return []*tensor.Tensor{nil}, nil
		}
		var w work
		return list(w.end(w.of(w.flipped(w.of(linalg.Inv(c.Saved(0)))).Mul(w.over(grads[1])))))
	},
}

// Cholesky is the lower triangular l with l*lT = a, of symmetric positive definite matrices [..., n, n]. Saves the result.
func Cholesky(a *autograd.Variable) *autograd.Variable { return cholesky.Apply(none{}, a) }

// With p the lower triangle of lT*grad, and half its diagonal, the gradient is the symmetric part of l^-T*p*l^-1.
var cholesky = autograd.Function[none]{
	Name: "linalg_cholesky",
	Forward: func(c *context, _ none, in []*tensor.Tensor) (*tensor.Tensor, error) {
		l, err := linalg.Cholesky(in[0])
		c.Save(l)
		return l, err
	},
	Backward: func(c *context, _ none, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		var w work
		l := c.Saved(0)
		m := w.times(w.flipped(l), grad)
		p := w.of(w.of(w.of(m.Tril(0)).Add(w.of(m.Tril(-1)))).MulScalar(0.5))
		below := w.of(linalg.Inv(l))
		return list(w.end(w.symmetric(w.times(w.times(w.flipped(below), p), below))))
	},
}

// Eigh is the eigenvalues [..., n], in ascending order, and the orthonormal eigenvectors, the columns of [..., n, n], of symmetric matrices
// [..., n, n]. Saves both. Losses must not depend on the signs of vectors, which are arbitrary; where eigenvalues are equal, vectors have no
// gradient, and it is not finite, as in PyTorch.
func Eigh(a *autograd.Variable) (values, vectors *autograd.Variable) {
	both := eigh.ApplyAll(none{}, a)
	return first(both, 0), first(both, 1)
}

// With f the reciprocal differences w_j - w_i of eigenvalues, and 0 on the diagonal, the gradient is v*(diag(dw) + f o (vT*dv))*vT.
var eigh = autograd.Function[none]{
	Name:    "linalg_eigh",
	Results: 2,
	ForwardAll: func(c *context, _ none, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		values, vectors, err := linalg.Eigh(in[0])
		if err != nil {
			return nil, err
		}
		c.Save(values, vectors)
		return []*tensor.Tensor{values, vectors}, nil
	},
	BackwardAll: func(c *context, _ none, grads []*tensor.Tensor) ([]*tensor.Tensor, error) {
		var w work
		values, v := c.Saved(0), c.Saved(1)
		var inner *tensor.Tensor
		if grads[0] != nil {
			inner = w.of(grads[0].DiagEmbed(0))
		}
		if grads[1] != nil {
			turned := w.of(w.times(w.flipped(v), grads[1]).Mul(w.differences(values)))
			if inner != nil {
				turned = w.of(turned.Add(inner))
			}
			inner = turned
		}
		return list(w.end(w.symmetric(w.times(w.times(v, inner), w.flipped(v)))))
	},
}

// differences are 1/(w_j - w_i) at i, j, and 0 on the diagonal.
func (w *work) differences(values *tensor.Tensor) *tensor.Tensor {
	d := w.of(w.of(values.Unsqueeze(-2)).Sub(w.of(values.Unsqueeze(-1))))
	eye := w.of(tensor.Eye(values.Exec(), values.DType(), values.Dim(-1)))
	return w.of(w.of(d.MaskedFill(w.of(eye.GtScalar(0)), math.Inf(1))).Reciprocal())
}

// SVDVals is the singular values [..., k] of matrices [..., m, n], in descending order, of which k is the lesser of m and n. Saves the singular
// vectors. Their sum is the nuclear norm, and the first is the spectral norm.
func SVDVals(a *autograd.Variable) *autograd.Variable { return svdVals.Apply(none{}, a) }

// The gradient is u*diag(grad)*vh.
var svdVals = autograd.Function[none]{
	Name: "linalg_svdvals",
	Forward: func(c *context, _ none, in []*tensor.Tensor) (*tensor.Tensor, error) {
		if !c.GradEnabled() {
			return linalg.SVDVals(in[0])
		}
		u, s, vh, err := linalg.SVD(in[0])
		if err != nil {
			return nil, err
		}
		c.Save(u, vh)
		return s, nil
	},
	Backward: func(c *context, _ none, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		var w work
		u := w.of(c.Saved(0).Mul(w.of(grad.Unsqueeze(-2))))
		return list(w.end(w.times(u, c.Saved(1))))
	},
}

// Trace is the sum of the diagonal of matrices [..., n, m], as [...].
func Trace(a *autograd.Variable) *autograd.Variable {
	return a.Diagonal(0, -2, -1).Sum([]int{-1}, false)
}
