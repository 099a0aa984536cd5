package kerneltest

import (
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
)

// What the references of elementwise_gen.go need.

// tableGradient gives tame gradients, and for what the forward pass saved numbers of the range.
func tableGradient(lo, hi float64) func(m *maker, k int, d dtype.DType) func() value {
	return func(m *maker, k int, d dtype.DType) func() value {
		if k == 0 {
			return m.tame(d)
		}
		return m.within(d, lo, hi)
	}
}

// mishSlope is the derivative of x*tanh(s) with s = log(1+exp(x)).
func mishSlope(x float64) float64 {
	t := math.Tanh(math.Log1p(math.Exp(x)))
	return t + x*(1-t*t)*sigmoid(x)
}

func hardswishSlope(x float64) float64 {
	switch {
	case x <= -3:
		return 0
	case x >= 3:
		return 1
	}
	return x/3 + 0.5
}

// logAddExp is log(exp(a)+exp(b)).
func logAddExp(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if a == b {
		return a + math.Ln2
	}
	return a + math.Log1p(math.Exp(b-a))
}

// onlyIf is a gradient where a condition holds, else 0.
func onlyIf(holds bool, g float64) float64 {
	if holds {
		return g
	}
	return 0
}

func leakyGrad(g, x, slope float64) float64 {
	if x > 0 {
		return g
	}
	return g * slope
}

func softplus(x, beta, threshold float64) float64 {
	if x*beta > threshold {
		return x
	}
	return math.Log1p(math.Exp(x*beta)) / beta
}

func softplusSlope(x, beta, threshold float64) float64 {
	if x*beta > threshold {
		return 1
	}
	return sigmoid(x * beta)
}

func elu(x, alpha float64) float64 {
	if x > 0 {
		return x
	}
	return alpha * math.Expm1(x)
}

func eluSlope(x, alpha float64) float64 {
	if x > 0 {
		return 1
	}
	return alpha * math.Exp(x)
}

func geluTanhSlope(x float64) float64 {
	s := sigmoid(2 * geluArgument(x))
	return s + x*sigmoidSlope(2*geluArgument(x))*2*math.Sqrt(2/math.Pi)*(1+3*0.044715*x*x)
}

// remainder has the sign of b.
func remainder(a, b float64) float64 {
	r := math.Mod(a, b)
	if r != 0 && math.Signbit(r) != math.Signbit(b) {
		return r + b
	}
	return r
}

func intRemainder(a, b int64) int64 {
	r := intMod(a, b)
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r
}

// intMod is Go's remainder, and 0 where b is 0.
func intMod(a, b int64) int64 {
	if b == 0 {
		return 0
	}
	return a % b
}

// bounded is a+b, open where b alone may be too large for float32.
func bounded(a, b float64) result {
	r := scaled(a+b, a, b)
	r.any = math.Abs(b) > math.MaxFloat32/2 && !math.IsInf(b, 0)
	return r
}
