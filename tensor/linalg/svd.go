package linalg

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/cistern-ml/cistern/tensor"
)

// SVD is u [..., m, k], the singular values [..., k] in descending order, and vh [..., k, n], with u*diag(s)*vh = a, of matrices [..., m, n], where
// k is the lesser of m and n (torch.linalg.svd with full_matrices=False). The signs of a column of u and the row of vh are arbitrary.
func SVD(a *tensor.Tensor) (u, s, vh *tensor.Tensor, err error) {
	m, err := read("SVD", a)
	if err != nil {
		return nil, nil, nil, err
	}
	k := min(m.rows, m.cols)
	us, ss, vs := make([]float64, m.n*m.rows*k), make([]float64, m.n*k), make([]float64, m.n*k*m.cols)
	err = m.singular(func(i int, d svd) {
		copy(us[i*m.rows*k:], d.u.Data)
		copy(ss[i*k:], d.s)
		copy(vs[i*k*m.cols:], d.vt.Data)
	})
	if err != nil {
		return nil, nil, nil, err
	}
	made, err := m.tensors(result{us, []int{m.rows, k}}, result{ss, []int{k}}, result{vs, []int{k, m.cols}})
	if err != nil {
		return nil, nil, nil, err
	}
	return made[0], made[1], made[2], nil
}

// SVDVals is the singular values [..., k] of matrices [..., m, n], in descending order (torch.linalg.svdvals).
func SVDVals(a *tensor.Tensor) (*tensor.Tensor, error) {
	m, err := read("SVDVals", a)
	if err != nil {
		return nil, err
	}
	k := min(m.rows, m.cols)
	ss := make([]float64, m.n*k)
	if err := m.singular(func(i int, d svd) { copy(ss[i*k:], d.s) }); err != nil {
		return nil, err
	}
	return m.tensor(ss, k)
}

// svd is a decomposition.
type svd struct {
	u, vt blas64.General
	s     []float64
}

// singular decomposes all matrices.
func (m *stack) singular(f func(i int, d svd)) error {
	if err := m.finite(); err != nil {
		return err
	}
	k := min(m.rows, m.cols)
	return m.each(func(i int, a blas64.General) error {
		d := svd{u: zeros(m.rows, k), vt: zeros(k, m.cols), s: make([]float64, k)}
		size := make([]float64, 1)
		lapack64.Gesvd(lapack.SVDStore, lapack.SVDStore, a, d.u, d.vt, d.s, size, -1)
		work := make([]float64, int(size[0]))
		if !lapack64.Gesvd(lapack.SVDStore, lapack.SVDStore, a, d.u, d.vt, d.s, work, len(work)) {
			return ErrNoConvergence
		}
		f(i, d)
		return nil
	})
}

// inverse is the pseudo-inverse, and the rank: singular values that are less than max(m, n)*epsilon times the largest count as 0.
func (d svd) inverse(dt tensor.DType) (blas64.General, int) {
	rank, least := 0, float64(max(d.u.Rows, d.vt.Cols))*tensor.Epsilon(dt)*d.s[0]
	for rank < len(d.s) && d.s[rank] > least {
		rank++
	}
	for row := range d.vt.Rows {
		for col := range d.vt.Cols {
			if row < rank {
				d.vt.Data[row*d.vt.Stride+col] /= d.s[row]
			} else {
				d.vt.Data[row*d.vt.Stride+col] = 0
			}
		}
	}
	out := zeros(d.vt.Cols, d.u.Rows)
	blas64.Gemm(blas.Trans, blas.Trans, 1, d.vt, d.u, 0, out)
	return out, rank
}

// Pinv is the Moore-Penrose pseudo-inverse [..., n, m] of matrices [..., m, n] (torch.linalg.pinv). Singular values that are at most
// max(m, n)*epsilon of the type times the largest count as 0.
func Pinv(a *tensor.Tensor) (*tensor.Tensor, error) {
	m, err := read("Pinv", a)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(m.data))
	err = m.singular(func(i int, d svd) {
		p, _ := d.inverse(m.dt)
		copy(out[i*len(p.Data):], p.Data)
	})
	if err != nil {
		return nil, err
	}
	return m.tensor(out, m.cols, m.rows)
}

