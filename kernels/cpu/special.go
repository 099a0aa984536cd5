package cpu

import "math"

// Special functions, and ELU, which is made of one. As in activation.go each formula is written in float64.

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

// erfNarrow is erf(x) for use in float32 results: by its series near 0, and else from the tail of the normal distribution.
func erfNarrow(x float64) float64 {
	if x > -0.5 && x < 0.5 {
		y := x * x
		p := float64(y*(1.0/9360)) - 1.0/1320
		p = float64(p*y) + 1.0/216
		p = float64(p*y) - 1.0/42
		p = float64(p*y) + 1.0/10
		p = float64(p*y) - 1.0/3
		return twoOverRootPi * (x + float64(x*y*p))
	}
	tail, _ := normalNarrow(-math.Abs(x) * math.Sqrt2)
	return math.Copysign(1-2*tail, x)
}

func elu32(x, alpha float64) float64 {
	if x > 0 {
		return x
	}
	return alpha * expm1Narrow(x)
}

func elu64(x, alpha float64) float64 {
	if x > 0 {
		return x
	}
	return alpha * math.Expm1(x)
}

func eluGrad32(g, x, alpha float64) float64 {
	if x > 0 {
		return g
	}
	return g * alpha * expNarrow(x)
}

func eluGrad64(g, x, alpha float64) float64 {
	if x > 0 {
		return g
	}
	return g * alpha * math.Exp(x)
}

func hardswishGrad64(g, a float64) float64 {
	switch {
	case a > 3:
		return g
	case a < -3:
		return 0
	}
	return g * (a/3 + 0.5) // also NaN
}

// mish64 is a*tanh(log(1+e)) with e = exp(a), whose tanh is n/(n+2) for n = e*(e+2). From 20 on that is 1.
func mish64(a float64) float64 {
	if a > 20 {
		return a
	}
	e := math.Exp(a)
	n := e * (e + 2)
	return a * (n / (n + 2))
}

// mishSlope64 is the derivative of mish64: that of tanh is 4*(n+1)/(n+2)**2, with n+1 = (1+e)**2, and that of log(1+exp(a)) is e/(1+e).
func mishSlope64(a float64) float64 {
	if a > 20 {
		return 1
	}
	e := math.Exp(a)
	n := e * (e + 2)
	return n/(n+2) + a*(4*e*(1+e)/((n+2)*(n+2)))
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
