package cpu

import "math"

// Functions of float32 results. They compute in float64 with an error well below half an ulp of float32, so that the one
// rounding at the end decides the result: at most one ulp from the exact value (math_test.go measures it). The float64
// kernels use package math.

// exp2Table holds 2^(i/32) as bits, less the i that expNarrow adds to the exponent.
var exp2Table = func() (t [32]uint64) {
	for i := range t {
		t[i] = math.Float64bits(math.Exp2(float64(i)/32)) - uint64(i)<<47
	}
	return t
}()

// expNarrow is exp(x) with a relative error below 2^-32, for use in float32 results; beyond 700 it is
// infinite or 0. The method is that of ARM's optimized routines (expf): exp(x) =
// 2^(k/32) * 2^r with |r| <= 1/64, the first factor from a table, the second a cubic.
func expNarrow(x float64) float64 {
	const (
		shift = 0x1.8p52 // adding it rounds to an integer, which the low bits then hold
		scale = 0x1.71547652b82fep+0 * 32
		c0    = 0x1.c6af84b912394p-5 / (32 * 32 * 32)
		c1    = 0x1.ebfce50fac4f3p-3 / (32 * 32)
		c2    = 0x1.62e42ff0c52d6p-1 / 32
	)
	if x > 700 {
		return math.Inf(1)
	} else if x < -700 {
		return 0
	}
	z := x * scale
	k := z + shift
	bits := math.Float64bits(k)
	r := z - (k - shift)
	s := math.Float64frombits(exp2Table[bits%32] + bits<<47)
	r2 := r * r
	return ((c0*r+c1)*r2 + (c2*r + 1)) * s
}

func exp32(x float32) float32 { return float32(expNarrow(float64(x))) }

// sigmoidNarrow is 1/(1+exp(-x)) for use in float32 results.
func sigmoidNarrow(x float64) float64 { return 1 / (1 + expNarrow(-x)) }

// tanhNarrow is tanh(x) for use in float32 results: by its series near 0, where the other form cancels.
func tanhNarrow(x float64) float64 {
	if x > -0.25 && x < 0.25 {
		y := x * x
		return x + x*y*(-1.0/3+y*(2.0/15+y*(-17.0/315+y*(62.0/2835))))
	}
	return 1 - 2/(expNarrow(2*x)+1)
}

// normalNarrow gives the normal distribution function at x and exp(-x*x/2), for use in float32 results. For z >= 0 the lower
// tail is exp(-z*z/2) * t*P(t) with t = 1/(1+0.33*z); P is a fit of degree 12 whose relative error is below 2e-9
// (testdata/fit_normal.py).
func normalNarrow(x float64) (cdf, gauss float64) {
	z := math.Abs(x)
	t := 1 / (1 + 0.33*z)
	p := -0.012115298089478648
	p = p*t + 0.08432695100429169
	p = p*t - 0.24479869757047804
	p = p*t + 0.3697350840434413
	p = p*t - 0.29102966584349915
	p = p*t + 0.11510709964405506
	p = p*t - 0.061058152357172914
	p = p*t + 0.021507168141219803
	p = p*t + 0.04896289449743425
	p = p*t + 0.08875117453456417
	p = p*t + 0.11730945837597177
	p = p*t + 0.13165103134882583
	p = p*t + 0.13165095231314905
	gauss = expNarrow(-0.5 * z * z)
	cdf = gauss * t * p
	if x > 0 {
		cdf = 1 - cdf
	}
	return cdf, gauss
}

// sigmoid64 is 1/(1+exp(-x)); exp(-x) may be infinite, which gives the right 0.
func sigmoid64(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// normal64 gives the normal distribution function at x and exp(-x*x/2).
func normal64(x float64) (cdf, gauss float64) {
	return 0.5 * math.Erfc(-x/math.Sqrt2), math.Exp(-0.5 * x * x)
}
