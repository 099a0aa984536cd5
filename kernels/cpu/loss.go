package cpu

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// The losses of elements and their gradients. Each formula is written once, in float64; f is the scalars of the call.

type scalars8 = [8]float64

// lossRow makes the row of a loss.
func lossRow(id op.ID, f func(x, y float64, s *scalars8) float64) op.Row {
	return floatTwo(id, lossKernel[float32](f), lossKernel[float64](f))
}

func lossKernel[T float](f func(x, y float64, s *scalars8) float64) kernel2[T, T, T] {
	return func(dst, a, b []T, c *op.Call) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = T(f(float64(a[i]), float64(b[i]), &c.F))
		}
	}
}

// lossGradRow makes the row of a gradient: dst = a * f(b, c).
func lossGradRow(id op.ID, f func(x, y float64, s *scalars8) float64) op.Row {
	return row(id, floats(
		func(l accessor[float32]) op.Func { return elementwise(l, l, l, l, lossGradKernel[float32](f)) },
		func(l accessor[float64]) op.Func { return elementwise(l, l, l, l, lossGradKernel[float64](f)) }))
}

func lossGradKernel[T float](f func(x, y float64, s *scalars8) float64) kernel3[T, T, T, T] {
	return func(dst, g, a, b []T, c *op.Call) {
		g, a, b = g[:len(dst)], a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = T(float64(g[i]) * f(float64(a[i]), float64(b[i]), &c.F))
		}
	}
}

func squaredError(x, y float64, _ *scalars8) float64     { return (x - y) * (x - y) }
func squaredErrorGrad(x, y float64, _ *scalars8) float64 { return 2 * (x - y) }

func smoothL1(x, y float64, s *scalars8) float64 {
	d := math.Abs(x - y)
	if d < s[0] {
		return s[1] * d * d / (2 * s[0])
	}
	return s[1] * (d - s[0]/2)
}

func smoothL1Grad(x, y float64, s *scalars8) float64 {
	switch d := x - y; {
	case math.Abs(d) < s[0]:
		return s[1] * d / s[0]
	case d > 0:
		return s[1]
	case d < 0:
		return -s[1]
	case s[0] < 0:
		return 0 // also for NaN
	default:
		return d // 0 or NaN
	}
}

// logFloor is what logarithms of probabilities are at least: a probability of 0 for what is certain costs 100, not infinity.
const logFloor = -100

func bce(x, y float64, _ *scalars8) float64 {
	return -(y*max(math.Log(x), logFloor) + (1-y)*max(math.Log1p(-x), logFloor))
}

func bceGrad(x, y float64, _ *scalars8) float64 {
	const least = 9.999999960041972e-13 // 1e-12 in float32, as PyTorch has it for all types
	return (x - y) / max((1-x)*x, least)
}

func bceLogits(x, y float64, _ *scalars8) float64 {
	return max(-x, 0) + math.Log1p(math.Exp(-math.Abs(x))) + (1-y)*x
}

func bceLogitsGrad(x, y float64, _ *scalars8) float64 { return sigmoid64(x) - y }

func klDiv(x, y float64, s *scalars8) float64 {
	switch {
	case s[0] != 0:
		return math.Exp(y) * (y - x)
	case y == 0:
		return 0
	}
	return y * (math.Log(y) - x)
}

func klDivGrad(_, y float64, s *scalars8) float64 {
	if s[0] != 0 {
		return -math.Exp(y)
	}
	return -y
}

func lossRows() []op.Row {
	return []op.Row{
		lossRow(op.SquaredError, squaredError), lossRow(op.SmoothL1, smoothL1), lossRow(op.BCE, bce),
		lossRow(op.BCELogits, bceLogits), lossRow(op.KLDiv, klDiv),
		lossGradRow(op.SquaredErrorGrad, squaredErrorGrad), lossGradRow(op.SmoothL1Grad, smoothL1Grad), lossGradRow(op.BCEGrad, bceGrad),
		lossGradRow(op.BCELogitsGrad, bceLogitsGrad), lossGradRow(op.KLDivGrad, klDivGrad),
	}
}
