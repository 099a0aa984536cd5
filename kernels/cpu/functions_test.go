package cpu

import (
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/fulltests"
)

// accuracy is what a function of one element promises: within so many units in the last place of the exact value, or of scale times x.
type accuracy struct {
	f       functionID
	exact   func(x float64) float64
	ulps    float64
	scale   func(x float64) float64 // nil is the value itself
	from    float32                 // 0 and 0 are all numbers
	to      float32
	scalars *functionScalars
	slope   bool // f is a gradient: 1 times the derivative
}

func exactSigmoid(x float64) float64 {
	if x < 0 {
		return math.Exp(x) / (1 + math.Exp(x))
	}
	return 1 / (1 + math.Exp(-x))
}

// exactSoftplus is log(1+exp(x)), of which math.Log1p loses denormal numbers.
func exactSoftplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// exactLogit is accurate near 1/2 too.
func exactLogit(x float64) float64 {
	if x > 0.25 && x < 0.75 {
		return math.Log1p((2*x - 1) / (1 - x))
	}
	return log64(x / (1 - x))
}

func logitBounds(eps float64) *functionScalars {
	s := logitScalars(eps)
	return &s
}

func logitSlopeBounds() *functionScalars {
	return &functionScalars{narrow: [4]float32{0, 1, float32(math.NaN())}}
}

func exactGeluArgument(x float64) float64 {
	return 2 * math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x)
}

func exactMish(x float64) float64 {
	n := math.Exp(x) * (math.Exp(x) + 2)
	if x > 300 {
		return x
	}
	return x * (n / (n + 2))
}

func unit(float64) float64 { return 1 }

