package autograd

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

var (
	glu           = composite{name: "glu"}
	softmin       = composite{name: "softmin"}
	gumbelSoftmax = composite{name: "gumbel_softmax"}
	clampTo       = composite{name: "clamp_to"}
)

// GLU is the first half of v along dim times the sigmoid of the second. PyTorch's default is the last dimension.
func (v *Variable) GLU(dim int) *Variable {
	return glu.run([]*Variable{v}, func() error {
		_, err := glu.dim(v, dim)
		if err == nil && (v.NDim() == 0 || v.Dim(dim)%2 != 0) {
			err = glu.shapes("the dimension has no two halves", v)
		}
		return firstError(err, glu.floats(v))
	}, func(in []*Variable) *Variable {
		n := v.Dim(dim) / 2
		return in[0].Narrow(dim, 0, n).Mul(in[0].Narrow(dim, n, n).Sigmoid())
	})
}

// Softmin is the softmax of -v along dim.
func (v *Variable) Softmin(dim int) *Variable {
	return softmin.run([]*Variable{v}, func() error {
		_, err := softmin.dim(v, dim)
		return firstError(err, softmin.floats(v))
	}, func(in []*Variable) *Variable { return in[0].Neg().Softmax(dim) })
}

// GumbelSoftmax draws a class along dim by logits v: softmax((v + noise)/tau), with noise of the Gumbel distribution from the graph's generator. hard makes
// the result 1 at the greatest and 0 elsewhere, with the gradient of what it would be otherwise; NaN stays NaN. tau is not 0. PyTorch's defaults are 1, false and the last
// dimension.
func (v *Variable) GumbelSoftmax(tau float64, hard bool, dim int) *Variable {
	return gumbelSoftmax.run([]*Variable{v}, func() error {
		_, err := gumbelSoftmax.dim(v, dim)
		if err == nil && (tau == 0 || math.IsNaN(tau)) {
			err = gumbelSoftmax.values("tau is %v", tau)
		}
		return firstError(err, gumbelSoftmax.floats(v))
	}, func(in []*Variable) *Variable {
		soft := in[0].Add(in[0].gumbel()).DivScalar(tau).Softmax(dim)
		if !hard || v.Len() == 0 {
			return soft
		}
		chosen := soft.Detach().ArgMax(dim, true)
		one := soft.ZerosLike().ScatterValue(dim, chosen, 1).Add(soft.nothing())
		return Where(soft.IsNaN(), soft, one)
	})
}

// gumbel is numbers of the Gumbel distribution, -log(-log(1-u)), of v's shape and type. u of half precision is drawn in float32.
func (v *Variable) gumbel() *Variable {
	dt := v.dtype
	if dt.Size() == 2 {
		dt = tensor.Float32
	}
	least := 0x1p-25 // between 0, of which there is no logarithm, and the least u above it
	if dt == tensor.Float64 {
		least = 0x1p-54
	}
	u := v.g.Rand(dt, v.Shape()...).Clamp(least, 1)
	return u.Neg().Log1p().Neg().Log().Neg().To(v.dtype)
}

// ClampTo is v between lo and hi, which broadcast to it; nil is no limit, and hi is what counts where it is less than lo. The gradient goes to what the
// element is.
func (v *Variable) ClampTo(lo, hi *Variable) *Variable {
	in := []*Variable{v}
	for _, limit := range []*Variable{lo, hi} {
		if limit != nil {
			in = append(in, limit)
		}
	}
	return clampTo.run(in, func() error {
		if len(in) == 1 {
			return clampTo.values("there is no limit")
		}
		return clampTo.broadcast(in...)
	}, func(in []*Variable) *Variable {
		rest := in[1:]
		x := Where(in[0].Ne(in[0]), in[0].Detach(), in[0]) // NaN has no gradient
		if lo != nil {
			x, rest = x.limited(rest[0], x.Lt(rest[0])), rest[1:]
		}
		if hi != nil {
			x = x.limited(rest[0], x.Gt(rest[0]))
		}
		return x
	})
}

// limited is the limit where v is beyond it, and NaN where that is.
func (v *Variable) limited(limit, beyond *Variable) *Variable {
	return Where(limit.Ne(limit), limit.Detach(), Where(beyond, limit, v))
}
