package cpu

import "github.com/cistern-ml/cistern/kernels/op"

// Functions of one element that need only comparisons and arithmetic, in its own type, and the kernel of Clamp.

func magnitude[T number](a T) T {
	if a <= 0 { // also -0; NaN stays as it is
		return 0 - a
	}
	return a
}

// signum gives 0 for NaN, as PyTorch does.
func signum[T number](a T) (s T) {
	if a > 0 {
		s = 1
	} else if a < 0 {
		s--
	}
	return s
}

func rectified[T number](a T) T {
	if a <= 0 { // not NaN
		return 0
	}
	return a
}

func rectifiedGrad[T float](g, out T) T {
	if out <= 0 { // not NaN
		return 0
	}
	return g
}

func leaky[T float](a, slope T) T { return leakyGrad(a, a, slope) }

func leakyGrad[T float](g, a, slope T) T {
	if !(a > 0) {
		return g * slope
	}
	return g
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

// withinGrad is the gradient of Clamp.
func withinGrad[T float](g, a, lo, hi T) T {
	if a >= lo && a <= hi {
		return g
	}
	return 0
}

// betweenGrad is the gradient of Hardtanh.
func betweenGrad[T float](g, a, lo, hi T) T {
	if a <= lo || a >= hi { // not NaN
		return 0
	}
	return g
}

func prelu64(a, weight float64) float64 { return leakyGrad(a, a, weight) }

func preluGrad64(g, a, weight float64) float64 { return leakyGrad(g, a, weight) }

func preluGradWeight64(g, a, _ float64) float64 {
	if a > 0 {
		return 0
	}
	return g * a
}

func thresholded[T float](v, a, threshold, value T) T {
	if a <= threshold { // not NaN
		return value
	}
	return v
}

// shrunk is v where a lies outside of -lambda..lambda.
func shrunk[T float](v, a, lambda T) T {
	if a >= -lambda && a <= lambda {
		return 0
	}
	return v
}

func softShrunk[T float](a, lambda T) T {
	switch {
	case a > lambda:
		return a - lambda
	case a < -lambda:
		return a + lambda
	}
	return a * 0 // NaN stays
}