var accuracies = map[string]accuracy{
	"exp":        {f: fnExp, exact: math.Exp, ulps: 1.1},
	"exp2":       {f: fnExp2, exact: math.Exp2, ulps: 1.1},
	"expm1":      {f: fnExpm1, exact: math.Expm1, ulps: 1.5},
	"log":        {f: fnLog, exact: log64, ulps: 1},
	"log2":       {f: fnLog2, exact: log2of64, ulps: 1.5},
	"log10":      {f: fnLog10, exact: func(x float64) float64 { return log64(x) / math.Ln10 }, ulps: 1.5},
	"log1p":      {f: fnLog1p, exact: math.Log1p, ulps: 1},
	"sqrt":       {f: fnSqrt, exact: math.Sqrt, ulps: 0.5},
	"rsqrt":      {f: fnRsqrt, exact: func(x float64) float64 { return 1 / math.Sqrt(x) }, ulps: 1.5},
	"reciprocal": {f: fnReciprocal, exact: func(x float64) float64 { return 1 / x }, ulps: 0.5},
	"sin":        {f: fnSin, exact: math.Sin, ulps: 1.7, from: -sineLimit, to: sineLimit},
	"cos":        {f: fnCos, exact: math.Cos, ulps: 1.7, from: -sineLimit, to: sineLimit},
	"tan":        {f: fnTan, exact: math.Tan, ulps: 2.8, from: -sineLimit, to: sineLimit},
	"asin":       {f: fnAsin, exact: asin64, ulps: 2},
	"acos":       {f: fnAcos, exact: acos64, ulps: 2},
	"atan":       {f: fnAtan, exact: math.Atan, ulps: 2},
	"sinh":       {f: fnSinh, exact: math.Sinh, ulps: 2},
	"cosh":       {f: fnCosh, exact: math.Cosh, ulps: 2},
	"asinh":      {f: fnAsinh, exact: math.Asinh, ulps: 0.51},
	"acosh":      {f: fnAcosh, exact: math.Acosh, ulps: 0.51},
	"atanh":      {f: fnAtanh, exact: math.Atanh, ulps: 0.51},
	"tanh":       {f: fnTanh, exact: math.Tanh, ulps: 1.6},
	"sigmoid":    {f: fnSigmoid, exact: exactSigmoid, ulps: 2.4},
	"silu":       {f: fnSilu, exact: func(x float64) float64 { return x * exactSigmoid(x) }, ulps: 3.1},
	"mish":       {f: fnMish, exact: exactMish, ulps: 4},
	"softplus":   {f: fnSoftplus, exact: exactSoftplus, ulps: 2},
	"softplus of 0.7": {f: fnSoftplusScaled, exact: func(x float64) float64 {
		if 0.7*x > 20 {
			return x
		}
		return exactSoftplus(0.7*x) / 0.7
	}, ulps: 3, from: -150, to: 200, scalars: &functionScalars{narrow: [4]float32{0.7, float32(0.7 - float64(float32(0.7))), float32((0.7 - float64(float32(0.7))) / 0.7), 20}}},
	"log sigmoid": {f: fnLogSigmoid, exact: func(x float64) float64 { return -exactSoftplus(-x) }, ulps: 2},
	"erf":         {f: fnErf, exact: math.Erf, ulps: 1.5},
	"erfc":        {f: fnErfc, exact: math.Erfc, ulps: 5.6},
	"gelu":        {f: fnGelu, exact: func(x float64) float64 { return x * 0.5 * math.Erfc(-x/math.Sqrt2) }, ulps: 6.3},
	"gelu tanh":   {f: fnGeluTanh, exact: func(x float64) float64 { return x * exactSigmoid(exactGeluArgument(x)) }, ulps: 4},
	"elu": {f: fnElu, exact: func(x float64) float64 {
		if x > 0 {
			return x
		}
		return 0.5 * math.Expm1(x)
	}, ulps: 1.5, scalars: &functionScalars{narrow: [4]float32{0.5, 1}}},

	"power 2.5":  {f: fnPowScalar, exact: func(x float64) float64 { return pow64(x, 2.5) }, ulps: 0.54, scalars: &functionScalars{wide: [4]float64{2.5}}},
	"power -3":   {f: fnPowScalar, exact: func(x float64) float64 { return pow64(x, -3) }, ulps: 0.54, scalars: &functionScalars{wide: [4]float64{-3}}},
	"power 0.01": {f: fnPowScalar, exact: func(x float64) float64 { return pow64(x, 0.01) }, ulps: 0.54, scalars: &functionScalars{wide: [4]float64{0.01}}},
	"power 77":   {f: fnPowScalar, exact: func(x float64) float64 { return pow64(x, 77) }, ulps: 0.54, scalars: &functionScalars{wide: [4]float64{77}}},
	"cube":       {f: fnCube, exact: func(x float64) float64 { return x * x * x }, ulps: 1.5},

	"lgamma":              {f: fnLgamma, exact: lgamma64, ulps: 0.6, from: 0, to: math.MaxFloat32},
	"lgamma of negative":  {f: fnLgamma, exact: lgamma64, ulps: 1, scale: unit, from: -1e6, to: 0},
	"digamma":             {f: fnDigamma, exact: digamma64, ulps: 0.6, from: 0, to: math.MaxFloat32},
	"digamma of negative": {f: fnDigamma, exact: digamma64, ulps: 1, scale: unit, from: -1e6, to: -0x1p-126},
	"slope of logit":      {f: fnLogitGrad, exact: func(x float64) float64 { return 1 / (x * (1 - x)) }, ulps: 2, slope: true, from: 0, to: 1, scalars: logitSlopeBounds()},

	"logit": {f: fnLogit, exact: exactLogit, ulps: 2, scalars: logitBounds(-1)},
	"logit of bounds": {f: fnLogit, exact: func(x float64) float64 {
		return exactLogit(min(max(x, float64(float32(1e-6))), float64(1-float32(1e-6))))
	}, ulps: 2, scalars: logitBounds(1e-6)},

	"slope of silu":        {f: fnSiluGrad, exact: siluDerivative64, ulps: 2, scale: unit, slope: true, from: -1e30, to: 1e30},
	"slope of mish":        {f: fnMishGrad, exact: mishSlope64, ulps: 3, scale: unit, slope: true, from: -200, to: 1e30},
	"slope of gelu":        {f: fnGeluGrad, exact: geluDerivative64, ulps: 2, scale: unit, slope: true, from: -1e10, to: 1e10},
	"slope of gelu tanh":   {f: fnGeluTanhGrad, exact: geluTanhDerivative64, ulps: 2, scale: unit, slope: true, from: -1e10, to: 1e10},
	"slope of log sigmoid": {f: fnLogSigmoidGrad, exact: func(x float64) float64 { return exactSigmoid(-x) }, ulps: 2.4, slope: true},
	"slope of erf":         {f: fnErfGrad, exact: func(x float64) float64 { return twoOverRootPi * math.Exp(-x*x) }, ulps: 2, slope: true},
	"slope of elu": {f: fnEluGrad, exact: func(x float64) float64 {
		if x > 0 {
			return 1
		}
		return 0.5 * math.Exp(x)
	}, ulps: 1.5, slope: true, scalars: &functionScalars{narrow: [4]float32{0.5, 1}}},
	"slope of softplus": {f: fnSoftplusGrad, exact: func(x float64) float64 {
		if x > 20 {
			return 1
		}
		return exactSigmoid(x)
	}, ulps: 2.4, slope: true, scalars: &functionScalars{narrow: [4]float32{1, 0, 0, 20}}},
}

