package cpu

import (
	"math/bits"

	"github.com/chewxy/math32"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Cast. The row's key is the source type; castTo chooses by the destination's.

// castFrom makes the Func that converts elements of an accessor to any type.
func castFrom[A number](a accessor[A]) op.Func {
	var to funcs
	to[dtype.Float32] = unary(accessorOf[float32](dtype.Float32), a, convert[float32, A])
	to[dtype.Float64] = unary(accessorOf[float64](dtype.Float64), a, convert[float64, A])
	to[dtype.Float16] = unary(accessorOf[float32](dtype.Float16), a, narrow[A])
	to[dtype.BFloat16] = unary(accessorOf[float32](dtype.BFloat16), a, narrow[A])
	to[dtype.Int64] = unary(accessorOf[int64](dtype.Int64), a, convertInt[int64, A])
	to[dtype.Int32] = unary(accessorOf[int32](dtype.Int32), a, convertInt[int32, A])
	to[dtype.Uint8] = unary(accessorOf[uint8](dtype.Uint8), a, convertInt[uint8, A])
	to[dtype.Bool] = unary(accessorOf[uint8](dtype.Bool), a, toBool[A])
	return func(c *op.Call) error {
		d := c.Out[0].DType
		if convertHalf(c) || castWords(c) {
			return nil
		}
		if !d.Valid() {
			return op.Errorf(c.Op, op.ErrCall, "the output has type %s", d)
		}
		return to[d](c)
	}
}

func convert[D, A number](dst []D, a []A, _ *op.Call) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = D(a[i])
	}
}

// convertInt goes through int64, so that a negative float wraps as a negative integer does. What is beyond int64, and NaN, is the lowest int64, on every processor.
func convertInt[D integer, A number](dst []D, a []A, _ *op.Call) {
	a = a[:len(dst)]
	if isFloat[A]() {
		for i := range dst {
			dst[i] = D(wholePart(float64(a[i])))
		}
		return
	}
	for i := range dst {
		dst[i] = D(int64(a[i]))
	}
}

func toBool[A number](dst []uint8, a []A, _ *op.Call) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = truth(a[i] != 0)
	}
}

// narrow converts to float32 on the way to a half-precision type. The second rounding must see what the first one dropped,
// or the result would be rounded twice: the float32 is rounded to odd, which is to truncate and to set the last bit if
// anything was dropped.
func narrow[A number](dst []float32, a []A, _ *op.Call) {
	a = a[:len(dst)]
	switch a := any(a).(type) {
	case []float64:
		for i, v := range a {
			dst[i] = oddFloat(v)
		}
		return
	case []int64:
		for i, v := range a {
			dst[i] = oddInt(v)
		}
		return
	case []int32:
		for i, v := range a {
			dst[i] = oddInt(int64(v))
		}
		return
	}
	for i := range dst { // float32 and uint8 fit exactly
		dst[i] = float32(a[i])
	}
}

func oddFloat(v float64) float32 {
	f := float32(v)
	b := math32.Float32bits(f)
	if float64(f) == v || math32.IsNaN(f) || b&1 != 0 && !math32.IsInf(f, 0) {
		return f
	}
	// f was rounded to an even neighbour of v: the odd one is on the other side of v.
	if (float64(f) > v) == (v > 0) {
		b--
	} else {
		b++
	}
	return math32.Float32frombits(b)
}

func oddInt(v int64) float32 {
	magnitude := uint64(v)
	if v < 0 {
		magnitude = -magnitude
	}
	drop := max(bits.Len64(magnitude)-24, 0)
	kept := magnitude >> drop
	if kept<<drop != magnitude {
		kept |= 1
	}
	f := float32(kept) * float32(uint64(1)<<drop)
	if v < 0 {
		return -f
	}
	return f
}
