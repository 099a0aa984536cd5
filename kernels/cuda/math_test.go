package cuda_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/cistern-ml/cistern/tensor/dtype"
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
