package cpu

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
)

// accessor is how a driver reads and writes an operand that it computes with as T: float32 for Float16 and BFloat16, uint8 for
// Bool, else the type in memory.
type accessor[T any] struct {
	size   int  // of an element in memory, in bytes
	direct bool // memory holds T itself, so that contiguous elements need no copy
	half   half // what is converted: beside direct, where it takes no room, as accessors are copied everywhere

	// load gathers len(dst) elements, the first at p, with a distance of stride elements (0 repeats one element).
	load func(dst []T, p device.Ptr, stride int)
	// store scatters likewise; stride is not 0 unless src has one element.
	store func(p device.Ptr, stride int, src []T)
}

// accessorOf is the accessor for computing on elements of type d as T.
func accessorOf[T any](d dtype.DType) accessor[T] {
	switch d {
	case dtype.Float16:
		return convertedAccessor[T](loadHalf, storeHalf, float16Half)
	case dtype.BFloat16:
		return convertedAccessor[T](loadBrain, storeBrain, brainHalf)
	}
	return wordAccessor[T]()
}

// wordAccessor is the accessor for operations that only move elements of the size of T.
func wordAccessor[T any]() accessor[T] {
	var e T
	return accessor[T]{size: sizeOf(e), direct: true, load: loadStrided[T], store: storeStrided[T]}
}

func convertedAccessor[T any](load func([]float32, device.Ptr, int), store func(device.Ptr, int, []float32), half half) accessor[T] {
	return accessor[T]{
		size:  2,
		half:  half,
		load:  any(load).(func([]T, device.Ptr, int)),
		store: any(store).(func(device.Ptr, int, []T)),
	}
}

// span is the memory that n elements with this stride lie in, and the index of the first of them in it.
func span[T any](p device.Ptr, stride, n int) (mem []T, first int) {
	if n == 0 {
		return nil, 0
	}
	reach := (n - 1) * stride
	if reach >= 0 {
		return slice[T](p, reach+1), 0
	}
	var e T
	return slice[T](offset(p, reach, sizeOf(e)), 1-reach), -reach
}

// offset is the address n elements of the given size after p; n may be negative.
func offset(p device.Ptr, n, size int) device.Ptr { return p + device.Ptr(n*size) }

func loadStrided[T any](dst []T, p device.Ptr, stride int) {
	if len(dst) == 0 {
		return // there may be no memory
	}
	mem, at := span[T](p, stride, len(dst))
	switch stride {
	case 0:
		fillSlice(dst, mem[0])
	case 1:
		copy(dst, mem)
	default:
		for i := range dst {
			dst[i] = mem[at]
			at += stride
		}
	}
}

func fillSlice[T any](dst []T, v T) {
	for i := range dst {
		dst[i] = v
	}
}

// repeat sets all of v to its first element. Copies of what is in the first-level cache are faster than a loop. It is not inlined, as
// each loop of elements has a copy of what calls it.
//
//go:noinline
func repeat[T any](v []T) {
	const whole = 1 << 10
	n := min(len(v), 64)
	fillSlice(v[:n], v[0])
	for n < len(v) {
		n += copy(v[n:], v[:min(n, whole)])
	}
}

func storeStrided[T any](p device.Ptr, stride int, src []T) {
	mem, at := span[T](p, stride, len(src))
	if stride == 1 {
		copy(mem, src)
		return
	}
	for _, v := range src {
		mem[at] = v
		at += stride
	}
}

func loadHalf(dst []float32, p device.Ptr, stride int)  { loadVia(dst, p, stride, dtype.Float16) }
func loadBrain(dst []float32, p device.Ptr, stride int) { loadVia(dst, p, stride, dtype.BFloat16) }

func storeHalf(p device.Ptr, stride int, src []float32)  { storeVia(p, stride, src, dtype.Float16) }
func storeBrain(p device.Ptr, stride int, src []float32) { storeVia(p, stride, src, dtype.BFloat16) }

// widen and narrowTo convert by type. They name the functions, where a function variable would move its arguments to the heap.

func widen(dst []float32, src []uint16, d dtype.DType) {
	if d == dtype.BFloat16 {
		fromBrain(dst, src)
	} else {
		fromHalf(dst, src)
	}
}

func narrowTo(dst []uint16, src []float32, d dtype.DType) {
	if d == dtype.BFloat16 {
		toBrain(dst, src)
	} else {
		toHalf(dst, src)
	}
}

// group is the number of two-byte elements gathered on the stack between memory and conversion.
const group = 128

func loadVia(dst []float32, p device.Ptr, stride int, d dtype.DType) {
	switch stride {
	case 0:
		if len(dst) > 0 {
			widen(dst[:1], slice[uint16](p, 1), d)
			fillSlice(dst, dst[0])
		}
	case 1:
		widen(dst, slice[uint16](p, len(dst)), d)
	default:
		var raw [group]uint16
		for len(dst) > 0 {
			n := min(len(dst), group)
			loadStrided(raw[:n], p, stride)
			widen(dst[:n], raw[:n], d)
			dst = dst[n:]
			p = offset(p, n*stride, 2)
		}
	}
}

func storeVia(p device.Ptr, stride int, src []float32, d dtype.DType) {
	if stride == 1 {
		narrowTo(slice[uint16](p, len(src)), src, d)
		return
	}
	var raw [group]uint16
	for len(src) > 0 {
		n := min(len(src), group)
		narrowTo(raw[:n], src[:n], d)
		storeStrided(p, stride, raw[:n])
		src = src[n:]
		p = offset(p, n*stride, 2)
	}
}
