package linalg

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/cistern-ml/cistern/tensor"
)

// Triangular says which triangle of a matrix is meant, and where it stands. The zero value is a lower one on the left.
type Triangular struct {
	Upper bool
	Right bool // solve x*a = b
	Unit  bool // the diagonal counts as ones, and is not read
}

// SolveTriangular solves a*x = b for triangular matrices a [..., n, n], of which the other triangle is not read, and b [..., n, k], or, on the
// right, x*a = b for b [..., k, n]; batches broadcast (torch.linalg.solve_triangular). A zero on the diagonal gives infinities and NaN.
func SolveTriangular(a, b *tensor.Tensor, how Triangular) (*tensor.Tensor, error) {
	return how.solve("SolveTriangular", a, b, blas.NoTrans)
}

// CholeskySolve solves a*x = b for b [..., n, k] and the Cholesky factor l [..., n, n] of a, which is l*lT, or lT*l if upper; batches broadcast
// (torch.cholesky_solve).
func CholeskySolve(b, l *tensor.Tensor, upper bool) (*tensor.Tensor, error) {
	how := Triangular{Upper: upper}
	if upper {
		return how.solve("CholeskySolve", l, b, blas.Trans, blas.NoTrans)
	}
	return how.solve("CholeskySolve", l, b, blas.NoTrans, blas.Trans)
}

// CholeskyInverse is the inverse of the matrices whose Cholesky factor is l [..., n, n]; see CholeskySolve (torch.cholesky_inverse).
func CholeskyInverse(l *tensor.Tensor, upper bool) (*tensor.Tensor, error) {
	s, err := square("CholeskyInverse", l)
	if err != nil {
		return nil, err
	}
	out, how := make([]float64, len(s.data)), Triangular{Upper: upper}
	err = s.each(func(i int, m blas64.General) error {
		x := general(out[i*len(m.Data):][:len(m.Data)], s.rows, s.rows)
		for k := range s.rows {
			x.Data[k*x.Stride+k] = 1
		}
		turns := []blas.Transpose{blas.NoTrans, blas.Trans}
		if upper {
			turns[0], turns[1] = turns[1], turns[0]
		}
		for _, turn := range turns {
			blas64.Trsm(blas.Left, turn, 1, how.of(m), x)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.tensor(out, s.rows, s.rows)
}

// solve solves with the triangle and its transposed, in the order of turns.
func (how Triangular) solve(op string, a, b *tensor.Tensor, turns ...blas.Transpose) (*tensor.Tensor, error) {
	side, along := blas.Left, -2
	if how.Right {
		side, along = blas.Right, -1
	}
	wide, sides, err := matched(op, a, b, along)
	if err != nil {
		return nil, err
	}
	defer wide.Release()
	defer sides.Release()
	s, err := square(op, wide)
	if err != nil {
		return nil, err
	}
	r, err := read(op, sides)
	if err != nil {
		return nil, err
	}
	err = s.each(func(i int, m blas64.General) error {
		if r.rows == 0 || r.cols == 0 {
			return nil
		}
		for _, turn := range turns {
			blas64.Trsm(side, turn, 1, how.of(m), r.at(i))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r.tensor(r.data, r.rows, r.cols)
}

// of is a triangle of m.
func (how Triangular) of(m blas64.General) blas64.Triangular {
	t := blas64.Triangular{N: m.Rows, Stride: m.Stride, Data: m.Data, Uplo: blas.Lower, Diag: blas.NonUnit}
	if how.Upper {
		t.Uplo = blas.Upper
	}
	if how.Unit {
		t.Diag = blas.Unit
	}
	return t
}
