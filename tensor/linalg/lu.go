package linalg

import (
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/cistern-ml/cistern/tensor"
)

// LU is a permutation p [..., m, m], l [..., m, k], lower triangular with ones on its diagonal, and u [..., k, n], upper triangular, with
// p*l*u = a, of matrices [..., m, n], where k is the lesser of m and n (torch.linalg.lu).
func LU(a *tensor.Tensor) (p, l, u *tensor.Tensor, err error) {
	s, err := read("LU", a)
	if err != nil {
		return nil, nil, nil, err
	}
	m, n, k := s.rows, s.cols, min(s.rows, s.cols)
	ps, err := s.room(m, m)
	if err != nil {
		return nil, nil, nil, err
	}
	ls, us := make([]float64, s.n*m*k), make([]float64, s.n*k*n)
	if k == 0 { // a permutation that changes nothing
		for i := range s.n * m {
			ps[i*m+i%m] = 1
		}
	}
	err = s.each(func(i int, f blas64.General) error {
		pivots := make([]int, k)
		lapack64.Getrf(f, pivots) // false says that u is singular, which is no mistake here
		order(pivots, general(ps[i*m*m:][:m*m], m, m))
		triangles(f, general(ls[i*m*k:][:m*k], m, k), general(us[i*k*n:][:k*n], k, n))
		return nil
	})
	if err != nil {
		return nil, nil, nil, err
	}
	made, err := s.tensors(result{ps, []int{m, m}}, result{ls, []int{m, k}}, result{us, []int{k, n}})
	if err != nil {
		return nil, nil, nil, err
	}
	return made[0], made[1], made[2], nil
}

// order writes the permutation that undoes the exchanges of rows.
func order(pivots []int, p blas64.General) {
	from := make([]int, p.Rows)
	for i := range from {
		from[i] = i
	}
	for i, j := range pivots {
		from[i], from[j] = from[j], from[i]
	}
	for to, row := range from {
		p.Data[row*p.Stride+to] = 1
	}
}

// triangles takes l and u from where Getrf puts both.
func triangles(f, l, u blas64.General) {
	for row := range f.Rows {
		for col := range f.Cols {
			switch v := f.Data[row*f.Stride+col]; {
			case col < row:
				l.Data[row*l.Stride+col] = v
			default:
				u.Data[row*u.Stride+col] = v
			}
		}
		if row < l.Cols {
			l.Data[row*l.Stride+row] = 1
		}
	}
}