// MatrixRank is how many singular values of matrices [..., m, n] do not count as 0, as for Pinv: int64 [...] (torch.linalg.matrix_rank).
func MatrixRank(a *tensor.Tensor) (*tensor.Tensor, error) {
	m, err := read("MatrixRank", a)
	if err != nil {
		return nil, err
	}
	if _, err := m.room(); err != nil {
		return nil, err
	}
	ranks := make([]int64, m.n)
	err = m.singular(func(i int, d svd) {
		_, rank := d.inverse(m.dt)
		ranks[i] = int64(rank)
	})
	if err != nil {
		return nil, err
	}
	t, err := tensor.FromSlice(m.e, ranks, m.batch...)
	if err != nil {
		return nil, fmt.Errorf("linalg: %s: %w", m.op, err)
	}
	return t, nil
}

// Lstsq is the x [..., n, k] of least norm for which a*x - b is of least norm, for matrices a [..., m, n] of any rank and b [..., m, k], whose
// batches broadcast (the solution of torch.linalg.lstsq with its driver "gelsd"). Small singular values count as 0, as for Pinv.
func Lstsq(a, b *tensor.Tensor) (*tensor.Tensor, error) {
	const op = "Lstsq"
	wide, sides, err := together(op, a, b)
	if err != nil {
		return nil, err
	}
	defer wide.Release()
	defer sides.Release()
	m, err := read(op, wide)
	if err != nil {
		return nil, err
	}
	r, err := read(op, sides)
	if err != nil {
		return nil, err
	}
	out, err := m.room(m.cols, r.cols)
	if err != nil {
		return nil, err
	}
	err = m.singular(func(i int, d svd) {
		p, _ := d.inverse(m.dt)
		if r.cols > 0 {
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, p, r.at(i), 0, general(out[i*m.cols*r.cols:][:m.cols*r.cols], m.cols, r.cols))
		}
	})
	if err != nil {
		return nil, err
	}
	return m.tensor(out, m.cols, r.cols)
}

// MatrixNorm is a norm of matrices [..., m, n]; the result is [...] (torch.linalg.matrix_norm). order is "fro" (Frobenius), "nuc" (the sum of
// singular values), "2" and "-2" (the largest and the least of them), "1" and "-1" (the largest and the least sum of absolute values of a
// column), "inf" and "-inf" (of a row).
func MatrixNorm(a *tensor.Tensor, order string) (*tensor.Tensor, error) {
	const op = "MatrixNorm"
	m, err := read(op, a)
	if err != nil {
		return nil, err
	}
	norm := norms[order]
	if norm == nil {
		return nil, &tensor.ValueError{Op: op, Detail: fmt.Sprintf("order %.20q; want fro, nuc, 2, -2, 1, -1, inf or -inf", order)}
	}
	if (m.rows == 0 || m.cols == 0) && order != "fro" && order != "nuc" {
		return nil, &tensor.ShapeError{Op: op, Shapes: []tensor.Shape{m.shape}, Detail: "a matrix without elements has no such norm"}
	}
	out, err := m.room()
	if err != nil {
		return nil, err
	}
	if order == "nuc" || order == "2" || order == "-2" {
		err = m.singular(func(i int, d svd) { out[i] = norm(general(d.s, 1, len(d.s))) })
	} else {
		err = m.each(func(i int, a blas64.General) error { out[i] = norm(a); return nil })
	}
	if err != nil {
		return nil, err
	}
	return m.tensor(out)
}

// norms are those of a matrix, or of a row with its singular values.
var norms = map[string]func(m blas64.General) float64{
	"fro": func(m blas64.General) float64 {
		return blas64.Nrm2(blas64.Vector{N: len(m.Data), Inc: 1, Data: m.Data})
	},
	"nuc": func(m blas64.General) (sum float64) {
		for _, v := range m.Data {
			sum += v
		}
		return sum
	},
	"2":    func(m blas64.General) float64 { return m.Data[0] },
	"-2":   func(m blas64.General) float64 { return m.Data[len(m.Data)-1] },
	"1":    func(m blas64.General) float64 { return extreme(m, true, math.Max) },
	"-1":   func(m blas64.General) float64 { return extreme(m, true, math.Min) },
	"inf":  func(m blas64.General) float64 { return extreme(m, false, math.Max) },
	"-inf": func(m blas64.General) float64 { return extreme(m, false, math.Min) },
}

// extreme is the largest or the least sum of absolute values of a column or a row.
func extreme(m blas64.General, columns bool, choose func(a, b float64) float64) float64 {
	sums := make([]float64, m.Rows)
	if columns {
		sums = make([]float64, m.Cols)
	}
	for i, v := range m.Data {
		at := i / m.Cols
		if columns {
			at = i % m.Cols
		}
		sums[at] += math.Abs(v)
	}
	best := sums[0]
	for _, s := range sums {
		best = choose(best, s)
	}
	return best
}
