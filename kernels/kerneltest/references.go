package kerneltest

import (
	"math"
	"math/big"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// commonReferences has element-wise operations, as functions of float64 and int64 that follow the words of package op.
var commonReferences = map[op.ID]reference{
	op.Fill: {out: "k", bits: true,
		params:  []scalars{{f: floats8(1.5), i: ints8(1)}, {f: floats8(0), i: ints8(0)}},
		float:   func(_ []float64, f [8]float64) result { return exact(f[0]) },
		integer: func(_ []int64, i [8]int64) int64 { return i[0] }},
	op.Copy: {in: "k", out: "k", bits: true, any: func(_ dtype.DType, x []value) result { return result{value: x[0]} }},
	op.Where: {in: "bkk", out: "k", bits: true, any: func(_ dtype.DType, x []value) result {
		if x[0].i != 0 {
			return result{value: x[1]}
		}
		return result{value: x[2]}
	}},
	op.Not: {in: "k", out: "b",
		float:   func(x []float64, _ [8]float64) result { return truth(x[0] == 0) },
		integer: func(x []int64, _ [8]int64) int64 { return truth(x[0] == 0).i }},

	op.Neg: number1(func(x float64) float64 { return -x }, func(x int64) int64 { return -x }),
	op.Abs: number1(math.Abs, func(x int64) int64 {
		if x < 0 {
			return -x
		}
		return x
	}),
	op.Sign: number1(func(x float64) float64 {
		if x > 0 {
			return 1
		} else if x < 0 {
			return -1
		}
		return 0
	}, func(x int64) int64 { return b2i(x > 0) - b2i(x < 0) }),
	op.ReLU: number1(func(x float64) float64 { return max(x, 0) }, func(x int64) int64 { return max(x, 0) }),

	op.Exp:        float1(math.Exp),
	op.Log:        float1(logOf),
	op.Sqrt:       float1(math.Sqrt),
	op.Rsqrt:      float1(func(x float64) float64 { return 1 / math.Sqrt(x) }),
	op.Reciprocal: float1(func(x float64) float64 { return 1 / x }),
	op.Sin:        limited(math.Sin),
	op.Cos:        limited(math.Cos),
	op.Tanh:       float1(math.Tanh),
	op.Sigmoid:    float1(sigmoid),
	op.GELU:       summed(func(x float64) float64 { return x * 0.5 * math.Erfc(-x/math.Sqrt2) }),
	op.GELUTanh:   summed(func(x float64) float64 { return x * sigmoid(2*geluArgument(x)) }),
	op.SiLU:       float1(func(x float64) float64 { return x * sigmoid(x) }),
	op.LeakyReLU: {in: "k", out: "k", ulps: 1, params: []scalars{{f: floats8(0.25)}},
		float: func(x []float64, f [8]float64) result {
			if x[0] > 0 {
				return exact(x[0])
			}
			return exact(x[0] * f[0])
		}},
	op.Softplus: {in: "k", out: "k", ulps: 2, params: []scalars{{f: floats8(1, 20)}, {f: floats8(2, 5)}},
		float: func(x []float64, f [8]float64) result {
			if x[0]*f[0] > f[1] {
				return exact(x[0])
			}
			return exact(math.Log1p(math.Exp(x[0]*f[0])) / f[0])
		}},
	op.AddScalar: {in: "k", out: "k", ulps: 1, params: []scalars{{f: floats8(1.5), i: ints8(-3)}},
		float:   func(x []float64, f [8]float64) result { return scaled(x[0]+f[0], x[0], f[0]) },
		integer: func(x []int64, i [8]int64) int64 { return x[0] + i[0] }},
	op.MulScalar: {in: "k", out: "k", ulps: 1, params: []scalars{{f: floats8(-0.75), i: ints8(-3)}},
		float:   func(x []float64, f [8]float64) result { return exact(x[0] * f[0]) },
		integer: func(x []int64, i [8]int64) int64 { return x[0] * i[0] }},
	op.DivScalar: {in: "k", out: "k", params: []scalars{{f: floats8(-0.75)}, {f: floats8(3)}, {f: floats8(0)}},
		float: func(x []float64, f [8]float64) result { return exact(x[0] / f[0]) }},
	op.PowScalar: {in: "k", out: "k", ulps: 2,
		params: []scalars{
			{f: floats8(2), i: ints8(2)}, {f: floats8(3), i: ints8(39)}, {f: floats8(0.5), i: ints8(300)}, {f: floats8(-1), i: ints8(1)},
			{f: floats8(0)}, {f: floats8(1), i: ints8(64)}, {f: floats8(-2.5), i: ints8(7)},
		},
		float:   func(x []float64, f [8]float64) result { return exact(powOf(x[0], f[0])) },
		integer: func(x []int64, i [8]int64) int64 { return intPower(x[0], i[0]) }},
	op.Clamp: {in: "k", out: "k",
		params: []scalars{
			{f: floats8(-0.5, 1.25), i: ints8(-2, 100)}, {f: floats8(1, -1), i: ints8(5, 3)},
			{f: floats8(math.Inf(-1), 0), i: ints8(math.MinInt64, 7)}, {f: floats8(0, math.Inf(1)), i: ints8(3, math.MaxInt64)},
		},
		float:   func(x []float64, f [8]float64) result { return exact(min(max(x[0], f[0]), f[1])) },
		integer: func(x []int64, i [8]int64) int64 { return min(max(x[0], i[0]), i[1]) }},

	op.Add: {in: "kk", out: "k", ulps: 1, params: []scalars{{f: floats8(1), i: ints8(1)}, {f: floats8(-0.5), i: ints8(-3)}},
		float:   func(x []float64, f [8]float64) result { return scaled(x[0]+f[0]*x[1], x[0], f[0]*x[1]) },
		integer: func(x []int64, i [8]int64) int64 { return x[0] + i[0]*x[1] }},
	op.Sub: number2(func(a, b float64) float64 { return a - b }, func(a, b int64) int64 { return a - b }),
	op.Mul: number2(func(a, b float64) float64 { return a * b }, func(a, b int64) int64 { return a * b }),
	op.Div: {in: "kk", out: "k", ulps: 2, float: func(x []float64, _ [8]float64) result { return exact(x[0] / x[1]) }},
	op.Pow: {in: "kk", out: "k", ulps: 2, float: func(x []float64, _ [8]float64) result { return exact(powOf(x[0], x[1])) },
		integer: func(x []int64, _ [8]int64) int64 { return intPower(x[0], x[1]) }},
	op.Maximum: number2(func(a, b float64) float64 { return max(a, b) }, func(a, b int64) int64 { return max(a, b) }),
	op.Minimum: number2(func(a, b float64) float64 { return min(a, b) }, func(a, b int64) int64 { return min(a, b) }),
	op.And:     {in: "kk", out: "k", integer: func(x []int64, _ [8]int64) int64 { return x[0] & x[1] }},
	op.Or:      {in: "kk", out: "k", integer: func(x []int64, _ [8]int64) int64 { return x[0] | x[1] }},
	op.Eq:      compared(func(a, b float64) bool { return a == b }, func(a, b int64) bool { return a == b }),
	op.Ne:      compared(func(a, b float64) bool { return a != b }, func(a, b int64) bool { return a != b }),
	op.Lt:      compared(func(a, b float64) bool { return a < b }, func(a, b int64) bool { return a < b }),
	op.Le:      compared(func(a, b float64) bool { return a <= b }, func(a, b int64) bool { return a <= b }),
	op.Gt:      compared(func(a, b float64) bool { return a > b }, func(a, b int64) bool { return a > b }),
	op.Ge:      compared(func(a, b float64) bool { return a >= b }, func(a, b int64) bool { return a >= b }),

	op.ReLUGrad: {in: "kk", out: "k", float: func(x []float64, _ [8]float64) result {
		if x[1] <= 0 {
			return exact(0)
		}
		return exact(x[0])
	}},
	op.LeakyReLUGrad: {in: "kk", out: "k", ulps: 1, params: []scalars{{f: floats8(0.25)}},
		float: func(x []float64, f [8]float64) result {
			if x[1] > 0 {
				return exact(x[0])
			}
			return exact(x[0] * f[0])
		}},
	op.SigmoidGrad: gradient(0, 1, func(y float64) float64 { return y * (1 - y) }),
	op.TanhGrad:    gradient(-1, 1, func(y float64) float64 { return 1 - y*y }),
	op.GELUGrad: gradient(-12, 12, func(x float64) float64 {
		return 0.5*math.Erfc(-x/math.Sqrt2) + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
	}),
	op.GELUTanhGrad: gradient(-12, 12, func(x float64) float64 {
		s := sigmoid(2 * geluArgument(x))
		return s + x*sigmoidSlope(2*geluArgument(x))*2*math.Sqrt(2/math.Pi)*(1+3*0.044715*x*x)
	}),
	op.SiLUGrad: gradient(-30, 30, func(x float64) float64 {
		return sigmoid(x) + x*sigmoidSlope(x)
	}),
	op.SoftplusGrad: {in: "kk", out: "k", ulps: 3, params: []scalars{{f: floats8(1, 20)}, {f: floats8(2, 5)}}, values: (*maker).moderate,
		float: func(x []float64, f [8]float64) result {
			if x[1]*f[0] > f[1] {
				return exact(x[0])
			}
			return exact(x[0] * sigmoid(x[1]*f[0]))
		}},
}

func floats8(f ...float64) (a [8]float64) {
	copy(a[:], f)
	return a
}

func ints8(i ...int64) (a [8]int64) {
	copy(a[:], i)
	return a
}

func exact(f float64) result { return result{value: floatValue(f)} }

// scaled is a sum of terms: its rounding errors are as large as the largest of them allows.
func scaled(f float64, terms ...float64) result {
	r := exact(f)
	for _, t := range terms {
		if !math.IsInf(t, 0) && !math.IsNaN(t) {
			r.scale = max(r.scale, math.Abs(t))
		}
	}
	return r
}

func truth(b bool) result { return result{value: value{f: float64(b2i(b)), i: b2i(b)}} }

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// intPower is a to the power of b modulo 2**64, and what is left of it without its fraction where b is negative.
func intPower(a, b int64) int64 {
	switch {
	case b < 0 && a != 1 && a != -1:
		return 0
	case b < 0:
		b &= 1
	}
	p := big.NewInt(a)
	p.Exp(p, big.NewInt(b), new(big.Int).Lsh(big.NewInt(1), 64))
	return int64(p.Uint64())
}

// logOf is math.Log, which is wrong for denormal numbers on amd64 (go1.26: Log(5e-324) is -709.09).
func logOf(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// sigmoidSlope is the derivative of sigmoid: sigmoid(x)*sigmoid(-x).
func sigmoidSlope(x float64) float64 {
	e := math.Exp(-math.Abs(x))
	return e / ((1 + e) * (1 + e))
}

func geluArgument(x float64) float64 { return math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x) }

func float1(f func(float64) float64) reference {
	return reference{in: "k", out: "k", ulps: 2, float: func(x []float64, _ [8]float64) result { return exact(f(x[0])) }}
}

// summed is float1 for formulas x*(1+f(x)), whose sum may cancel.
func summed(f func(float64) float64) reference {
	r := float1(f)
	r.float = func(x []float64, _ [8]float64) result { return scaled(f(x[0]), x[0]) }
	return r
}

// limited is float1 for arguments of moderate size.
func limited(f func(float64) float64) reference {
	r := float1(f)
	r.values = (*maker).moderate
	return r
}

// moderate gives numbers up to 1000, and those that are none.
func (m *maker) moderate(_ int, d dtype.DType) func() value {
	wild := m.wild(d)
	return func() value {
		for {
			if v := wild(); !(math.Abs(v.f) > 1000) || math.IsInf(v.f, 0) {
				return v
			}
		}
	}
}

func number1(f func(float64) float64, i func(int64) int64) reference {
	r := float1(f)
	r.integer = func(x []int64, _ [8]int64) int64 { return i(x[0]) }
	r.ulps = 0
	return r
}

func number2(f func(a, b float64) float64, i func(a, b int64) int64) reference {
	return reference{in: "kk", out: "k",
		float:   func(x []float64, _ [8]float64) result { return exact(f(x[0], x[1])) },
		integer: func(x []int64, _ [8]int64) int64 { return i(x[0], x[1]) }}
}

func compared(f func(a, b float64) bool, i func(a, b int64) bool) reference {
	return reference{in: "kk", out: "b",
		float:   func(x []float64, _ [8]float64) result { return truth(f(x[0], x[1])) },
		integer: func(x []int64, _ [8]int64) int64 { return truth(i(x[0], x[1])).i }}
}

// gradient is a derivative times the incoming gradient, for saved values of a range and tame gradients. Derivatives are sums
// of terms of size 1 or so.
func gradient(lo, hi float64, f func(float64) float64) reference {
	return reference{in: "kk", out: "k", ulps: 3,
		values: func(m *maker, k int, d dtype.DType) func() value {
			if k == 0 {
				return m.tame(d)
			}
			return m.within(d, lo, hi)
		},
		float: func(x []float64, _ [8]float64) result { return scaled(x[0]*f(x[1]), 4*x[0]) }}
}
