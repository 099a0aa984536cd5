package cpu

import (
	"math"
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Kernels of float32 functions that take numbers beside elements, or that have arguments which a vector function leaves out.

// softplusScalars are beta in two parts, the second of them over the first too, and the threshold.
func softplusScalars(c *op.Call) (s functionScalars) {
	beta := float32(c.F[0])
	low := c.F[0] - float64(beta)
	s.narrow = [4]float32{beta, float32(low), float32(low / float64(beta)), float32(c.F[1])}
	return s
}

func softplus32(dst, a []float32, c *op.Call) {
	if c.F[0] == 1 && c.F[1] == 20 { // from 20 on both are the same
		apply(fnSoftplus, dst, a[:len(dst)], nil, nil, nil)
		return
	}
	s := softplusScalars(c)
	apply(fnSoftplusScaled, dst, a[:len(dst)], nil, nil, &s)
}

func softplusGrad32(dst, g, a []float32, c *op.Call) {
	s := softplusScalars(c)
	apply(fnSoftplusGrad, dst, g[:len(dst)], a[:len(dst)], nil, &s)
}

func elu32(dst, a []float32, c *op.Call) { eluScaled(dst, a, c.F[0], 1) }

func eluGrad32(dst, g, a []float32, c *op.Call) { eluGradScaled(dst, g, a, c.F[0], 1) }

func selu32(dst, a []float32, _ *op.Call) { eluScaled(dst, a, seluAlpha*seluScale, seluScale) }

func seluGrad32(dst, g, a []float32, _ *op.Call) {
	eluGradScaled(dst, g, a, seluAlpha*seluScale, seluScale)
}

func eluScaled(dst, a []float32, alpha, scale float64) {
	var s functionScalars
	s.narrow = [4]float32{float32(alpha), float32(scale)}
	apply(fnElu, dst, a[:len(dst)], nil, nil, &s)
}

func eluGradScaled(dst, g, a []float32, alpha, scale float64) {
	var s functionScalars
	s.narrow = [4]float32{float32(alpha), float32(scale)}
	apply(fnEluGrad, dst, g[:len(dst)], a[:len(dst)], nil, &s)
}

func powScalar32(dst, a []float32, c *op.Call) {
	a = a[:len(dst)]
	switch c.F[0] {
	case 2:
		mulSlices(dst, a, a)
	case 3:
		apply(fnCube, dst, a, nil, nil, nil)
	default:
		var s functionScalars
		s.wide[0] = c.F[0]
		apply(fnPowScalar, dst, a, nil, nil, &s)
	}
}

// logit32 has the bounds in float32, as PyTorch does: eps is rounded, and so is its difference from 1.
func logit32(dst, a []float32, c *op.Call) {
	s := logitScalars(c.F[0])
	apply(fnLogit, dst, a[:len(dst)], nil, nil, &s)
}

// logitGrad32 has those bounds, or 0 and 1 with NaN outside of them.
func logitGrad32(dst, g, a []float32, c *op.Call) {
	s := functionScalars{narrow: [4]float32{0, 1, float32(math.NaN())}}
	if c.F[0] >= 0 {
		s = logitScalars(c.F[0])
		s.narrow[2] = 0
	}
	apply(fnLogitGrad, dst, g[:len(dst)], a[:len(dst)], nil, &s)
}

// otherOf3 is function3 with the second and third input in the other order.
func otherOf3(f functionID) kernel3[float32, float32, float32, float32] {
	return func(dst, a, b, c []float32, _ *op.Call) { apply(f, dst, a[:len(dst)], c[:len(dst)], b[:len(dst)], nil) }
}

func atan2Grad32(dst, g, a, b []float32, _ *op.Call) {
	s := functionScalars{wide: [4]float64{1}}
	apply(fnAtan2Grad, dst, g[:len(dst)], a[:len(dst)], b[:len(dst)], &s)
}

func atan2GradX32(dst, g, a, b []float32, _ *op.Call) {
	s := functionScalars{wide: [4]float64{-1}}
	apply(fnAtan2Grad, dst, g[:len(dst)], b[:len(dst)], a[:len(dst)], &s)
}

// modOf is mod of float32.
func modOf(a, b float32) float32 { return float32(mod(a, b)) }

// remainder32 makes the kernel of a remainder: what is NaN is computed one by one, as it may be no NaN.
func remainder32(f functionID, one func(a, b float32) float32) kernel2[float32, float32, float32] {
	return func(dst, a, b []float32, _ *op.Call) { remainders(f, one, dst, a, b) }
}

func remainders(f functionID, one func(a, b float32) float32, dst, a, b []float32) {
	piece := remainderPieces.Get().(*[512]float32)
	for len(dst) > 0 {
		n := min(len(dst), len(piece))
		r := piece[:n]
		apply(f, r, a[:n], b[:n], nil, nil)
		if m := maxOf(r[0], r); m != m {
			for i, x := range r {
				if x != x {
					r[i] = one(a[i], b[i])
				}
			}
		}
		copy(dst, r)
		dst, a, b = dst[n:], a[n:], b[n:]
	}
	remainderPieces.Put(piece)
}

// remainderPieces are for remainders, whose result may be in the place of a or b.
var remainderPieces = sync.Pool{New: func() any { return new([512]float32) }}

func logitScalars(eps float64) (s functionScalars) {
	if eps < 0 {
		s.narrow = [4]float32{float32(math.Inf(-1)), float32(math.Inf(1))}
		return s
	}
	lo := float32(eps)
	hi := 1 - lo
	s.narrow = [4]float32{lo, hi, float32(logit64(float64(min(lo, hi)), -1)), float32(logit64(float64(hi), -1))}
	return s
}

// sineLimit is the greatest argument whose quadrant is found in float64.
const sineLimit = 0x1p50

// sine32 makes the kernel of a sine, cosine or tangent: greater arguments are computed one by one.
func sine32(f functionID, far func(float64) float64) kernel1[float32, float32] {
	return func(dst, a []float32, _ *op.Call) {
		var piece [256]float32
		a = a[:len(dst)]
		for len(dst) > 0 {
			n := min(len(dst), len(piece))
			if n == 0 || allWithin(a[:n], sineLimit) {
				apply(f, dst[:n], a[:n], nil, nil, nil)
			} else {
				copy(piece[:n], a)
				apply(f, dst[:n], piece[:n], nil, nil, nil)
				for i, x := range piece[:n] {
					if math.Abs(float64(x)) > sineLimit {
						dst[i] = float32(far(float64(x)))
					}
				}
			}
			dst, a = dst[n:], a[n:]
		}
	}
}

// allWithin reports whether no element is greater than limit, nor NaN.
func allWithin(v []float32, limit float32) bool {
	return maxOf(v[0], v) <= limit && minOf(v[0], v) >= -limit
}