// check measures the function at every float32 whose bits are a multiple of stride, from offset on.
func (a accuracy) check(stride, offset uint64) (worst float64, at float32) {
	const block = 4096
	xs, out := make([]float32, 0, block), make([]float32, block)
	ones := make([]float32, block)
	for i := range ones {
		ones[i] = 1
	}
	flush := func() {
		if a.slope {
			apply(a.f, out[:len(xs)], ones[:len(xs)], xs, nil, a.scalars)
		} else {
			apply(a.f, out[:len(xs)], xs, nil, nil, a.scalars)
		}
		for i, x := range xs {
			exact := a.exact(float64(x))
			var u float64
			if float64(out[i]) == exact || out[i] != out[i] && exact != exact {
				continue
			}
			if a.scale == nil {
				u = ulps(out[i], exact)
			} else if u = math.Abs(float64(out[i])-exact) / math.Ldexp(1, math.Ilogb(max(a.scale(float64(x)), math.Abs(exact)))-23); u != u {
				u = math.Inf(1)
			}
			if u > worst {
				worst, at = u, x
			}
		}
		xs = xs[:0]
	}
	for b := offset; b < 1<<32; b += stride {
		x := math.Float32frombits(uint32(b))
		if a.from == a.to || x >= a.from && x <= a.to {
			if xs = append(xs, x); len(xs) == block {
				flush()
			}
		}
	}
	if len(xs) > 0 {
		flush()
	}
	return worst, at
}

// TestFunctions_AreAccurate looks at every 4099th float32, in full tests at every 61st, and at all with CISTERN_ALL_FLOATS=1.
func TestFunctions_AreAccurate(t *testing.T) {
	stride := uint64(fulltests.Or(307, 4099))
	if allFloats() {
		stride = 1
	}
	for name, a := range accuracies {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var all sync.WaitGroup
			worst, at := 0.0, float32(0)
			parts := uint64(runtime.GOMAXPROCS(0))
			for i := range parts {
				all.Go(func() {
					u, x := a.check(stride*parts, i*stride)
					mu.Lock()
					defer mu.Unlock()
					if u > worst {
						worst, at = u, x
					}
				})
			}
			all.Wait()
			t.Logf("%.3f ulp at %g", worst, at)
			require.LessOrEqual(t, worst, a.ulps, "at %g", at)
		})
	}
}

// TestFunctions_KnowTheirEnds: values at 0, at infinity and beyond, with signs.
func TestFunctions_KnowTheirEnds(t *testing.T) { forFunctionSets(t, testEnds) }

