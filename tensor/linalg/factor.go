package linalg

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/cistern-ml/cistern/tensor"
)

// Cholesky is the lower triangular matrix l with l*lT = a, of symmetric positive definite matrices [..., n, n], of which the lower triangle is
// read (torch.linalg.cholesky). A matrix that is not positive definite is a *MatrixError.
func Cholesky(a *tensor.Tensor) (*tensor.Tensor, error) {
	s, err := square("Cholesky", a)
	if err != nil {
		return nil, err
	}
	err = s.each(func(_ int, m blas64.General) error {
		if _, ok := lapack64.Potrf(symmetric(m)); !ok {
			return ErrNotPositiveDefinite
		}
		for i := range m.Rows {
			clear(m.Data[i*m.Stride+i+1 : (i+1)*m.Stride])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.tensor(s.data, s.rows, s.rows)
}

func symmetric(m blas64.General) blas64.Symmetric {
	return blas64.Symmetric{N: m.Rows, Stride: m.Stride, Data: m.Data, Uplo: blas.Lower}
}

// QR is q [..., m, k], whose columns are orthonormal, and r [..., k, n], upper triangular, with q*r = a, of matrices [..., m, n], where k is the
// lesser of m and n (torch.linalg.qr in its mode "reduced").
func QR(a *tensor.Tensor) (q, r *tensor.Tensor, err error) {
	s, err := read("QR", a)
	if err != nil {
		return nil, nil, err
	}
	k := min(s.rows, s.cols)
	qs, rs := make([]float64, s.n*s.rows*k), make([]float64, s.n*k*s.cols)
	err = s.each(func(i int, m blas64.General) error {
		work := make([]float64, max(1, s.rows, s.cols))
		tau := make([]float64, k)
		lapack64.Geqrf(m, tau, work, len(work))
		rOf := general(rs[i*k*s.cols:][:k*s.cols], k, s.cols)
		for row := range k {
			copy(rOf.Data[row*rOf.Stride+row:(row+1)*rOf.Stride], m.Data[row*m.Stride+row:(row+1)*m.Stride])
		}
		qOf := general(qs[i*s.rows*k:][:s.rows*k], s.rows, k)
		for row := range s.rows {
			copy(qOf.Data[row*qOf.Stride:(row+1)*qOf.Stride], m.Data[row*m.Stride:row*m.Stride+k])
		}
		lapack64.Orgqr(qOf, tau, work, len(work))
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	made, err := s.tensors(result{qs, []int{s.rows, k}}, result{rs, []int{k, s.cols}})
	if err != nil {
		return nil, nil, err
	}
	return made[0], made[1], nil
}

// Eigh is the eigenvalues [..., n], in ascending order, and the orthonormal eigenvectors, the columns of [..., n, n], of symmetric matrices
// [..., n, n], of which the lower triangle is read (torch.linalg.eigh). The sign of a vector is arbitrary.
func Eigh(a *tensor.Tensor) (values, vectors *tensor.Tensor, err error) {
	s, err := square("Eigh", a)
	if err != nil {
		return nil, nil, err
	}
	if err := s.finite(); err != nil {
		return nil, nil, err
	}
	w := make([]float64, s.n*s.rows)
	err = s.each(func(i int, m blas64.General) error {
		work := make([]float64, 3*s.rows)
		if !lapack64.Syev(lapack.EVCompute, symmetric(m), w[i*s.rows:][:s.rows], work, len(work)) {
			return ErrNoConvergence
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	made, err := s.tensors(result{w, []int{s.rows}}, result{s.data, []int{s.rows, s.rows}})
	if err != nil {
		return nil, nil, err
	}
	return made[0], made[1], nil
}
