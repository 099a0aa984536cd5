package linalg

import (
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/cistern-ml/cistern/tensor"
)

// MatrixExp is the exponential, the sum of a^k/k!, of square matrices [..., n, n] (torch.linalg.matrix_exp). That of a matrix which has
// elements that are not finite is NaN.
func MatrixExp(a *tensor.Tensor) (*tensor.Tensor, error) {
	s, err := square("MatrixExp", a)
	if err != nil {
		return nil, err
	}
	err = s.each(func(_ int, m blas64.General) error {
		for _, v := range m.Data {
			if math.IsNaN(v - v) {
				for i := range m.Data {
					m.Data[i] = math.NaN()
				}
				return nil
			}
		}
		var e mat.Dense
		e.Exp(mat.NewDense(m.Rows, m.Cols, m.Data))
		copy(m.Data, e.RawMatrix().Data)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.tensor(s.data, s.rows, s.rows)
}
