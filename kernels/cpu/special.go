package cpu

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

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

// elu makes the kernel of F[0]*(exp(a)-1) for a <= 0, with exp-1 in the accuracy of T.
func elu[T float](expm1 func(float64) float64) kernel1[T, T] {
	return func(dst, a []T, c *op.Call) {
		a = a[:len(dst)]
		alpha := c.F[0]
		for i := range dst {
			v := a[i]
			if !(v > 0) {
				v = T(alpha * expm1(float64(v)))
			}
			dst[i] = v
		}
	}
}

func eluGrad[T float](dst, a, b []T, c *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	alpha := c.F[0]
	for i := range dst {
		v := a[i]
		if x := b[i]; !(x > 0) {
			v = T(float64(v) * alpha * expOf[T](float64(x)))
		}
		dst[i] = v
	}
}

func erfDerivative32(x float64) float64 { return twoOverRootPi * expNarrow(-x*x) }
func erfDerivative64(x float64) float64 { return twoOverRootPi * math.Exp(-x*x) }

func clampGrad[T float](dst, a, b []T, c *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	lo, hi := T(c.F[0]), T(c.F[1])
	for i := range dst {
		var v T
		if b[i] >= lo && b[i] <= hi {
			v = a[i]
		}
		dst[i] = v
	}
}

func hardtanhGrad[T float](dst, a, b []T, c *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	lo, hi := T(c.F[0]), T(c.F[1])
	for i := range dst {
		v := a[i]
		if b[i] <= lo || b[i] >= hi { // not NaN
			v = 0
		}
		dst[i] = v
	}
}
