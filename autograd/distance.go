package autograd

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

var (
	normalize        = composite{name: "normalize"}
	cosineSimilarity = composite{name: "cosine_similarity", wide: true}
	pairwiseDistance = composite{name: "pairwise_distance"}
	cdist            = composite{name: "cdist", wide: true}
)

// Normalize divides v by its p-norm along dim, which counts as at least eps. PyTorch's defaults are p = 2, dimension 1 and 1e-12.
func (v *Variable) Normalize(p float64, dim int, eps float64) *Variable {
	return normalize.run([]*Variable{v}, func() error {
		_, err := normalize.dim(v, dim)
		return firstError(err, normalize.floats(v))
	}, func(in []*Variable) *Variable {
		if v.Len() == 0 { // which has no greatest element, and needs none
			return in[0].Reshape(v.Shape()...)
		}
		return in[0].Div(in[0].Norm(p, []int{dim}, true).Clamp(eps, math.Inf(1)))
	})
}

// CosineSimilarity is the cosine of the angles between v and u along dim, which the result does not have. Norms count as at least eps; their
// gradients do not see that. The two broadcast. PyTorch's defaults are dimension 1 and 1e-8.
func (v *Variable) CosineSimilarity(u *Variable, dim int, eps float64) *Variable {
	in := []*Variable{v, u}
	var shape tensor.Shape
	return cosineSimilarity.run(in, func() error {
		err := firstError(cosineSimilarity.floats(in...), cosineSimilarity.broadcast(in...))
		if err != nil {
			return err
		}
		shape, _ = tensor.BroadcastShapes(v.Shape(), u.Shape())
		n := max(len(shape), 1)
		if dim < -n || dim >= n {
			return cosineSimilarity.shapes(fmt.Sprintf("there is no dimension %d", dim), in...)
		}
		return nil
	}, func(in []*Variable) *Variable {
		var unit [2]*Variable
		for i, x := range in {
			x = x.Expand(shape...)
			unit[i] = x.Div(x.Norm(2, []int{dim}, true).atLeast(eps))
		}
		return unit[0].Mul(unit[1]).Sum([]int{dim}, false)
	})
}

// PairwiseDistance is the p-norm of v - u + eps along the last dimension, which stays with 1 element if keep is set. The two broadcast.
// PyTorch's defaults are p = 2 and 1e-6.
func (v *Variable) PairwiseDistance(u *Variable, p, eps float64, keep bool) *Variable {
	in := []*Variable{v, u}
	return pairwiseDistance.run(in, func() error {
		return firstError(pairwiseDistance.floats(in...), pairwiseDistance.broadcast(in...))
	}, func(in []*Variable) *Variable { return in[0].distance(in[1], p, eps, keep) })
}

// distance is PairwiseDistance as steps.
func (v *Variable) distance(u *Variable, p, eps float64, keep bool) *Variable {
	d := v.Sub(u).AddScalar(eps)
	if d.NDim() == 0 {
		return d.Norm(p, nil, keep)
	}
	if d.Dim(-1) == 0 {
		return d.Sum([]int{-1}, keep) // 0 in every norm
	}
	return d.Norm(p, []int{-1}, keep)
}

// CDist is the p-norm of the difference of each row of v, [..., P, M], with each row of u, [..., R, M]: [..., P, R], batches broadcast. For p = 2
// and more than 25 rows it is computed with one product of matrices, as in PyTorch, where rows that are nearly equal lose digits; else it
// takes the memory of all differences, P*R*M elements, while it is computed and for the gradient. For p = infinity differences of equal size have the
// whole gradient each.
func (v *Variable) CDist(u *Variable, p float64) *Variable {
	in := []*Variable{v, u}
	return cdist.run(in, func() error {
		switch {
		case v.NDim() < 2 || u.NDim() < 2 || v.Dim(-1) != u.Dim(-1):
			return cdist.shapes("operands are rows of one length, [..., P, M] and [..., R, M]", in...)
		case !(p >= 0):
			return cdist.values("p is %v; it is at least 0", p)
		}
		return firstError(cdist.floats(in...), cdist.broadcast(v.batchOf(), u.batchOf()))
	}, func(in []*Variable) *Variable {
		a, b := in[0], in[1]
		if p == 2 && (a.Dim(-2) > 25 || b.Dim(-2) > 25) {
			return a.cdistByProduct(b)
		}
		d := a.Unsqueeze(-2).Sub(b.Unsqueeze(-3))
		switch {
		case a.Dim(-1) == 0:
			return d.Sum([]int{-1}, false)
		case math.IsInf(p, 1):
			return d.chebyshev()
		}
		return d.rowNorm(p)
	})
}

// rowNorm is the p-norm of rows, as of PyTorch's distances: where p is 0 NaN is no difference that could be counted.
func (v *Variable) rowNorm(p float64) *Variable {
	if p == 0 {
		return v.Abs().Ceil().Clamp(0, 1).Sum([]int{-1}, false)
	}
	return v.Norm(p, []int{-1}, false)
}

// batchOf stands for the dimensions of v but the last two, for its shape alone.
func (v *Variable) batchOf() *Variable {
	return &Variable{g: v.g, dtype: v.dtype, ndim: uint8(v.NDim() - 2), dims: v.dims}
}

// chebyshev is the size of the largest element along the last dimension. All elements of that size have the whole gradient, as in PyTorch's cdist, where
// Norm shares it among them.
func (v *Variable) chebyshev() *Variable {
	most := v.Detach().Norm(math.Inf(1), []int{-1}, true)
	size := v.Abs()
	return most.Squeeze(-1).Add(size.nothing().MaskedFill(size.Detach().Ne(most), 0).Sum([]int{-1}, false))
}

// cdistByProduct is the root of |a|² - 2ab + |b|², as one product of rows that have the squares beside them. Where it is 0 so is the gradient.
func (v *Variable) cdistByProduct(u *Variable) *Variable {
	av, au := v.Square().Sum([]int{-1}, true), u.Square().Sum([]int{-1}, true)
	left := Cat([]*Variable{v.MulScalar(-2), av, av.OnesLike()}, -1)
	right := Cat([]*Variable{u, au.OnesLike(), au}, -1)
	square := left.MatMul(right.Transpose(-2, -1))
	zero := square.LeScalar(0)
	return square.MaskedFill(zero, 1).Sqrt().MaskedFill(zero, 0)
}
