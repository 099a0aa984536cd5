package cpu

import (
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Functions of float32, in vectors of eight or sixteen elements, and of float64, in vectors of four or eight. Each is written once, as a program of the generator (gen), which makes of it a loop in
// assembly for AVX2, one for AVX-512, one for NEON and a function of one element in Go: all do the same operations, so a result has the same bits on every processor, wherever in a
// slice it lies.

// functionID is a number of a function: fnExp and so on, in functions_gen.go.
type functionID int

// wideFunctionID is a number of a function of float64: fnExpFloat64 and so on.
type wideFunctionID int

// functionScalars are the numbers that a function takes beside elements: narrow ones, or wide ones if it computes in float64.
type functionScalars struct {
	narrow [4]float32
	wide   [4]float64
}

// apply is dst = f(a, b, c) of elements; inputs that a function does not have are nil.
func apply(f functionID, dst, a, b, c []float32, s *functionScalars) {
	if !vector.functions {
		plainFunction(f, dst, a, b, c, s)
		return
	}
	if vector.masked {
		if len(dst) > 0 {
			maskedFunction(f, len(dst), &dst[0], first(a), first(b), first(c), s)
		}
		return
	}
	n := len(dst) &^ 7
	if n > 0 {
		vectorFunction(f, n, &dst[0], first(a), first(b), first(c), s)
	}
	if n < len(dst) {
		applyRest(f, dst[n:], behind(a, n), behind(b, n), behind(c, n), s)
	}
}

// applyRest computes the last elements, fewer than a vector, as a whole one.
func applyRest(f functionID, dst, a, b, c []float32, s *functionScalars) {
	var v [4][8]float32
	copy(v[1][:], a)
	copy(v[2][:], b)
	copy(v[3][:], c)
	vectorFunction(f, 8, &v[0][0], &v[1][0], &v[2][0], &v[3][0], s)
	copy(dst, v[0][:])
}

// applyWide is apply of float64.
func applyWide(f wideFunctionID, dst, a, b, c []float64, s *functionScalars) {
	if !vector.functions {
		plainWideFunction(f, dst, a, b, c, s)
		return
	}
	if vector.masked {
		if len(dst) > 0 {
			maskedWideFunction(f, len(dst), &dst[0], first(a), first(b), first(c), s)
		}
		return
	}
	n := len(dst) &^ 7
	if n > 0 {
		vectorWideFunction(f, n, &dst[0], first(a), first(b), first(c), s)
	}
	if n < len(dst) {
		applyWideRest(f, dst[n:], behind(a, n), behind(b, n), behind(c, n), s)
	}
}

func applyWideRest(f wideFunctionID, dst, a, b, c []float64, s *functionScalars) {
	var v [4][8]float64
	copy(v[1][:], a)
	copy(v[2][:], b)
	copy(v[3][:], c)
	vectorWideFunction(f, 8, &v[0][0], &v[1][0], &v[2][0], &v[3][0], s)
	copy(dst, v[0][:])
}

// first is where the elements of an input begin, and behind what is left of it.
func first[T any](v []T) *T {
	if len(v) == 0 {
		return nil
	}
	return &v[0]
}

func behind[T any](v []T, n int) []T {
	if len(v) == 0 {
		return nil
	}
	return v[n:]
}

// Kernels of functions, without scalars.

func function1(f functionID) kernel1[float32, float32] {
	return func(dst, a []float32, _ *op.Call) { apply(f, dst, a[:len(dst)], nil, nil, nil) }
}

func function2(f functionID) kernel2[float32, float32, float32] {
	return func(dst, a, b []float32, _ *op.Call) { apply(f, dst, a[:len(dst)], b[:len(dst)], nil, nil) }
}

func function3(f functionID) kernel3[float32, float32, float32, float32] {
	return func(dst, a, b, c []float32, _ *op.Call) { apply(f, dst, a[:len(dst)], b[:len(dst)], c[:len(dst)], nil) }
}

func wideFunction1(f wideFunctionID) kernel1[float64, float64] {
	return func(dst, a []float64, _ *op.Call) { applyWide(f, dst, a[:len(dst)], nil, nil, nil) }
}

// Kernels of functions whose scalars are those of the call, in their order.

func function1With(f functionID) kernel1[float32, float32] {
	return func(dst, a []float32, c *op.Call) {
		s := scalarsOf(c)
		apply(f, dst, a[:len(dst)], nil, nil, &s)
	}
}

func function2With(f functionID) kernel2[float32, float32, float32] {
	return func(dst, a, b []float32, c *op.Call) {
		s := scalarsOf(c)
		apply(f, dst, a[:len(dst)], b[:len(dst)], nil, &s)
	}
}

func function3With(f functionID) kernel3[float32, float32, float32, float32] {
	return func(dst, a, b, c []float32, call *op.Call) {
		s := scalarsOf(call)
		apply(f, dst, a[:len(dst)], b[:len(dst)], c[:len(dst)], &s)
	}
}

func scalarsOf(c *op.Call) (s functionScalars) {
	for i := range s.narrow {
		s.narrow[i] = float32(c.F[i])
	}
	return s
}

// maskBits32 and maskBits64 are all bits, or none.
func maskBits32(m bool) uint32 {
	if m {
		return math.MaxUint32
	}
	return 0
}

func maskBits64(m bool) uint64 {
	if m {
		return math.MaxUint64
	}
	return 0
}

// pick is a where m is, else b.
func pick[T any](m bool, a, b T) T {
	if m {
		return a
	}
	return b
}

// The instructions for the least and the greatest of two numbers give the second where one is NaN.

func least32(a, b float32) float32 { return pick(a < b, a, b) }
func most32(a, b float32) float32  { return pick(a > b, a, b) }
func least64(a, b float64) float64 { return pick(a < b, a, b) }
func most64(a, b float64) float64  { return pick(a > b, a, b) }

func fma64(a, b, c float64) float64  { return math.FMA(a, b, c) }
func fnma64(a, b, c float64) float64 { return math.FMA(-a, b, c) }
func fnma32(a, b, c float32) float32 { return fma32(-a, b, c) }
func fms32(a, b, c float32) float32  { return fma32(a, b, -c) }

// toInteger32 is the nearest integer, for numbers that have one of 32 bits, and any for others.
func toInteger32(a float32) uint32 {
	if !(a > -0x1p31 && a < 0x1p31) {
		return 1 << 31
	}
	return uint32(int32(math.RoundToEven(float64(a))))
}

// quadrantOf is the nearest multiple of pi/2 and what is left.
func quadrantOf(a float32) (k uint32, r float32) {
	const shift = 0x1.8p52
	x := float64(a)
	t := math.FMA(x, 2/math.Pi, shift)
	n := t - shift
	x = math.FMA(-n, 0x1.921fb54442d18p+0, x)
	x = math.FMA(-n, 0x1.1a62633145c07p-54, x)
	return uint32(math.Float64bits(t)), float32(x)
}
