package kerneltest

import (
	"maps"
	"math"
	"math/big"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// references has the element-wise operations but Cast.
var references = func() map[op.ID]reference {
	all := maps.Clone(commonReferences)
	maps.Copy(all, tableReferences)
	return all
}()

// commonReferences has the element-wise operations that are not of the table.
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

// positive gives numbers between a hundredth and a thousand.
func (m *maker) positive(_ int, d dtype.DType) func() value {
	return func() value { return floatValue(round(d, math.Exp(m.rng.Float64()*11.5-4.6))) }
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
