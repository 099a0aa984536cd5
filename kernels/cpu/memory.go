package cpu

import (
	"math/bits"
	"sync"
	"unsafe"

	"github.com/cistern-ml/cistern/device"
)

// All unsafe code of this package is in this file: the step from an address in a device's memory, and from scratch memory,
// to a typed slice. What keeps it sound: views come from checked calls, their memory stays allocated until the stream has
// passed the call, and scratch memory is held by its owner while slices of it are in use.

// slice is the memory of n elements of type T at address p, which lies outside the Go heap or is kept alive by the caller.
// For n = 0 the address may be 0.
func slice[T any](p device.Ptr, n int) []T {
	if n == 0 {
		return nil
	}
	return unsafe.Slice(*(**T)(unsafe.Pointer(&p)), n)
}

// chunk is the number of elements that drivers process at a time when they must gather or convert them: small enough for
// the first-level cache, large enough to make the cost of a call disappear.
const chunk = 1024

// scratch is the memory for the chunks of one call's operands. Its type makes it aligned for every element type.
type scratch struct {
	buffer [5][chunk]uint64
	loop   loop // for operations that loop over parts of their views
	norm   struct {
		row  normRow
		sums [2]float64
	} // for assembly, which makes Go allocate what it gets the address of
	// constant[k] says that buffer k is filled with a broadcast value: the first n elements, from the address at.
	constant [4]struct {
		at device.Ptr
		n  int
	}
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func takeScratch() *scratch {
	s := scratches.Get().(*scratch)
	for k := range s.constant {
		s.constant[k].n = 0
	}
	return s
}

// scratchBuffer is buffer k of the scratch as n elements of type T.
func scratchBuffer[T any](s *scratch, k, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(&s.buffer[k])), n)
}

// asFloats is the same memory as float32.
func asFloats(words []uint32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
}

// sizeOf is the size of T in memory.
func sizeOf[T any](v T) int { return int(unsafe.Sizeof(v)) }

// sizeClasses are the sizes that elements have in memory: 1, 2, 4 and 8 bytes.
const sizeClasses = 4

// sizeClass is the place of a size among them.
func sizeClass(size int) int { return bits.TrailingZeros(uint(size)) }

// elementsAt is the n elements that begin at p.
func elementsAt[T any](p *T, n int) []T { return unsafe.Slice(p, n) }

// watch, which tests set, is told of memory around each piece of scratch memory that must stay as it is: vector instructions write
// without checks of bounds.
var watch func(guard []byte)

// watched is new memory for n elements between two guards, unless they have pointers: nobody but Go writes those.
func watched[T any](n int) []T {
	const elements = 256 // more than an instruction too many writes
	s := make([]T, elements+n+elements)
	switch any(s).(type) {
	case []float32, []float64, []uint8, []uint32, []uint64, []int32:
		watch(bytesOf(s[:elements]))
		watch(bytesOf(s[elements+n:]))
	}
	return s[elements:][:n:n]
}

// bytesOf is the memory of elements, of which there is one at least.
func bytesOf[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*sizeOf(s[0]))
}

// elementsAs is memory as n elements of another type.
func elementsAs[T any](memory []byte, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(&memory[0])), n)
}

// offsetElements is the place n elements after p, which lies in the same memory; n may be negative.
func offsetElements[T any](p *T, n int) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(p), n*int(unsafe.Sizeof(*p))))
}

// addressAt is where an element lies. Go moves nothing but stacks, and what is in a pool is not on one.
func addressAt[T any](p *T) device.Ptr { return device.Ptr(unsafe.Pointer(p)) }
