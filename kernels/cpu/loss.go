package cpu

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// The losses of elements and their gradients. Each formula is written once, in float64; f is the scalars of the call.

type scalars8 = [8]float64

// lossRow makes the row of a loss: of a function of float32, and of float64.
func lossRow(id op.ID, narrow kernel2[float32, float32, float32], f func(x, y float64, s *scalars8) float64) op.Row {
	return floatTwo(id, narrow, lossKernel[float64](f))
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
func lossGradRow(id op.ID, narrow kernel3[float32, float32, float32, float32], f func(x, y float64, s *scalars8) float64) op.Row {
	return row(id, floats(
		func(l accessor[float32]) op.Func { return elementwise(l, l, l, l, narrow) },
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
	return s[1] * (d - float64(s[0]/2))
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
	return -(float64(y*max(math.Log(x), logFloor)) + float64((1-y)*max(math.Log1p(-x), logFloor)))
}

func bceGrad(x, y float64, _ *scalars8) float64 {
	const least = 9.999999960041972e-13 // 1e-12 in float32, as PyTorch has it for all types
	return (x - y) / max((1-x)*x, least)
}

func bceLogits(x, y float64, _ *scalars8) float64 {
	return max(-x, 0) + math.Log1p(math.Exp(-math.Abs(x))) + float64((1-y)*x)
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

// smoothL1of32 is the loss of float32. Without a beta no difference is less than that.
func smoothL1of32(dst, a, b []float32, c *op.Call) {
	beta, weight := c.F[0], c.F[1]
	var s functionScalars
	s.narrow = [4]float32{float32(beta), float32(weight), 0, float32(beta / 2)}
	if beta > 0 {
		s.narrow[2] = float32(min(weight/(2*beta), math.MaxFloat32)) // finite, for differences of 0
	}
	apply(fnSmoothL1, dst, a[:len(dst)], b[:len(dst)], nil, &s)
}

func smoothL1GradOf32(dst, g, a, b []float32, c *op.Call) {
	beta, weight := c.F[0], c.F[1]
	if beta < 0 {
		lossGradKernel[float32](smoothL1Grad)(dst, g, a, b, c)
		return
	}
	var s functionScalars
	s.narrow = [4]float32{float32(beta), float32(weight), float32(min(weight/max(beta, math.SmallestNonzeroFloat32), math.MaxFloat32))}
	apply(fnSmoothL1Grad, dst, g[:len(dst)], a[:len(dst)], b[:len(dst)], &s)
}

// klDivOf32 and klDivGradOf32 choose by whether targets are logarithms.

func klDivOf32(dst, a, b []float32, c *op.Call) {
	f := fnKlDiv
	if c.F[0] != 0 {
		f = fnKlDivLog
	}
	apply(f, dst, a[:len(dst)], b[:len(dst)], nil, nil)
}

func klDivGradOf32(dst, g, a, b []float32, c *op.Call) {
	f := fnKlDivGrad
	if c.F[0] != 0 {
		f = fnKlDivLogGrad
	}
	apply(f, dst, g[:len(dst)], a[:len(dst)], b[:len(dst)], nil)
}

func lossRows() []op.Row {
	return []op.Row{
		lossRow(op.SquaredError, function2(fnSquaredError), squaredError), lossRow(op.SmoothL1, smoothL1of32, smoothL1),
		lossRow(op.BCE, function2(fnBce), bce), lossRow(op.BCELogits, function2(fnBceLogits), bceLogits), lossRow(op.KLDiv, klDivOf32, klDiv),
		lossGradRow(op.SquaredErrorGrad, function3(fnSquaredErrorGrad), squaredErrorGrad),
		lossGradRow(op.SmoothL1Grad, smoothL1GradOf32, smoothL1Grad),
		lossGradRow(op.BCEGrad, function3(fnBceGrad), bceGrad), lossGradRow(op.BCELogitsGrad, function3(fnBceLogitsGrad), bceLogitsGrad),
		lossGradRow(op.KLDivGrad, klDivGradOf32, klDivGrad),
	}
}
