package autograd

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

var (
	atLeast1d = composite{name: "atleast_1d"}
	atLeast2d = composite{name: "atleast_2d"}
	atLeast3d = composite{name: "atleast_3d"}
	hSplit    = composite{name: "hsplit"}
	vSplit    = composite{name: "vsplit"}
	dSplit    = composite{name: "dsplit"}
	diagFlat  = composite{name: "diagflat"}
	flipLR    = composite{name: "fliplr"}
	flipUD    = composite{name: "flipud"}
	ndtr      = composite{name: "special_ndtr"}
	entr      = composite{name: "special_entr"}
	xlog1py   = composite{name: "special_xlog1py"}
	mvLgamma  = composite{name: "mvlgamma"}
	addBMM    = composite{name: "addbmm"}
)

// AtLeast1d is v, and [1] of one without dimensions. It shares v's memory.
func (v *Variable) AtLeast1d() *Variable {
	return atLeast1d.alone(v, func(v *Variable) *Variable {
		if v.NDim() > 0 {
			return v
		}
		return v.Unsqueeze(0)
	})
}

// AtLeast2d is v, and a row [1, n] of one dimension. It shares v's memory.
func (v *Variable) AtLeast2d() *Variable {
	return atLeast2d.alone(v, func(v *Variable) *Variable {
		if v = v.AtLeast1d(); v.NDim() > 1 {
			return v
		}
		return v.Unsqueeze(0)
	})
}

// AtLeast3d is v, [1, n, 1] of one dimension and [n, m, 1] of two. It shares v's memory.
func (v *Variable) AtLeast3d() *Variable {
	return atLeast3d.alone(v, func(v *Variable) *Variable {
		if v = v.AtLeast2d(); v.NDim() > 2 {
			return v
		}
		return v.Unsqueeze(-1)
	})
}

// HSplit cuts v into n equal pieces along dimension 1, or 0 if that is all there is; n divides the dimension. The pieces share v's memory.
func (v *Variable) HSplit(n int) []*Variable {
	return hSplit.equal(v, n, 1, min(1, max(v.NDim()-1, 0)))
}

// VSplit is HSplit along dimension 0 of two or more.
func (v *Variable) VSplit(n int) []*Variable { return vSplit.equal(v, n, 2, 0) }

// DSplit is HSplit along dimension 2 of three or more.
func (v *Variable) DSplit(n int) []*Variable { return dSplit.equal(v, n, 3, 2) }

func (c composite) equal(v *Variable, n, least, dim int) []*Variable {
	if v.Alive() && (v.NDim() < least || n < 1 || n > mostPieces || v.Dim(dim)%n != 0) {
		err := c.shapes(fmt.Sprintf("%d equal pieces along dimension %d of %d or more", n, dim, least), v)
		v.Graph().Refuse(c.name, err, v)
		return v.failed(unknown)
	}
	return v.TensorSplit(n, dim)
}

// DiagFlat is a matrix with the elements of v, whatever its shape, on the diagonal offset.
func (v *Variable) DiagFlat(offset int) *Variable {
	return diagFlat.alone(v, func(v *Variable) *Variable { return v.Reshape(v.Len()).DiagEmbed(offset) })
}

// FlipLR turns the order of dimension 1 around, of two or more.
func (v *Variable) FlipLR() *Variable { return flipLR.flipped(v, 1) }

// FlipUD turns the order of dimension 0 around.
func (v *Variable) FlipUD() *Variable { return flipUD.flipped(v, 0) }

func (c composite) flipped(v *Variable, dim int) *Variable {
	return c.run([]*Variable{v}, func() error {
		if v.NDim() <= dim {
			return c.shapes(fmt.Sprintf("there is no dimension %d", dim), v)
		}
		return nil
	}, func(in []*Variable) *Variable { return in[0].Flip(dim) })
}

// Ndtr is the normal distribution function: the probability of numbers up to v.
func (v *Variable) Ndtr() *Variable {
	return ndtr.alone(v, func(v *Variable) *Variable { return v.MulScalar(-math.Sqrt2 / 2).Erfc().MulScalar(0.5) })
}

// Entr is -v*log(v), 0 at 0 and -Inf below. Its gradient at 0 is 0.
func (v *Variable) Entr() *Variable {
	return entr.alone(v, func(v *Variable) *Variable {
		none := v.LeScalar(0)
		x := v.MaskedFill(none, 1)
		return x.Mul(x.Log()).Neg().MaskedFill(v.LtScalar(0), math.Inf(-1))
	})
}

// Xlog1py is v*log(1+u), and 0 where v is 0, unless u is NaN.
func (v *Variable) Xlog1py(u *Variable) *Variable {
	return xlog1py.pair(v, u, nil, func(v, u *Variable) *Variable {
		none := v.EqScalar(0).And(u.LeScalar(-1).Or(u.EqScalar(math.Inf(1))))
		u = u.Expand(none.Shape()...) // before its slope, which may be infinite, meets a gradient of no elements
		return v.Mul(u.Log1p()).MaskedFill(none, 0)
	})
}

// MVLgamma is the logarithm of the multivariate gamma function of p dimensions, which is for elements above (p-1)/2.
func (v *Variable) MVLgamma(p int) *Variable {
	return mvLgamma.run([]*Variable{v}, func() error {
		if p < 1 || p > 1<<16 {
			return mvLgamma.values("%d dimensions; there is 1 at least", p)
		}
		return nil
	}, func(in []*Variable) *Variable {
		places := v.g.Arange(0, float64(p), 1, tensor.Float64).MulScalar(-0.5)
		if in[0].dtype.IsFloat() {
			places = places.To(in[0].dtype)
		} else {
			places = places.To(tensor.Float32)
		}
		n := float64(p)
		return in[0].Unsqueeze(-1).Add(places).Lgamma().Sum([]int{-1}, false).AddScalar(n * (n - 1) / 4 * math.Log(math.Pi))
	})
}

// AddBMM is beta*c + alpha times the sum of the products of the matrices in a and b, [B, n, m] and [B, m, p], with c broadcast to [n, p]. If beta is 0, c is
// not read.
func AddBMM(c, a, b *Variable, beta, alpha float64) *Variable {
	in := []*Variable{c, a, b}
	return addBMM.run(in, func() error {
		if a.NDim() != 3 || b.NDim() != 3 || a.Dim(0) != b.Dim(0) || a.Dim(2) != b.Dim(1) {
			return addBMM.shapes("two batches of matrices are needed whose products there are", in...)
		}
		return addBMM.added(c, tensor.Shape{a.Dim(1), b.Dim(2)}, in)
	}, func(in []*Variable) *Variable {
		// One product: the batch is part of what is summed.
		wide := in[1].Transpose(0, 1).Reshape(a.Dim(1), a.Dim(0)*a.Dim(2))
		return plusScaled(in[0], wide.MM(in[2].Reshape(a.Dim(0)*a.Dim(2), b.Dim(2))), beta, alpha)
	})
}
