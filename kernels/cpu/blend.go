package cpu

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Roundings and tests of floats, remainders, and kernels of three inputs.

// Roundings: processors have instructions for them, which the compiler puts in place of these calls.

func floor[T float](dst, a []T, _ *op.Call) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Floor(float64(a[i])))
	}
}

func ceil[T float](dst, a []T, _ *op.Call) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Ceil(float64(a[i])))
	}
}

func round[T float](dst, a []T, _ *op.Call) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = T(math.RoundToEven(float64(a[i])))
	}
}

func trunc[T float](dst, a []T, _ *op.Call) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Trunc(float64(a[i])))
	}
}

// predicate makes a kernel of a predicate of floats.
func predicate[T float](f func(float64) bool) kernel1[uint8, T] {
	return func(dst []uint8, a []T, _ *op.Call) {
		a = a[:len(dst)]
		for i := range dst {
			dst[i] = truth(f(float64(a[i])))
		}
	}
}

func isInf(v float64) bool    { return v-v != 0 && v == v }
func isFinite(v float64) bool { return v-v == 0 }

func xor(dst, a, b []uint8, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] ^ b[i]
	}
}

// fmod of float32 is computed in float64, where the remainder is the same number.
func fmod[T float](dst, a, b []T, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Mod(float64(a[i]), float64(b[i])))
	}
}

func remainder[T float](dst, a, b []T, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		r := T(math.Mod(float64(a[i]), float64(b[i])))
		if r != 0 && (r < 0) != (b[i] < 0) {
			r += b[i]
		}
		dst[i] = r
	}
}

func intFmod[T integer](dst, a, b []T, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = intMod(a[i], b[i])
	}
}

func intRemainder[T integer](dst, a, b []T, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		r := intMod(a[i], b[i])
		if r != 0 && (r < 0) != (b[i] < 0) {
			r += b[i]
		}
		dst[i] = r
	}
}

// intMod is a % b, and 0 where b is 0.
func intMod[T integer](a, b T) T {
	if b == 0 {
		return 0
	}
	return a % b
}

// lerp comes from the nearer end, so that it reaches both exactly. The conversions keep roundings apart.
func lerp[T float](dst, a, b, c []T, _ *op.Call) {
	a, b, c = a[:len(dst)], b[:len(dst)], c[:len(dst)]
	for i := range dst {
		d, w := b[i]-a[i], c[i]
		if w < 0.5 && w > -0.5 {
			dst[i] = a[i] + T(w*d)
		} else {
			dst[i] = b[i] - T(d*(1-w))
		}
	}
}

func addCMul[T number](dst, a, b, c []T, call *op.Call) {
	a, b, c = a[:len(dst)], b[:len(dst)], c[:len(dst)]
	s := scalar[T](call.F[0], call.I[0])
	for i := range dst {
		dst[i] = a[i] + T(T(s*b[i])*c[i])
	}
}

// addCDiv multiplies first, as PyTorch's processor does; its GPUs, and ours, divide first.
func addCDiv[T float](dst, a, b, c []T, call *op.Call) {
	a, b, c = a[:len(dst)], b[:len(dst)], c[:len(dst)]
	s := T(call.F[0])
	for i := range dst {
		dst[i] = a[i] + T(T(s*b[i])/c[i])
	}
}
