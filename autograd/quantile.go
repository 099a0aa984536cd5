package autograd

import "github.com/cistern-ml/cistern/tensor"

var (
	quantile    = composite{name: "quantile"}
	nanQuantile = composite{name: "nanquantile"}
)

// Interpolation says what a quantile is that lies between two elements.
type Interpolation uint8

// The interpolations. The zero value is PyTorch's default.
const (
	Linear      Interpolation = iota // on the line between them
	Lower                            // the lower one
	Higher                           // the higher one
	NearestRank                      // the nearer one, or that of even rank
	Midpoint                         // their mean
)

// Quantile is the q-quantile along dim, 0 <= q <= 1, and NaN if there is one. To take it of all elements, Reshape comes first. It sorts along dim.
func (v *Variable) Quantile(q float64, dim int, keep bool, how Interpolation) *Variable {
	return quantile.quantile(v, q, dim, keep, how)
}

// NanQuantile is Quantile of the elements that are not NaN, and NaN if all are.
func (v *Variable) NanQuantile(q float64, dim int, keep bool, how Interpolation) *Variable {
	return nanQuantile.quantile(v, q, dim, keep, how)
}

func (c composite) quantile(v *Variable, q float64, dim int, keep bool, how Interpolation) *Variable {
	return c.run([]*Variable{v}, func() error {
		d, err := c.dim(v, dim)
		switch {
		case err != nil:
		case v.NDim() > 0 && v.Dim(d) == 0:
			err = c.shapes("the dimension has no elements", v)
		case !(q >= 0 && q <= 1) || how > Midpoint:
			err = c.values("quantile %v with interpolation %d", q, how)
		case v.dtype != tensor.Float32 && v.dtype != tensor.Float64:
			err = &tensor.DTypeError{Op: c.name, DTypes: []tensor.DType{v.dtype}, Detail: "elements are float32 or float64"}
		}
		return err
	}, func(in []*Variable) *Variable {
		x := in[0]
		if v.NDim() == 0 {
			x = x.Reshape(1)
		}
		sorted, _ := x.Sort(dim, false)
		n := float64(x.Dim(dim))
		missing := sorted.Detach().IsNaN().Sum([]int{dim}, true).To(v.dtype)
		var rank *Variable
		if c == nanQuantile {
			rank = missing.RSubScalar(n-1).Clamp(0, n).MulScalar(q)
		} else {
			rank = Where(missing.GtScalar(0), missing.FullLike(n-1), missing.FullLike(q*(n-1)))
		}
		out := sorted.between(rank, dim, how)
		if !keep || v.NDim() == 0 {
			out = out.Squeeze(dim)
		}
		return out
	})
}

// between is the elements along dim at ranks that may lie between two of them.
func (v *Variable) between(rank *Variable, dim int, how Interpolation) *Variable {
	at := func(rank *Variable) *Variable { return v.Gather(dim, rank.To(tensor.Int64)) }
	below := rank.Floor()
	switch how {
	case Lower:
		return at(below)
	case Higher:
		return at(rank.Ceil())
	case NearestRank:
		return at(rank.Round())
	case Midpoint:
		return at(below).LerpScalar(at(rank.Ceil()), 0.5)
	}
	return at(below).Lerp(at(rank.Ceil()), rank.Sub(below))
}
