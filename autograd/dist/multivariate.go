package dist

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// MultivariateNormal is a batch of normal distributions of vectors.
type MultivariateNormal struct {
	base
	loc, factor *autograd.Variable
	size        int
}

// NewMultivariateNormal makes distributions of means loc [batch..., K] and lower triangular factors [batch..., K, K] of the covariances, with a positive
// diagonal (torch.distributions.MultivariateNormal(loc, scale_tril=factor)); their batches broadcast. What is above the diagonal counts as 0. The factor of a
// covariance is matrix.Cholesky of it.
func NewMultivariateNormal(loc, factor *autograd.Variable, opts ...Option) MultivariateNormal {
	d := MultivariateNormal{base: newBase("MultivariateNormal", 1, opts, loc), loc: loc}
	matrices := newBase("MultivariateNormal", 2, opts, factor)
	if loc == nil || factor == nil || d.g == nil || d.g.Err() != nil {
		if d.g = firstGraph(d.g, matrices.g); d.g != nil && d.g.Err() == nil {
			d.refuse("the mean or the factor is nil")
		}
		return d
	}
	d.size = loc.Dim(-1)
	shape, err := tensor.BroadcastShapes(d.shape, matrices.shape)
	if err != nil || factor.Dim(-1) != d.size || factor.Dim(-2) != d.size || d.size == 0 {
		d.refuse("means of shape %v and factors of shape %v; want [batch..., K] and [batch..., K, K] of at least one number", loc.Shape(), factor.Shape())
		return d
	}
	d.shape, d.dt = shape, tensor.Promote(d.dt, factor.DType())
	d.factor = d.scoped(func() *autograd.Variable { return factor.Tril(0) })
	d.require("loc", "numbers", loc, real)
	d.require("factor", "positive on its diagonal", factor, func(v *autograd.Variable) *autograd.Variable { return v.Diagonal(0, -2, -1).GtScalar(0) })
	return d
}

func firstGraph(a, b *autograd.Graph) *autograd.Graph {
	if a != nil {
		return a
	}
	return b
}

// Sample draws values of shape [shape..., batch..., K].
func (d MultivariateNormal) Sample(shape ...int) *autograd.Variable {
	return d.quiet(func() *autograd.Variable { return d.draw(shape) })
}

// RSample is Sample with gradients: loc + factor times noise.
func (d MultivariateNormal) RSample(shape ...int) *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.draw(shape) })
}

func (d MultivariateNormal) draw(shape []int) *autograd.Variable {
	if d.g.Err() != nil {
		return d.loc
	}
	noise := d.g.RandN(d.dt, append(d.of(shape), d.size, 1)...)
	return d.loc.Add(d.factor.MatMul(noise).Squeeze(-1))
}

// LogProb is the logarithm of the density at value, [..., K].
func (d MultivariateNormal) LogProb(value *autograd.Variable) *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		apart := value.Sub(d.loc)
		if d.g.Err() != nil {
			return apart
		}
		z := solved(d.factor, apart.Unsqueeze(-1)).Squeeze(-1)
		return sumLast(z.Square()).AddScalar(float64(d.size) * math.Log(2*math.Pi)).MulScalar(-0.5).Sub(logDet(d.factor))
	})
}

// solved is x of factor*x = b, [..., K, M], row by row: a lower triangular matrix needs no decomposition.
func solved(factor, b *autograd.Variable) *autograd.Variable {
	var rows *autograd.Variable // those that are found, [..., i, M]
	for i := range factor.Dim(-1) {
		row, diagonal := b.Narrow(-2, i, 1), factor.Narrow(-2, i, 1).Narrow(-1, i, 1)
		if i > 0 {
			row = row.Sub(factor.Narrow(-2, i, 1).Narrow(-1, 0, i).MatMul(rows))
		}
		row = row.Div(diagonal)
		if rows == nil {
			rows = row
		} else if rows.Graph().Err() == nil {
			rows = autograd.Cat([]*autograd.Variable{rows, row}, -2)
		}
	}
	return rows
}

// logDet is the logarithm of the determinant of a factor, half of that of the covariance.
func logDet(factor *autograd.Variable) *autograd.Variable {
	return sumLast(factor.Diagonal(0, -2, -1).Log())
}

// Entropy is the entropy of each of the batch.
func (d MultivariateNormal) Entropy() *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		if d.g.Err() != nil {
			return d.loc
		}
		return d.full(logDet(d.factor).AddScalar(0.5 * float64(d.size) * (1 + math.Log(2*math.Pi))))
	})
}

// Mean is loc, of shape [batch..., K].
func (d MultivariateNormal) Mean() *autograd.Variable {
	if d.g == nil || d.g.Err() != nil {
		return d.loc
	}
	return d.loc.Expand(append(d.shape.Clone(), d.size)...)
}

// Variance is the diagonal of the covariance, of shape [batch..., K].
func (d MultivariateNormal) Variance() *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		if d.g.Err() != nil {
			return d.loc
		}
		return sumLast(d.factor.Square()).Expand(append(d.shape.Clone(), d.size)...)
	})
}

func (d MultivariateNormal) valueDims() int { return 1 }

// klMultivariate is the divergence of p from q.
func klMultivariate(p, q MultivariateNormal) *autograd.Variable {
	if p.size != q.size {
		return p.refuse("KL of distributions of %d and %d numbers", p.size, q.size)
	}
	if p.g.Err() != nil {
		return p.loc
	}
	shape, err := tensor.BroadcastShapes(p.shape, q.shape)
	if err != nil {
		return p.refuse("KL of batches %v and %v, which do not broadcast", p.shape, q.shape)
	}
	factor := p.factor.Expand(append(shape.Clone(), p.size, p.size)...)
	trace := solved(q.factor, factor).Square().Sum([]int{-2, -1}, false)
	apart := sumLast(solved(q.factor, p.loc.Sub(q.loc).Unsqueeze(-1)).Squeeze(-1).Square())
	return trace.Add(apart).SubScalar(float64(p.size)).MulScalar(0.5).Add(logDet(q.factor)).Sub(logDet(p.factor))
}