func testEnds(t *testing.T) {
	inf, nan, zero := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	for name, c := range map[string]struct {
		f functionID
		x []float64 // arguments and values in turn
	}{
		"exp":        {fnExp, []float64{0, 1, zero, 1, inf, inf, -inf, 0, nan, nan, 89, inf, 88.72284, inf, 88.72283, 3.4027985e38, -104, 0, -103.9, 0x1p-149}},
		"exp2":       {fnExp2, []float64{0, 1, inf, inf, -inf, 0, nan, nan, 128, inf, 127, 0x1p127, -149, 0x1p-149, -151, 0, 3, 8}},
		"expm1":      {fnExpm1, []float64{0, 0, zero, zero, inf, inf, -inf, -1, nan, nan, 1e-40, 1e-40, -100, -1, 89, inf}},
		"log":        {fnLog, []float64{1, 0, 0, -inf, zero, -inf, inf, inf, -inf, nan, -1, nan, nan, nan, 0x1p-149, -149 * math.Ln2}},
		"log2":       {fnLog2, []float64{1, 0, 0, -inf, zero, -inf, inf, inf, -1, nan, nan, nan, 0x1p-149, -149, 0x1p127, 127, 8, 3, 0.125, -3}},
		"log10":      {fnLog10, []float64{1, 0, 0, -inf, inf, inf, -1, nan, nan, nan, 10, 1}},
		"log1p":      {fnLog1p, []float64{0, 0, zero, zero, -1, -inf, inf, inf, -2, nan, -inf, nan, nan, nan, 1e-40, 1e-40, math.MaxFloat32, 88.722839}},
		"sqrt":       {fnSqrt, []float64{0, 0, zero, zero, inf, inf, -1, nan, nan, nan}},
		"rsqrt":      {fnRsqrt, []float64{0, inf, zero, -inf, inf, 0, -1, nan, nan, nan, 4, 0.5}},
		"reciprocal": {fnReciprocal, []float64{0, inf, zero, -inf, inf, 0, -inf, zero, nan, nan}},
		"digamma":    {fnDigamma, []float64{0, -inf, zero, inf, inf, inf, -inf, nan, nan, nan, -1, nan, -7, nan, -1e30, nan, 1, -0.5772156649015329, 1e30, 69.07755278982137, 0x1p-149, -inf, -0x1p-149, inf, 0x1p-127, -0x1p127, 1.461632013320923, -1.2739158105197846e-07, 1.4616321325302124, -1.203605254910667e-08, 1.461632251739502, 1.0331946336967871e-07}},
		"sin":        {fnSin, []float64{0, 0, zero, zero, inf, nan, nan, nan, 1e-40, 1e-40}},
		"cos":        {fnCos, []float64{0, 1, zero, 1, -inf, nan, nan, nan}},
		"tan":        {fnTan, []float64{0, 0, zero, zero, inf, nan, -inf, nan, nan, nan, 1e-40, 1e-40}},
		"asin":       {fnAsin, []float64{0, 0, zero, zero, 1, math.Pi / 2, -1, -math.Pi / 2, 1.0000001, nan, -1.0000001, nan, inf, nan, -inf, nan, nan, nan, -1e-40, -1e-40}},
		"acos":       {fnAcos, []float64{0, math.Pi / 2, zero, math.Pi / 2, 1, 0, -1, math.Pi, 1.0000001, nan, -1.0000001, nan, inf, nan, -inf, nan, nan, nan}},
		"atan":       {fnAtan, []float64{0, 0, zero, zero, 1, math.Pi / 4, -1, -math.Pi / 4, inf, math.Pi / 2, -inf, -math.Pi / 2, nan, nan, -1e-40, -1e-40, 1e38, math.Pi / 2}},
		"sinh":       {fnSinh, []float64{0, 0, zero, zero, inf, inf, -inf, -inf, nan, nan, 1e-40, 1e-40, 89.5, inf, -89.5, -inf}},
		"cosh":       {fnCosh, []float64{0, 1, zero, 1, inf, inf, -inf, inf, nan, nan, 89.5, inf, -89.5, inf, 1e-40, 1}},
		"asinh":      {fnAsinh, []float64{0, 0, zero, zero, inf, inf, -inf, -inf, nan, nan, -1e-40, -1e-40, math.MaxFloat32, math.Asinh(math.MaxFloat32)}},
		"acosh":      {fnAcosh, []float64{1, 0, 0.99999994, nan, 0, nan, -2, nan, inf, inf, -inf, nan, nan, nan, math.MaxFloat32, math.Acosh(math.MaxFloat32)}},
		"atanh":      {fnAtanh, []float64{0, 0, zero, zero, 1, inf, -1, -inf, 1.0000001, nan, -2, nan, inf, nan, -inf, nan, nan, nan, -1e-40, -1e-40}},
		"tanh":       {fnTanh, []float64{0, 0, zero, zero, inf, 1, -inf, -1, nan, nan, 1e-40, 1e-40, 100, 1}},
		"sigmoid":    {fnSigmoid, []float64{0, 0.5, zero, 0.5, inf, 1, -inf, 0, nan, nan, -200, 0, 200, 1}},
		"silu":       {fnSilu, []float64{0, 0, zero, zero, inf, inf, -inf, nan, nan, nan}},
		"mish":       {fnMish, []float64{0, 0, zero, zero, inf, inf, nan, nan, 200, 200}},
		"softplus":   {fnSoftplus, []float64{inf, inf, -inf, 0, nan, nan, 200, 200}},
		"logSigmoid": {fnLogSigmoid, []float64{inf, 0, -inf, -inf, nan, nan, -200, -200}},
		"lgamma":     {fnLgamma, []float64{0, inf, zero, inf, 1, 0, 2, 0, inf, inf, -inf, inf, -1, inf, -7, inf, nan, nan, 0x1p-149, 149 * math.Ln2, math.MaxFloat32, inf}},
		"erf":        {fnErf, []float64{0, 0, zero, zero, inf, 1, -inf, -1, nan, nan, 5, 1}},
		"erfc":       {fnErfc, []float64{0, 1, inf, 0, -inf, 2, nan, nan, -5, 2}},
		"gelu":       {fnGelu, []float64{0, 0, zero, zero, inf, inf, nan, nan, 20, 20, -20, zero}},
		"geluTanh":   {fnGeluTanh, []float64{0, 0, zero, zero, inf, inf, nan, nan, 20, 20, -20, zero}},
	} {
		for i := 0; i < len(c.x); i += 2 {
			dst := []float32{7}
			apply(c.f, dst, []float32{float32(c.x[i])}, nil, nil, nil)
			want := float32(c.x[i+1])
			if want != want {
				require.True(t, dst[0] != dst[0], "%s(%g) is %g", name, c.x[i], dst[0])
				continue
			}
			require.Equal(t, want, dst[0], "%s(%g)", name, c.x[i])
			require.Equal(t, math.Signbit(c.x[i+1]), math.Signbit(float64(dst[0])), "the sign of %s(%g)", name, c.x[i])
		}
	}
}

