package cpu

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Activations and powers, and their derivatives. Each formula is written once, in float64, over the few functions that come in two
// accuracies (math.go): narrow ones for float32 results, and package math's.

const (
	inverseSqrt2Pi = 0.39894228040143267793994605993438 // 1/sqrt(2*pi): the normal density is this times exp(-x*x/2)
	geluScale      = 0.79788456080286535587989211986876 // sqrt(2/pi)
	geluCubic      = 0.044715
)

func intPowScalar[T integer](dst, a []T, c *op.Call) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = wholePower(a[i], c.I[0])
	}
}

// wholePower is a to the power of n, which wraps. Of negative powers only those of 1 and -1 are whole.
func wholePower[T integer](a T, n int64) T {
	if n < 0 {
		switch {
		case a == 1, a+1 == 0 && n&1 == 0:
			return 1
		case a+1 == 0:
			return a
		}
		return 0
	}
	r := T(1)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			r *= a
		}
		a *= a
	}
	return r
}

func powScalar[T float](dst, a []T, c *op.Call) {
	a = a[:len(dst)]
	switch e := c.F[0]; e {
	case 2:
		for i := range dst {
			dst[i] = a[i] * a[i]
		}
	case 3:
		for i := range dst {
			v := float64(a[i])
			dst[i] = T(v * v * v)
		}
	default:
		for i := range dst {
			dst[i] = T(pow64(float64(a[i]), e))
		}
	}
}

func gelu64(x float64) float64 {
	cdf, _ := normal64(x)
	return x * cdf
}

func geluDerivative64(x float64) float64 {
	cdf, gauss := normal64(x)
	if gauss == 0 {
		return cdf // also at infinities
	}
	return cdf + float64(x*gauss*inverseSqrt2Pi)
}

// The tanh approximation is 0.5*x*(1+tanh(u)) with u = sqrt(2/pi)*(x + 0.044715*x*x*x), and 0.5*(1+tanh(u)) is
// sigmoid(2*u), which does not cancel for negative u.

func geluTanhArgument(x float64) float64 { return 2 * geluScale * x * (1 + float64(geluCubic*x*x)) }

func geluTanh64(x float64) float64 { return x * sigmoid64(geluTanhArgument(x)) }

func geluTanhDerivative64(x float64) float64 {
	z := geluTanhArgument(x)
	return geluTanhDerivative(x, z, math.Exp(-math.Abs(z)))
}

func geluTanhDerivative(x, z, e float64) float64 {
	s, slope := sigmoidOf(z, e)
	if slope == 0 {
		return s // far from 0, where x*x may have overflowed
	}
	return s + float64(2*x*slope*geluScale*(1+float64(3*geluCubic*x*x)))
}

func silu64(x float64) float64 { return x * sigmoid64(x) }

func siluDerivative64(x float64) float64 { return siluDerivative(x, math.Exp(-math.Abs(x))) }

func siluDerivative(x, e float64) float64 {
	s, slope := sigmoidOf(x, e)
	return s + float64(x*slope) // NaN at the infinities, as PyTorch's
}

// sigmoidOf gives sigmoid(z) and its derivative, s*(1-s) without the cancellation, from e = exp(-|z|).
func sigmoidOf(z, e float64) (s, slope float64) {
	s = 1 / (1 + e)
	slope = e * s * s
	if z < 0 {
		s *= e
	}
	return s, slope
}

// softplus64 is log(1+exp(beta*x))/beta, and x where beta*x > threshold.
func softplus64(x, beta, threshold float64) float64 {
	if z := beta * x; !(z > threshold) {
		return math.Log1p(math.Exp(z)) / beta
	}
	return x
}

func softplusGrad64(g, x, beta, threshold float64) float64 {
	if z := beta * x; !(z > threshold) {
		return g * sigmoid64(z)
	}
	return g
}

func elu64(x, alpha float64) float64 {
	if x > 0 {
		return x
	}
	return alpha * math.Expm1(x)
}

func eluGrad64(g, x, alpha float64) float64 {
	if x > 0 {
		return g
	}
	return g * alpha * math.Exp(x)
}

func celu32(x, alpha float64) float64 {
	if x > 0 {
		return x
	}
	return alpha * expm1Narrow(x/alpha)
}

func celu64(x, alpha float64) float64 {
	if x > 0 {
		return x
	}
	return alpha * math.Expm1(x/alpha)
}

func celuGrad32(g, x, alpha float64) float64 {
	if x > 0 {
		return g
	}
	return g * expNarrow(x/alpha)
}

func celuGrad64(g, x, alpha float64) float64 {
	if x > 0 {
		return g
	}
	return g * math.Exp(x/alpha)
}

// The constants of SELU solve the equations by which mean 0 and variance 1 are fixed (Klambauer and others, 2017).
const (
	seluAlpha = 1.6732632423543772848170429916717
	seluScale = 1.0507009873554804934193349852946
)

func selu64(x float64) float64 { return seluScale * elu64(x, seluAlpha) }

func seluGrad64(g, x float64) float64 { return seluScale * eluGrad64(g, x, seluAlpha) }

func hardswishGrad64(g, a float64) float64 {
	switch {
	case a >= 3:
		return g
	case a <= -3:
		return 0
	}
	return g * (a/3 + 0.5) // also NaN
}

func hardsigmoidGrad64(g, a float64) float64 {
	if a > -3 && a < 3 {
		return g / 6
	}
	return 0 // also NaN
}

// mish64 is a*tanh(log(1+e)) with e = exp(a), whose tanh is n/(n+2) for n = e*(e+2). From 20 on that is 1.
func mish64(a float64) float64 {
	if a > 20 {
		return a
	}
	e := math.Exp(a)
	n := float64(e * (e + 2))
	return a * (n / (n + 2))
}

// mishSlope64 is the derivative of mish64: that of tanh is 4*(n+1)/(n+2)**2, with n+1 = (1+e)**2, and that of log(1+exp(a)) is e/(1+e).
func mishSlope64(a float64) float64 {
	if a > 20 {
		return 1
	}
	e := math.Exp(a)
	n := float64(e * (e + 2))
	return n/(n+2) + float64(a*(4*e*(1+e)/((n+2)*(n+2))))
}
