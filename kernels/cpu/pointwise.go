package cpu

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Kernels of one input that need only arithmetic. Those of exponentials and their like are in activation.go.

func neg[T number](dst, a []T, _ *op.Call) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = -a[i]
	}
}

func absolute[T number](dst, a []T, _ *op.Call) {
	a = a[:len(dst)]
	for i := range dst {
		v := a[i]
		if v <= 0 { // also -0; NaN stays as it is
			v = 0 - v
		}
		dst[i] = v
	}
}

// sign gives 0 for NaN, as PyTorch does.
func sign[T number](dst, a []T, _ *op.Call) {
	a = a[:len(dst)]
	for i := range dst {
		var s T
		if a[i] > 0 {
			s = 1
		} else if a[i] < 0 {
			s--
		}
		dst[i] = s
	}
}

func relu[T number](dst, a []T, _ *op.Call) {
	a = a[:len(dst)]
	for i := range dst {
		v := a[i]
		if v <= 0 { // not NaN
			v = 0
		}
		dst[i] = v
	}
}

func leakyReLU[T float](dst, a []T, c *op.Call) {
	a = a[:len(dst)]
	slope := T(c.F[0])
	for i := range dst {
		v := a[i]
		if !(v > 0) {
			v *= slope
		}
		dst[i] = v
	}
}

func sqrt[T float](dst, a []T, _ *op.Call) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Sqrt(float64(a[i])))
	}
}

// rsqrt takes the root and the quotient in float64: two roundings in float32 would cost up to an ulp.
func rsqrt[T float](dst, a []T, _ *op.Call) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = T(1 / math.Sqrt(float64(a[i])))
	}
}

func reciprocal[T float](dst, a []T, _ *op.Call) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = 1 / a[i]
	}
}

func not[T number](dst []uint8, a []T, _ *op.Call) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = truth(a[i] == 0)
	}
}

func addScalar[T number](dst, a []T, c *op.Call) {
	a = a[:len(dst)]
	s := scalar[T](c.F[0], c.I[0])
	for i := range dst {
		dst[i] = a[i] + s
	}
}

func mulScalar[T number](dst, a []T, c *op.Call) {
	a = a[:len(dst)]
	s := scalar[T](c.F[0], c.I[0])
	for i := range dst {
		dst[i] = a[i] * s
	}
}

func divScalar[T float](dst, a []T, c *op.Call) {
	a = a[:len(dst)]
	s := T(c.F[0])
	for i := range dst {
		dst[i] = a[i] / s
	}
}

// clamp leaves what lies within the bounds as it is, -0 too. NaN lies within.
func clamp[T number](dst, a []T, c *op.Call) {
	a = a[:len(dst)]
	lo, hi := saturated[T](c.F[0], c.I[0]), saturated[T](c.F[1], c.I[1])
	for i := range dst {
		v := a[i]
		if v < lo {
			v = lo
		}
		if v > hi {
			v = hi
		}
		dst[i] = v
	}
}

// reluGrad and leakyReLUGrad are kernels of two inputs: the incoming gradient and what forward saved.

func reluGrad[T float](dst, a, b []T, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		v := a[i]
		if b[i] <= 0 { // not NaN
			v = 0
		}
		dst[i] = v
	}
}

func leakyReLUGrad[T float](dst, a, b []T, c *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	slope := T(c.F[0])
	for i := range dst {
		v := a[i]
		if !(b[i] > 0) {
			v *= slope
		}
		dst[i] = v
	}
}

func sigmoidGrad[T float](dst, a, b []T, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i] * (1 - b[i])
	}
}

func tanhGrad[T float](dst, a, b []T, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * (1 - T(b[i]*b[i]))
	}
}