// TestFunctions_PowerIsThatOfPow64 tries all sorts of pairs, rounded once.
func TestFunctions_PowerIsThatOfPow64(t *testing.T) {
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1e-40, -1e-40, 1e38, -1e38, float32(math.Inf(1)),
		float32(math.Inf(-1)), float32(math.NaN()), 16777215, -16777215, 16777216, 2147483648, 4294967296, 1e30, -1e30, 0.99999994, 1.0000001}
	var x, y []float32
	for _, a := range special {
		for _, b := range special {
			x, y = append(x, a), append(y, b)
		}
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for range 100_000 {
		x, y = append(x, float32(math.Exp(20*rng.NormFloat64()))), append(y, float32(3*rng.NormFloat64()))
		x, y = append(x, 1+(rng.Float32()-0.5)/8), append(y, float32(200*rng.NormFloat64()))
	}
	out := make([]float32, len(x))
	apply(fnPow, out, x, y, nil, nil)
	for i := range out {
		exact := pow64(float64(x[i]), float64(y[i]))
		require.LessOrEqual(t, ulps(out[i], exact), 0.54, "pow(%g, %g) is %g, want %g", x[i], y[i], out[i], exact)
		if exact == 0 {
			require.Equal(t, math.Signbit(exact), math.Signbit(float64(out[i])), "the sign of pow(%g, %g)", x[i], y[i])
		}
	}
}

// TestFunctions_OfTwoAreThoseOfFloat64 tries all pairs of special numbers, with signs, and others.
func TestFunctions_OfTwoAreThoseOfFloat64(t *testing.T) {
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0.5, -0.5, 1e-40, -1e-40, 0x1p-149, 1e38, -1e38, math.MaxFloat32, -math.MaxFloat32, 88, -104,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 0.99999994, 1.0000001, -math.Ln2, math.Ln2, 1e-20, -1e20}
	var x, y []float32
	for _, a := range special {
		for _, b := range special {
			x, y = append(x, a), append(y, b)
		}
	}
	rng := rand.New(rand.NewPCG(11, 12))
	for range 100_000 {
		a := float32(4 * rng.NormFloat64())
		x, y = append(x, a, float32(rng.NormFloat64()), float32(math.Exp(20*rng.NormFloat64()))), append(y, float32(4*rng.NormFloat64()), 1+(rng.Float32()-0.5)/8,
			float32(math.Exp(20*rng.NormFloat64())))
		x, y = append(x, math.Float32frombits(rng.Uint32())), append(y, math.Float32frombits(rng.Uint32()))
		x, y = append(x, a), append(y, a*(1+float32(rng.IntN(9)-4)*0x1p-23))
	}
	ones := make([]float32, len(x))
	fillSlice(ones, 1)
	for name, c := range map[string]struct {
		f     functionID
		exact func(a, b float64) float64
		ulps  float64
		scale func(a, b float64) float64 // of what a sum may cancel
	}{
		"atan2":              {fnAtan2, atan2of64, 2, nil},
		"xlogy":              {fnXlogy, xlogy64, 2, nil},
		"slope of logAddExp": {fnLogAddExpGrad, func(a, b float64) float64 { return 1 / (1 + math.Exp(b-a)) }, 2.4, nil},
		"slope of xlogy":     {fnXlogyGrad, func(a, b float64) float64 { return xlogyGrad64(1, a, b) }, 2, nil},
		"slope of atan2":     {fnAtan2Grad, func(a, b float64) float64 { return b / (a*a + b*b) }, 0.6, nil},
		"logAddExp":          {fnLogAddExp, logAddExp64, 2, func(a, b float64) float64 { return min(max(math.Abs(a), math.Abs(b)), 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			out, worst, at := make([]float32, len(x)), 0.0, 0
			if strings.HasPrefix(name, "slope") {
				apply(c.f, out, ones, x, y, &functionScalars{wide: [4]float64{1}})
			} else {
				apply(c.f, out, x, y, nil, nil)
			}
			for i := range out {
				exact := c.exact(float64(x[i]), float64(y[i]))
				u := ulps(out[i], exact)
				if c.scale != nil && u > 0 && !math.IsInf(u, 0) {
					u = math.Abs(float64(out[i])-exact) / math.Ldexp(1, math.Ilogb(max(c.scale(float64(x[i]), float64(y[i])), math.Abs(exact), 0x1p-126))-23)
				}
				if u > worst {
					worst, at = u, i
				}
				if exact == 0 && out[i] == 0 {
					require.Equal(t, math.Signbit(exact), math.Signbit(float64(out[i])), "the sign at %g, %g", x[i], y[i])
				}
			}
			t.Logf("%.3f ulp at %g, %g", worst, x[at], y[at])
			require.LessOrEqual(t, worst, c.ulps, "at %g, %g: %g, want %g", x[at], y[at], out[at], c.exact(float64(x[at]), float64(y[at])))
		})
	}
}

