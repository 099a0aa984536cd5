// Package reduce combines what several ranks hold, on the processor: the arithmetic of collectives where no library does it.
//
// The ranks are combined in their order, whoever asks, so that all get the same bits. Half-precision types are summed in float32 and
// rounded once: a sum that was rounded at each step would be another one for each number of ranks.
package reduce

import (
	"fmt"
	"unsafe"

	"github.com/cistern-ml/cistern/device/dtype"
)

// Kind says how to combine. The numbers are those of comm.Op.
type Kind uint8

// The ways to combine. Max and Min of anything and NaN are NaN.
const (
	Sum Kind = iota + 1
	Mean
	Max
	Min
)

// Can reports whether elements of a type can be combined.
func Can(t dtype.DType) bool { return t.IsFloat() || t == dtype.Int64 }

// Combine combines srcs, vectors of one type and length, element by element, and leaves the result in dst, of the same length, which may
// be one of them. Mean is the sum divided by len(srcs); that of integers drops the rest, as Go's division does.
func Combine(dst []byte, srcs [][]byte, kind Kind, t dtype.DType) {
	switch t {
	case dtype.Float32:
		combine[float32](dst, srcs, kind)
	case dtype.Float64:
		combine[float64](dst, srcs, kind)
	case dtype.Int64:
		combine[int64](dst, srcs, kind)
	case dtype.Float16:
		combineHalves(dst, srcs, kind, loadFloat16, storeFloat16)
	case dtype.BFloat16:
		combineHalves(dst, srcs, kind, loadBfloat16, storeBfloat16)
	default:
		// invariant: package comm refuses other types before anything is enqueued.
		panic(fmt.Sprintf("reduce: callers check the type with Can: %v", t))
	}
}

// Divide divides a vector by n in place: what makes a Sum that a library has computed the Mean. Only for the types that libraries sum.
func Divide(v []byte, n int, t dtype.DType) {
	switch t {
	case dtype.Float32:
		divideFloats(slice[float32](v), n)
	case dtype.Float64:
		divideFloats(slice[float64](v), n)
	case dtype.Int64:
		divide(slice[int64](v), int64(n))
	default:
		// invariant: only backends that let a library sum call this, and only for the types that it knows.
		panic(fmt.Sprintf("reduce: no library sums %v", t))
	}
}

// divideFloats is divide for floating types. Halves, quarters and so on are products, which take a quarter of the time.
func divideFloats[T float32 | float64](v []T, n int) {
	switch {
	case n == 1:
	case n&(n-1) == 0:
		part := 1 / T(n)
		for i := range v {
			v[i] *= part
		}
	default:
		divide(v, T(n))
	}
}

type number interface{ float32 | float64 | int64 }

// block is how many elements are combined at a time: they stay in the first cache.
const block = 1024

// combine works in blocks, so that dst may be one of srcs: a block of it is written when the block of all has been read.
func combine[T number](dst []byte, srcs [][]byte, kind Kind) {
	var room [block]T
	out := slice[T](dst)
	for at := 0; at < len(out); at += block {
		acc := room[:min(block, len(out)-at)]
		copy(acc, slice[T](srcs[0])[at:])
		for _, src := range srcs[1:] {
			accumulate(acc, slice[T](src)[at:at+len(acc)], kind)
		}
		if kind == Mean {
			divide(acc, T(len(srcs)))
		}
		copy(out[at:], acc)
	}
}

// combineHalves is combine with float32 between.
func combineHalves(dst []byte, srcs [][]byte, kind Kind, load func([]float32, []uint16), store func([]uint16, []float32)) {
	var room, next [block]float32
	out := slice[uint16](dst)
	for at := 0; at < len(out); at += block {
		acc := room[:min(block, len(out)-at)]
		load(acc, slice[uint16](srcs[0])[at:])
		for _, src := range srcs[1:] {
			load(next[:len(acc)], slice[uint16](src)[at:])
			accumulate(acc, next[:len(acc)], kind)
		}
		if kind == Mean {
			divide(acc, float32(len(srcs)))
		}
		store(out[at:], acc)
	}
}

func accumulate[T number](acc, v []T, kind Kind) {
	v = v[:len(acc)]
	switch kind {
	case Max:
		for i := range acc {
			acc[i] = max(acc[i], v[i])
		}
	case Min:
		for i := range acc {
			acc[i] = min(acc[i], v[i])
		}
	default:
		for i := range acc {
			acc[i] += v[i]
		}
	}
}

func divide[T number](v []T, n T) {
	for i := range v {
		v[i] /= n
	}
}

// slice is b as elements. Its address is a multiple of their size.
func slice[T number | uint16](b []byte) []T {
	var element T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(element)))
}
