package matrix

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/linalg"
)

// SolveTriangular solves a*x = b for triangular matrices a [..., n, n] and b [..., n, k], or x*a = b on the right; batches broadcast. The gradient of
// the triangle that is not read is 0. Saves a and the result.
func SolveTriangular(a, b *autograd.Variable, how linalg.Triangular) *autograd.Variable {
	return solveTriangular.Apply(how, a, b)
}

// With y the gradient of b, which solves aT*y = grad, that of a is -y*xT; on the right y*aT = grad, and it is -xT*y.
var solveTriangular = autograd.Function[linalg.Triangular]{
	Name: "linalg_solve_triangular",
	Forward: func(c *context, how linalg.Triangular, in []*tensor.Tensor) (*tensor.Tensor, error) {
		x, err := linalg.SolveTriangular(in[0], in[1], how)
		c.Save(in[0], x)
		return x, err
	},
	Backward: func(c *context, how linalg.Triangular, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		var w work
		back := how
		back.Upper = !how.Upper
		y := w.of(linalg.SolveTriangular(w.flipped(c.Saved(0)), grad, back))
		if !c.NeedsGrad(0) {
			return w.ends(nil, y)
		}
		left, right := y, w.flipped(c.Saved(1))
		if how.Right {
			left, right = right, left
		}
		return w.ends(w.triangle(w.of(w.times(left, right).Neg()), how), y)
	},
}

// triangle is that part of a matrix which is read of it.
func (w *work) triangle(t *tensor.Tensor, how linalg.Triangular) *tensor.Tensor {
	from := 0
	if how.Unit {
		from = 1
	}
	if how.Upper {
		return w.of(t.Triu(from))
	}
	return w.of(t.Tril(-from))
}

// CholeskySolve solves a*x = b for b [..., n, k] and the Cholesky factor l [..., n, n] of a, which is l*lT, or lT*l if upper; batches broadcast. The
// gradient of the triangle that is not read is 0. Saves l and the result.
func CholeskySolve(b, l *autograd.Variable, upper bool) *autograd.Variable {
	return choleskySolve.Apply(linalg.Triangular{Upper: upper}, b, l)
}

// With y the gradient of b, that of a is -y*xT, and of its factor l the triangle of -(y*xT + x*yT)*l.
var choleskySolve = autograd.Function[linalg.Triangular]{
	Name: "cholesky_solve",
	Forward: func(c *context, how linalg.Triangular, in []*tensor.Tensor) (*tensor.Tensor, error) {
		x, err := linalg.CholeskySolve(in[0], in[1], how.Upper)
		c.Save(in[1], x)
		return x, err
	},
	Backward: func(c *context, how linalg.Triangular, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		var w work
		y := w.of(linalg.CholeskySolve(grad, c.Saved(0), how.Upper))
		if !c.NeedsGrad(1) {
			return w.ends(y, nil)
		}
		return w.ends(y, w.ofFactor(w.times(y, w.flipped(c.Saved(1))), c.Saved(0), how))
	},
}

// CholeskyInverse is the inverse of the matrices whose Cholesky factor is l [..., n, n]; see CholeskySolve. Saves l and the result.
func CholeskyInverse(l *autograd.Variable, upper bool) *autograd.Variable {
	return choleskyInverse.Apply(linalg.Triangular{Upper: upper}, l)
}

// With y the inverse, the gradient of the matrix is -y*grad*y.
var choleskyInverse = autograd.Function[linalg.Triangular]{
	Name: "cholesky_inverse",
	Forward: func(c *context, how linalg.Triangular, in []*tensor.Tensor) (*tensor.Tensor, error) {
		y, err := linalg.CholeskyInverse(in[0], how.Upper)
		c.Save(in[0], y)
		return y, err
	},
	Backward: func(c *context, how linalg.Triangular, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		var w work
		y := c.Saved(1)
		return w.ends(w.ofFactor(w.times(w.times(y, grad), y), c.Saved(0), how))
	},
}

// ofFactor is the gradient of a Cholesky factor, where that of the matrix is -m.
func (w *work) ofFactor(m, l *tensor.Tensor, how linalg.Triangular) *tensor.Tensor {
	both := w.of(w.of(m.Add(w.flipped(m))).Neg())
	if how.Upper {
		return w.triangle(w.times(l, both), how)
	}
	return w.triangle(w.times(both, l), how)
}
