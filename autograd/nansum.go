package autograd

import (
	"math"
	"slices"

	"github.com/cistern-ml/cistern/tensor"
)

var (
	logCumSumExp = composite{name: "logcumsumexp"}
	nanSum       = composite{name: "nansum"}
	nanMean      = composite{name: "nanmean"}
	histc        = composite{name: "histc"}
	nanToNum     = composite{name: "nan_to_num"}
)

// LogCumSumExp is the logarithm of the running sum of the exponentials along dim, without overflow. It goes over v as often as the dimension can be
// halved, and saves as many tensors of its size.
func (v *Variable) LogCumSumExp(dim int) *Variable {
	return logCumSumExp.run([]*Variable{v}, func() error {
		_, err := logCumSumExp.dim(v, dim)
		return firstError(err, logCumSumExp.floats(v))
	}, func(in []*Variable) *Variable {
		x, n := in[0], 1
		if v.NDim() > 0 {
			n = v.Dim(dim)
		}
		if n < 2 {
			return x.copied()
		}
		for d := 1; d < n && x.Alive(); d *= 2 {
			sum := x.Narrow(dim, d, n-d).LogAddExp(x.Narrow(dim, 0, n-d))
			x = Cat([]*Variable{x.Narrow(dim, 0, d), sum}, dim)
		}
		return x
	})
}

// NanSum is Sum of the elements that are not NaN.
func (v *Variable) NanSum(dims []int, keep bool) *Variable {
	return nanSum.run([]*Variable{v}, nil, func(in []*Variable) *Variable { return in[0].MaskedFill(in[0].IsNaN(), 0).Sum(dims, keep) })
}

// NanMean is Mean of the elements that are not NaN, and NaN where there are none.
func (v *Variable) NanMean(dims []int, keep bool) *Variable {
	return nanMean.run([]*Variable{v}, func() error { return nanMean.floats(v) }, func(in []*Variable) *Variable {
		nan := in[0].IsNaN()
		return in[0].MaskedFill(nan, 0).Sum(dims, keep).Div(nan.Not().To(v.dtype).Sum(dims, keep))
	})
}

// NanToNum is v with other numbers in place of NaN and of the infinities, through which no gradient passes. PyTorch's defaults are 0 and the greatest
// and the least finite number of the type. Floating-point types.
func (v *Variable) NanToNum(nan, posInf, negInf float64) *Variable {
	return nanToNum.run([]*Variable{v}, func() error { return nanToNum.floats(v) }, func(in []*Variable) *Variable {
		x := in[0].MaskedFill(in[0].EqScalar(math.Inf(1)), posInf)
		return x.MaskedFill(in[0].EqScalar(math.Inf(-1)), negInf).MaskedFill(in[0].IsNaN(), nan)
	})
}

// VarMean is Var and Mean (torch.var_mean).
func (v *Variable) VarMean(dims []int, correction int, keep bool) (variance, mean *Variable) {
	return v.Var(dims, correction, keep), v.Mean(slices.Clone(dims), keep)
}

// StdMean is Std and Mean.
func (v *Variable) StdMean(dims []int, correction int, keep bool) (deviation, mean *Variable) {
	return v.Std(dims, correction, keep), v.Mean(slices.Clone(dims), keep)
}

// Histc is how many elements are in each of bins intervals of one width from lo to hi, [bins], in v's type; hi itself is in the last. Elements beyond are not
// counted. If lo equals hi they are the least and the greatest element. Without a gradient. It does not wait for the device.
func (v *Variable) Histc(bins int, lo, hi float64) *Variable {
	return histc.run([]*Variable{v}, func() error {
		if bins < 1 || bins >= tooLarge || !(lo <= hi) || math.IsInf(lo, 0) || math.IsInf(hi, 0) {
			return histc.values("%d bins from %v to %v", bins, lo, hi)
		}
		return histc.floats(v)
	}, func(in []*Variable) *Variable {
		if v.Len() == 0 {
			return v.g.Zeros(v.dtype, bins)
		}
		dt := tensor.Promote(v.dtype, tensor.Float32) // half precision has not as many numbers as there may be bins
		x := in[0].Detach().To(dt).Reshape(v.Len())
		least, most := v.g.Scalar(lo, dt), v.g.Scalar(hi, dt)
		if lo == hi {
			least, most = x.Min(nil, false), x.Max(nil, false)
		}
		one := least.Eq(most).To(dt) // a single value gets an interval around it
		least, most = least.Sub(one), most.Add(one)
		inside := x.Ge(least).And(x.Le(most))
		at := x.Sub(least).Div(most.Sub(least)).MulScalar(float64(bins)).MaskedFill(inside.Not(), 0).To(tensor.Int64)
		at = at.Clamp(0, float64(bins-1)) // of integers: what is NaN, or rounded up to bins, is brought back
		return v.g.Zeros(dt, bins).ScatterAdd(0, at, inside.To(dt)).To(v.dtype)
	})
}
