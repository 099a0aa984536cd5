package linalg

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/cistern-ml/cistern/tensor"
)

// Inv is the inverse of square matrices [..., n, n] (torch.linalg.inv). A singular one is a *MatrixError.
func Inv(a *tensor.Tensor) (*tensor.Tensor, error) {
	s, err := square("Inv", a)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(s.data))
	err = s.each(func(i int, m blas64.General) error {
		x := general(out[i*len(m.Data):][:len(m.Data)], s.rows, s.rows)
		for k := range s.rows {
			x.Data[k*x.Stride+k] = 1
		}
		return solve(m, x)
	})
	if err != nil {
		return nil, err
	}
	return s.tensor(out, s.rows, s.rows)
}

// solve replaces x by the solution of m*y = x, and m by its factors.
func solve(m, x blas64.General) error {
	pivots := make([]int, m.Rows)
	if !lapack64.Getrf(m, pivots) {
		return ErrSingular
	}
	if x.Cols > 0 {
		lapack64.Getrs(blas.NoTrans, m, x, pivots)
	}
	return nil
}

// Solve solves a*x = b for square matrices a [..., n, n] and right-hand sides b [..., n, k], whose batches broadcast, or b [n], a vector
// (torch.linalg.solve). The result is of b's shape, with the batch of both. A singular matrix is a *MatrixError.
func Solve(a, b *tensor.Tensor) (*tensor.Tensor, error) {
	const op = "Solve"
	if b.NDim() == 1 && !b.Released() {
		column, err := b.Unsqueeze(1)
		if err != nil {
			return nil, err
		}
		defer column.Release()
		x, err := Solve(a, column)
		if err != nil {
			return nil, err
		}
		defer x.Release()
		return x.Squeeze(-1)
	}
	wide, sides, err := together(op, a, b)
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
	err = s.each(func(i int, m blas64.General) error { return solve(m, r.at(i)) })
	if err != nil {
		return nil, err
	}
	return r.tensor(r.data, r.rows, r.cols)
}

// together are a and b of one batch and type, with rows that fit.
func together(op string, a, b *tensor.Tensor) (x, y *tensor.Tensor, err error) {
	return matched(op, a, b, -2)
}

// matched are a and b of one batch and type, of which b has as many elements along a dimension as a has rows.
func matched(op string, a, b *tensor.Tensor, along int) (x, y *tensor.Tensor, err error) {
	if a.Released() || b.Released() {
		return nil, nil, &tensor.ReleasedError{Op: op, Nil: a == nil || b == nil}
	}
	shapes := []tensor.Shape{a.Shape().Clone(), b.Shape().Clone()}
	if a.NDim() < 2 || b.NDim() < 2 || a.Dim(-2) != b.Dim(along) {
		detail := "matrices with as many rows are needed"
		if along == -1 {
			detail = "matrices are needed, of which the second has as many columns as the first has rows"
		}
		return nil, nil, &tensor.ShapeError{Op: op, Shapes: shapes, Detail: detail}
	}
	if a.DType() != b.DType() {
		return nil, nil, &tensor.DTypeError{Op: op, DTypes: []tensor.DType{a.DType(), b.DType()}, Detail: "both must be of one type"}
	}
	batch, err := tensor.BroadcastShapes(shapes[0][:a.NDim()-2], shapes[1][:b.NDim()-2])
	if err != nil {
		return nil, nil, &tensor.ShapeError{Op: op, Shapes: shapes, Detail: "the batches do not broadcast"}
	}
	if x, err = a.Expand(append(batch.Clone(), a.Dim(-2), a.Dim(-1))...); err != nil {
		return nil, nil, err
	}
	if y, err = b.Expand(append(batch.Clone(), b.Dim(-2), b.Dim(-1))...); err != nil {
		x.Release()
	}
	return x, y, err
}

// Det is the determinant of square matrices [..., n, n], 0 of singular ones; the result is [...] (torch.linalg.det).
func Det(a *tensor.Tensor) (*tensor.Tensor, error) {
	s, err := square("Det", a)
	if err != nil {
		return nil, err
	}
	dets, err := s.room()
	if err != nil {
		return nil, err
	}
	for i := range dets {
		dets[i] = 1 // that of a matrix without elements
	}
	err = s.each(func(i int, m blas64.General) error {
		pivots := make([]int, m.Rows)
		lapack64.Getrf(m, pivots)
		for k, p := range pivots {
			if dets[i] *= m.Data[k*m.Stride+k]; p != k {
				dets[i] = -dets[i]
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.tensor(dets)
}

// SlogDet is the sign of the determinant of square matrices [..., n, n], and the logarithm of its absolute value, each [...]
// (torch.linalg.slogdet): 0 and -Inf of singular ones.
func SlogDet(a *tensor.Tensor) (sign, logAbs *tensor.Tensor, err error) {
	s, err := square("SlogDet", a)
	if err != nil {
		return nil, nil, err
	}
	signs, logs, err := s.determinants()
	if err != nil {
		return nil, nil, err
	}
	made, err := s.tensors(result{data: signs}, result{data: logs})
	if err != nil {
		return nil, nil, err
	}
	return made[0], made[1], nil
}

// determinants are their signs and the logarithms of their absolute values. A matrix of no rows has 1.
func (s *stack) determinants() (signs, logs []float64, err error) {
	if signs, err = s.room(); err != nil {
		return nil, nil, err
	}
	logs = make([]float64, s.n)
	for i := range signs {
		signs[i] = 1
	}
	err = s.each(func(i int, m blas64.General) error {
		pivots := make([]int, m.Rows)
		lapack64.Getrf(m, pivots)
		for k, p := range pivots {
			v := m.Data[k*m.Stride+k]
			if (v < 0) != (p != k) {
				signs[i] = -signs[i]
			}
			if v == 0 {
				signs[i] = 0
			}
			logs[i] += math.Log(math.Abs(v))
		}
		return nil
	})
	return signs, logs, err
}

// Trace is the sum of the diagonal of matrices [..., n, m], which need not be square; the result is [...].
func Trace(a *tensor.Tensor) (*tensor.Tensor, error) {
	d, err := a.Diagonal(0, -2, -1)
	if err != nil {
		return nil, err
	}
	defer d.Release()
	return d.Sum([]int{-1}, false)
}
