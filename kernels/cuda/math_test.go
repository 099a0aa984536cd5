package cuda_test

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/op"
)

// The functions of src/math.h against package math, on points all over a range. Bounds are the largest errors seen, rounded up:
// a change of an approximation shows here.
func TestMath_ErrorsAreBounded(t *testing.T) {
	cases := []struct {
		id       op.ID
		f        func(float64) float64
		lo, hi   float64
		f32, f64 float64 // ulps
	}{
		{op.Exp, math.Exp, -103, 88, 0.9, 2},
		{op.Log, math.Log, 1e-6, 40, 0.9, 2},
		{op.Tanh, math.Tanh, -9, 9, 1.9, 3},
		{op.Sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, -80, 30, 2, 5},
		{op.SiLU, func(x float64) float64 { return x / (1 + math.Exp(-x)) }, -103, 30, 2.5, 6},
		{op.Sqrt, math.Sqrt, 0, 1e9, 0.5, 0},
		{op.Rsqrt, func(x float64) float64 { return 1 / math.Sqrt(x) }, 1e-3, 1e9, 1.5, 1},
		{op.Reciprocal, func(x float64) float64 { return 1 / x }, -50, 50, 0.5, 0},
		{op.Sin, math.Sin, -3, 3, 0.6, 2},
		{op.Cos, math.Cos, -1.5, 1.5, 0.6, 2},
		{op.Log1p, math.Log1p, -0.99, 40, 1.2, 1},
		{op.Log1p, math.Log1p, -1e-3, 1e-3, 1, 1},
		{op.Expm1, math.Expm1, -16, 80, 1.3, 2},
		{op.Expm1, math.Expm1, -0.6, 0.6, 1.7, 2},
		{op.Erf, math.Erf, -4, 4, 1, 1},
		{op.Sin, math.Sin, 1e4, 1e5, 0.6, math.Inf(1)}, // package math is no better there
	}
	dev, _ := emulated(t)
	m := memory{t, dev}
	rng := rand.New(rand.NewPCG(7, 8))
	const n = 40_000
	for _, c := range cases {
		for _, d := range []dtype.DType{dtype.Float32, dtype.Float64} {
			values := make([]float64, n)
			for i := range values {
				values[i] = c.lo + rng.Float64()*(c.hi-c.lo)
				if d == dtype.Float32 {
					values[i] = float64(float32(values[i]))
				}
			}
			a, dst := m.put(d, values, []int{n}), m.put(d, values, []int{n})
			require.NoError(t, kernels.Launch(&op.Call{Op: c.id, Stream: dev.DefaultStream(), Out: []op.View{dst}, In: []op.View{a}}))
			worst, at := 0.0, 0.0
			raw := m.get(dst)
			for i, x := range values {
				want := c.f(x)
				var e float64
				if d == dtype.Float32 {
					e = math.Abs(float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))-want) / ulp(want, 23, -126)
				} else {
					e = math.Abs(math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))-want) / ulp(want, 52, -1022)
				}
				if !(e <= worst) {
					worst, at = e, x
				}
			}
			t.Logf("%s of %s on [%g, %g]: %.2f ulps at %g", c.id, d, c.lo, c.hi, worst, at)
			bound := c.f32
			if d == dtype.Float64 {
				bound = c.f64
			}
			require.LessOrEqual(t, worst, bound, "%s of %s at %g", c.id, d, at)
		}
	}
}

// ulp is the distance of neighbouring numbers around v in a format with so many bits of mantissa.
func ulp(v float64, mantissa, least int) float64 {
	return math.Ldexp(1, max(math.Ilogb(v), least)-mantissa)
}

// Pow of float64 against products of 300 bits: math.Pow is off by hundreds of ulps where the exponent is large.
func TestMath_PowOfFloat64IsWithinAnUlp(t *testing.T) {
	dev, _ := emulated(t)
	m := memory{t, dev}
	rng := rand.New(rand.NewPCG(9, 10))
	const n = 300
	for _, halves := range []int{-177, -40, -3, 1, 5, 24, 177, 641} { // the exponent is half of that
		values, want := make([]float64, n), make([]float64, n)
		for i := range values {
			values[i] = math.Exp(rng.Float64()*2 - 1)
			root := new(big.Float).SetPrec(300).SetFloat64(values[i])
			root.Sqrt(root)
			product := new(big.Float).SetPrec(300).SetInt64(1)
			for range max(halves, -halves) {
				product.Mul(product, root)
			}
			if halves < 0 {
				product.Quo(new(big.Float).SetPrec(300).SetInt64(1), product)
			}
			want[i], _ = product.Float64()
		}
		a, dst := m.put(dtype.Float64, values, []int{n}), m.put(dtype.Float64, values, []int{n})
		b := m.put(dtype.Float64, []float64{float64(halves) / 2}, []int{n}, 0)
		require.NoError(t, kernels.Launch(&op.Call{Op: op.Pow, Stream: dev.DefaultStream(), Out: []op.View{dst}, In: []op.View{a, b}}))
		raw := m.get(dst)
		for i, x := range values {
			got := math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
			require.LessOrEqual(t, math.Abs(got-want[i]), 1*ulp(want[i], 52, -1022), "%g to the power of %d/2", x, halves)
		}
	}
}

// The density is 0 where x is infinite, and their product no number.
func TestMath_SlopeOfGELUAtInfinitiesIs1And0(t *testing.T) {
	dev, _ := emulated(t)
	m := memory{t, dev}
	x, n := []float64{math.Inf(1), math.Inf(-1), 100, -100}, []int{4}
	g, a, dst := m.put(dtype.Float64, []float64{2, 2, 2, 2}, n), m.put(dtype.Float64, x, n), m.put(dtype.Float64, x, n)
	require.NoError(t, kernels.Launch(&op.Call{Op: op.GELUGrad, Stream: dev.DefaultStream(), Out: []op.View{dst}, In: []op.View{g, a}}))
	raw := m.get(dst)
	for i, want := range []float64{2, 0, 2, 0} {
		require.Equal(t, want, math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:])), "of %g", x[i])
	}
}
