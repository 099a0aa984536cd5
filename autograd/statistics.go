package autograd

import (
	"github.com/cistern-ml/cistern/tensor"
)

var (
	cov               = composite{name: "cov"}
	corrCoef          = composite{name: "corrcoef"}
	dist              = composite{name: "dist"}
	renorm            = composite{name: "renorm"}
	pdist             = composite{name: "pdist"}
	aMinMax           = composite{name: "aminmax"}
	uniqueConsecutive = composite{name: "unique_consecutive"}
	vander            = composite{name: "vander"}
)

// samples refuses what is no vector and no matrix.
func (c composite) samples(v *Variable) error {
	if v.NDim() > 2 {
		return c.shapes("there are at most two dimensions", v)
	}
	return c.floats(v)
}

// Cov is the covariances of the rows of a matrix, each of which has the samples of one variable, or the variance, without dimensions, of a vector or of one row; the sums of products are divided
// by the number of samples less the correction, for which PyTorch's default is 1. It has no weights.
func (v *Variable) Cov(correction int) *Variable {
	return cov.run([]*Variable{v}, func() error { return cov.samples(v) }, func(in []*Variable) *Variable { return in[0].covariance(correction) })
}

func (v *Variable) covariance(correction int) *Variable {
	x := v.atLeast2d()
	n := x.Dim(1)
	x = x.Sub(x.Mean([]int{1}, true))
	c := x.MM(x.T()).DivScalar(float64(max(0, n-correction)))
	if c.Len() == 1 {
		return c.Reshape()
	}
	return c
}

// CorrCoef is the correlation coefficients of the rows of a matrix, each of which has the samples of one variable; that of a vector, or of one row, is 1.
func (v *Variable) CorrCoef() *Variable {
	return corrCoef.run([]*Variable{v}, func() error { return corrCoef.samples(v) }, func(in []*Variable) *Variable {
		c := in[0].covariance(1)
		if c.NDim() == 0 {
			return c.Div(c)
		}
		deviation := c.Diagonal(0, 0, 1).Sqrt()
		return c.Div(deviation.Unsqueeze(1)).Div(deviation.Unsqueeze(0)).Clamp(-1, 1)
	})
}

// Dist is the p-norm of v - u, of which PyTorch's default is 2. The two broadcast.
func (v *Variable) Dist(u *Variable, p float64) *Variable {
	return dist.pair(v, u, dist.floats, func(v, u *Variable) *Variable {
		d := v.Sub(u)
		if d.Len() == 0 {
			return d.Sum(nil, false) // 0 in every norm
		}
		return d.Norm(p, nil, false)
	})
}

// Renorm scales those parts of v along dim whose p-norm is more than limit to that norm.
func (v *Variable) Renorm(p float64, dim int, limit float64) *Variable {
	c, others := renorm, []int{}
	return c.run([]*Variable{v}, func() error {
		d, err := c.dim(v, dim)
		if err == nil && v.NDim() < 2 {
			err = c.shapes("at least two dimensions are needed", v)
		}
		if err == nil && (!(p > 0) || !(limit >= 0)) {
			err = c.values("p is %v and the limit %v; p is more than 0, and the limit at least 0", p, limit)
		}
		for i := range v.NDim() {
			if i != d {
				others = append(others, i)
			}
		}
		return firstError(err, c.floats(v))
	}, func(in []*Variable) *Variable {
		short := in[0].Detach().Norm(p, others, true).GtScalar(limit).Not()
		long := in[0].MaskedFill(short, 0) // what is short enough has no norm, which might be NaN
		scale := long.Norm(p, others, true).AddScalar(1e-7).MaskedFill(short, 1).RDivScalar(limit)
		return Where(short, in[0], long.Mul(scale))
	})
}

// PDist is the p-norms of the differences of all pairs of rows of a matrix, in order: of the first with all others, of the second with those after it. PyTorch's
// default is 2. All differences are in memory at once.
func (v *Variable) PDist(p float64) *Variable {
	return pdist.run([]*Variable{v}, func() error {
		if v.NDim() != 2 {
			return pdist.shapes("a matrix has two dimensions", v)
		}
		if !(p >= 0) {
			return pdist.values("p is %v; it is at least 0", p)
		}
		if n := v.Dim(0); float64(n)*float64(n) > tooLarge {
			return pdist.values("there are too many pairs of %d rows", n)
		}
		return pdist.floats(v)
	}, func(in []*Variable) *Variable {
		n := v.Dim(0)
		pairs := FromSlice(v.g, chosenRows(n, 2, false), n*(n-1)/2, 2)
		row := func(i int) *Variable { return in[0].IndexSelect(0, pairs.Select(1, i)) }
		d := row(0).Sub(row(1))
		if v.Dim(1) == 0 {
			return d.Sum([]int{1}, false)
		}
		return d.rowNorm(p)
	})
}

// AMinMax is the least and the greatest element along dims, or of all if there are none. Equal ones share the gradient.
func (v *Variable) AMinMax(dims []int, keep bool) (least, greatest *Variable) {
	out := aMinMax.runs(2, []*Variable{v}, nil, func(in []*Variable) []*Variable {
		return []*Variable{in[0].Min(dims, keep), in[0].Max(dims, keep)}
	})
	return out[0], out[1]
}

// UniqueConsecutive is the elements of v, in row-major order, without those that are equal to the one before; of each element of v the place of its value, in v's
// shape; and how often each value came in succession. The values have no gradient. It waits for the device. NaN differs from NaN.
func (v *Variable) UniqueConsecutive() (values, inverse, counts *Variable) {
	out := uniqueConsecutive.runs(3, []*Variable{v}, nil, func(in []*Variable) []*Variable {
		x, n := in[0].Detach().Reshape(v.Len()), v.Len()
		if n == 0 {
			none := v.g.Zeros(tensor.Int64, 0)
			return []*Variable{x.Reshape(0), none.Reshape(v.Shape()...), none}
		}
		fresh := Cat([]*Variable{v.g.Ones(tensor.Bool, 1), x.Narrow(0, 1, n-1).Ne(x.Narrow(0, 0, n-1))}, 0)
		at := fresh.CumSum(0).SubScalar(1)
		return []*Variable{x.MaskedSelect(fresh), at.Reshape(v.Shape()...), at.BinCount(nil, 0)}
	})
	return out[0], out[1], out[2]
}

// Vander is the Vandermonde matrix [..., n] of v: its powers from n-1 down to 0, or up from 0 if increasing. Those of integers and bools are int64.
func (v *Variable) Vander(n int, increasing bool) *Variable {
	return vander.run([]*Variable{v}, func() error {
		if n < 0 || n >= tooLarge {
			return vander.values("n is %d; it is at least 0", n)
		}
		return nil
	}, func(in []*Variable) *Variable {
		powers := v.g.Arange(0, float64(n), 1, tensor.Int64)
		if !increasing {
			powers = powers.Flip(0)
		}
		x := in[0]
		if !x.dtype.IsFloat() {
			x = x.To(tensor.Int64)
		}
		return x.Unsqueeze(-1).Pow(powers.To(x.dtype))
	})
}
