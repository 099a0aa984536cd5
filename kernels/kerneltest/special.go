package kerneltest

import (
	"maps"
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// references has the element-wise operations but Cast.
var references = func() map[op.ID]reference {
	all := maps.Clone(commonReferences)
	maps.Copy(all, specialReferences)
	maps.Copy(all, tableReferences)
	return all
}()

// specialReferences has special functions, roundings, tests, remainders and operations of three inputs.
var specialReferences = map[op.ID]reference{
	op.Log1p: float1(math.Log1p),
	op.Expm1: float1(math.Expm1),
	op.Erf:   float1(math.Erf),
	op.ELU: {in: "k", out: "k", ulps: 3, params: []scalars{{f: floats8(1)}, {f: floats8(0.3)}},
		float: func(x []float64, f [8]float64) result {
			if x[0] > 0 {
				return exact(x[0])
			}
			return exact(f[0] * math.Expm1(x[0]))
		}},
	op.Floor:    unrounded(math.Floor),
	op.Ceil:     unrounded(math.Ceil),
	op.Round:    unrounded(math.RoundToEven),
	op.Trunc:    unrounded(math.Trunc),
	op.IsNaN:    tested(math.IsNaN),
	op.IsInf:    tested(func(x float64) bool { return math.IsInf(x, 0) }),
	op.IsFinite: tested(func(x float64) bool { return !math.IsInf(x, 0) && !math.IsNaN(x) }),

	op.ErfGrad: gradient(-12, 12, func(x float64) float64 { return 2 / math.Sqrt(math.Pi) * math.Exp(-x*x) }),
	op.ELUGrad: {in: "kk", out: "k", ulps: 4, params: []scalars{{f: floats8(1)}, {f: floats8(0.3)}},
		values: func(m *maker, k int, d dtype.DType) func() value {
			if k == 0 {
				return m.tame(d)
			}
			return m.within(d, -12, 3)
		},
		float: func(x []float64, f [8]float64) result {
			if x[1] > 0 {
				return exact(x[0])
			}
			return exact(x[0] * f[0] * math.Exp(x[1]))
		}},
	op.ClampGrad: {in: "kk", out: "k", params: edgesOfClamp,
		float: func(x []float64, f [8]float64) result {
			if x[1] >= f[0] && x[1] <= f[1] {
				return exact(x[0])
			}
			return exact(0)
		}},
	op.HardtanhGrad: {in: "kk", out: "k", params: edgesOfClamp,
		float: func(x []float64, f [8]float64) result {
			if x[1] <= f[0] || x[1] >= f[1] {
				return exact(0)
			}
			return exact(x[0])
		}},

	op.Xor:  {in: "kk", out: "k", integer: func(x []int64, _ [8]int64) int64 { return b2i(x[0] != x[1]) }},
	op.Fmod: number2(math.Mod, intMod),
	op.Remainder: {in: "kk", out: "k", ulps: 1,
		float: func(x []float64, _ [8]float64) result {
			r := math.Mod(x[0], x[1])
			if r != 0 && math.Signbit(r) != math.Signbit(x[1]) {
				return scaled(r+x[1], x[1])
			}
			return exact(r)
		},
		integer: func(x []int64, _ [8]int64) int64 {
			r := intMod(x[0], x[1])
			if r != 0 && (r < 0) != (x[1] < 0) {
				r += x[1]
			}
			return r
		}},

	op.Lerp: {in: "kkk", out: "k", ulps: 3, values: (*maker).weights,
		float: func(x []float64, _ [8]float64) result {
			return scaled(x[0]+x[2]*(x[1]-x[0]), x[0], x[1], x[2]*x[0], x[2]*x[1])
		}},
	op.AddCMul: {in: "kkk", out: "k", ulps: 3, params: []scalars{{f: floats8(1), i: ints8(1)}, {f: floats8(-0.5), i: ints8(-3)}},
		values:  (*maker).weights,
		float:   func(x []float64, f [8]float64) result { return bounded(x[0], f[0]*x[1]*x[2]) },
		integer: func(x []int64, i [8]int64) int64 { return x[0] + i[0]*x[1]*x[2] }},
	op.AddCDiv: {in: "kkk", out: "k", ulps: 3, params: []scalars{{f: floats8(1)}, {f: floats8(-0.5)}}, values: (*maker).weights,
		float: func(x []float64, f [8]float64) result { return bounded(x[0], f[0]*(x[1]/x[2])) }},
}

var edgesOfClamp = []scalars{{f: floats8(-0.5, 1)}, {f: floats8(math.Inf(-1), 0)}, {f: floats8(0, math.Inf(1))}}

func unrounded(f func(float64) float64) reference {
	r := float1(f)
	r.ulps = 0
	return r
}

func tested(f func(float64) bool) reference {
	return reference{in: "k", out: "b", float: func(x []float64, _ [8]float64) result { return truth(f(x[0])) }}
}

// intMod is Go's remainder, and 0 where b is 0.
func intMod(a, b int64) int64 {
	if b == 0 {
		return 0
	}
	return a % b
}

// bounded is a+b, open where b alone may be too large for float32.
func bounded(a, b float64) result {
	r := scaled(a+b, a, b)
	r.any = math.Abs(b) > math.MaxFloat32/2 && !math.IsInf(b, 0)
	return r
}
