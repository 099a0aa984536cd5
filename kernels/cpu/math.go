package cpu

import "math"

// Functions of float32 results beside those of the generator (functions.go). They compute in float64 with an error well below half an ulp of float32, so that the one
// rounding at the end decides the result: at most one ulp from the exact value (math_test.go measures it). The float64
// kernels use package math.
//
// The conversions around products keep compilers from fusing them into sums, so that results are the same bits on every
// processor.

// expNarrow is exp(x) with a relative error below 2^-27, for use in float32 results; it is 0 or infinite where float32 is
// long since. exp(x) = 2^k * 2^r with |r| <= 1/2; the second factor is a fit of degree 6 (testdata/fit.py).
func expNarrow(x float64) float64 {
	const shift = 0x1.8p52 // adding it rounds to an integer, which the low bits then hold
	if x > 709 {
		return math.Inf(1)
	} else if x < -708 {
		return 0
	}
	z := float64(x * math.Log2E)
	k := float64(z + shift)
	r := z - (k - shift)
	p := 0.00015461447461298118
	p = float64(p*r) + 0.0013390867351353245
	p = float64(p*r) + 0.009618056669891503
	p = float64(p*r) + 0.05550357104253053
	p = float64(p*r) + 0.24022650922342711
	p = float64(p*r) + 0.6931471880293425
	p = float64(p*r) + 1
	return p * math.Float64frombits(math.Float64bits(k)<<52+math.Float64bits(1))
}

// sigmoid64 is 1/(1+exp(-x)); exp(-x) may be infinite, which gives 0 where the value is denormal, as in PyTorch.
func sigmoid64(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// normal64 gives the normal distribution function at x and exp(-x*x/2). Both fall as fast as they do because of the square, so that what rounding takes of it, and
// of x/sqrt(2), is made good by their derivatives.
func normal64(x float64) (cdf, gauss float64) {
	const (
		root    = 1 / math.Sqrt2
		rootLow = -0x1.bdd3413b26456p-55 // what rounding takes of it
	)
	square := float64(x * x)
	gauss = math.Exp(-0.5 * square)
	if !(math.Abs(x) < 0x1p9) { // 0 and 1, infinite or NaN
		return 0.5 * math.Erfc(-x*root), gauss
	}
	gauss -= float64(gauss * 0.5 * math.FMA(x, x, -square))
	z := float64(x * root)
	low := math.FMA(x, root, -z) + float64(x*rootLow)
	return float64(0.5*math.Erfc(-z)) + float64(float64(gauss*low)*(0.5*twoOverRootPi)), gauss
}

// log64 is math.Log, which is wrong for denormal numbers on amd64 (go1.26: Log(5e-324) is -709.09).
func log64(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

const twoOverRootPi = 1.12837916709551257389615890312155 // 2/sqrt(pi)

// expm1Narrow is exp(x)-1 for use in float32 results: by its series near 0, where the difference cancels.
func expm1Narrow(x float64) float64 {
	if x > -0.25 && x < 0.25 {
		p := float64(x*(1.0/5040)) + 1.0/720
		p = float64(p*x) + 1.0/120
		p = float64(p*x) + 1.0/24
		p = float64(p*x) + 1.0/6
		p = float64(p*x) + 1.0/2
		return x + float64(float64(p*x)*x)
	}
	return expNarrow(x) - 1
}

// logAddExp64 is log(exp(a)+exp(b)) relative to the greater of them, and that one if both are infinite alike.
func logAddExp64(a, b float64) float64 {
	if math.IsInf(a, 0) && a == b {
		return a
	}
	return max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b)))
}

// log2of64 is accurate near 1, where math.Log2 takes the difference of two numbers, and exact for powers of two.
func log2of64(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return math.Log2(x)
	}
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	return float64(e) + math.Log(m)/math.Ln2
}

// atan2of64 has the sign of y also where y/x underflows, which math.Atan2 has not.
func atan2of64(y, x float64) float64 { return math.Copysign(math.Atan2(math.Abs(y), x), y) }
