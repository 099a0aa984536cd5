package kerneltest

import (
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
)

// What the references of elementwise_gen.go need.

// tableValues gives numbers up to 1000, so that no function of them depends on more digits than they have, and those that are none.
func (m *maker) tableValues(k int, d dtype.DType) func() value { return m.moderate(k, d) }

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
	case x < -3:
		return 0
	case x > 3:
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