// TestFunctions_LogitHasTheBoundsOfFloat32: eps is rounded, and so is 1-eps; also where they are 0 and 1 then, and where they are in the wrong order.
func TestFunctions_LogitHasTheBoundsOfFloat32(t *testing.T) {
	x := []float32{-1, 0, float32(math.Copysign(0, -1)), 0x1p-149, 1e-7, 1e-6, 0.25, 0.4999, 0.5, 0.75, 0.999999, 0.99999994, 1, 2, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	for _, eps := range []float64{-1, 0, 1e-300, 1e-9, 1e-6, 0.1, 0.25, 0.5, 0.75, 1} {
		out := make([]float32, len(x))
		apply(fnLogit, out, x, nil, nil, logitBounds(eps))
		for i, v := range x {
			exact := logit64(float64(v), -1)
			if lo, hi := float32(eps), 1-float32(eps); eps >= 0 {
				exact = logit64(float64(min(max(v, lo), hi)), -1)
			}
			u := ulps(out[i], exact)
			if !math.IsInf(u, 0) {
				u = math.Abs(float64(out[i])-exact) * 0x1p23 / max(1, math.Abs(exact))
			}
			require.False(t, u > 2, "logit(%g, %g) is %g, want %g", v, eps, out[i], exact)
		}
	}
}

// TestFMA_RoundsOnce compares with exact arithmetic, also where the sum is in the middle between two numbers or denormal.
func TestFMA_RoundsOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	try := func(a, b, c float32) {
		sum := new(big.Float).SetPrec(1000)
		sum.Mul(sum.SetFloat64(float64(a)), new(big.Float).SetFloat64(float64(b)))
		sum.Add(sum, new(big.Float).SetFloat64(float64(c)))
		want, _ := sum.Float32()
		if got := fma32(a, b, c); got != want {
			require.Equal(t, want, got, "%g*%g + %g", a, b, c)
		}
	}
	try(1+0x1p-12, 1+0x1p-12, 0x1p-60)
	try(1+0x1p-12, 1+0x1p-12, -0x1p-60)
	try(1+0x1p-23, 0x1p-24, 1)
	try(-1-0x1p-23, 0x1p-24, -1)
	for range 200_000 {
		number := func() float32 {
			m := 1 + float32(rng.IntN(1<<rng.IntN(24)))*0x1p-23
			return float32(math.Ldexp(float64(m), rng.IntN(60)-30)) * float32(1-2*rng.IntN(2))
		}
		try(number(), number(), number())
		try(number()*0x1p-63, number()*0x1p-63, number()*0x1p-110)
		x := number()
		try(x, 1+0x1p-23, -x)
	}
	require.Equal(t, float32(math.Inf(1)), fma32(math.MaxFloat32, 2, 0))
}

func allFloats() bool { return os.Getenv("CISTERN_ALL_FLOATS") == "1" }
