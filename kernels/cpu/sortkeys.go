package cpu

import (
	"math"

	"github.com/chewxy/math32"
)

// Keys are what Sort compares: unsigned numbers in the order of the elements, in which NaN is the greatest and -0 is 0. Entries
// are keys with the places of their elements, which decide between equal keys, so that every way of sorting is stable.

// packed is an entry whose key has 32 bits: the key above the place.
type packed = uint64

// paired is an entry whose key has 64 bits.
type paired struct {
	key uint64
	at  uint32
}

// ordering is how a type is sorted: T its elements, E their entries.
type ordering[T, E any] struct {
	entry  func(v T, at int, flip uint64) E // flip is all ones for descending order
	place  func(E) int
	less   func(a, b E) bool
	digit  func(e E, k int) uint8 // byte k of the key, the least first
	digits int

	// Faster ways for packed entries, else nil: to make entries, to sort them, and to find the least (sortpacked.go).
	pack  func(e []E, values []T, first int, flip uint64)
	order func(from, to []E) []E
	least func(heap, all []E)
}

func narrowOrdering[T any](key func(T) uint32) ordering[T, packed] {
	return ordering[T, packed]{
		entry:  func(v T, at int, flip uint64) packed { return uint64(key(v)^uint32(flip))<<32 | uint64(uint32(at)) },
		place:  func(e packed) int { return int(uint32(e)) },
		less:   func(a, b packed) bool { return a < b },
		digit:  func(e packed, k int) uint8 { return uint8(e >> (32 + 8*k)) },
		digits: 4,
		pack: func(e []packed, values []T, first int, flip uint64) {
			for i, v := range values {
				e[i] = uint64(key(v)^uint32(flip))<<32 | uint64(uint32(first+i))
			}
		},
		order: orderPacked,
		least: leastPacked,
	}
}

func wideOrdering[T any](key func(T) uint64) ordering[T, paired] {
	return ordering[T, paired]{
		entry:  func(v T, at int, flip uint64) paired { return paired{key(v) ^ flip, uint32(at)} },
		place:  func(e paired) int { return int(e.at) },
		less:   func(a, b paired) bool { return a.key < b.key || a.key == b.key && a.at < b.at },
		digit:  func(e paired, k int) uint8 { return uint8(e.key >> (8 * k)) },
		digits: 8,
	}
}

func keyFloat32(v float32) uint32 {
	b := math32.Float32bits(v)
	switch {
	case v != v:
		return 1<<32 - 1
	case v == 0:
		return 1 << 31
	case b>>31 != 0:
		return ^b
	}
	return b | 1<<31
}

func keyFloat64(v float64) uint64 {
	b := math.Float64bits(v)
	switch {
	case v != v:
		return 1<<64 - 1
	case v == 0:
		return 1 << 63
	case b>>63 != 0:
		return ^b
	}
	return b | 1<<63
}

func keyInt64(v int64) uint64 { return uint64(v) ^ 1<<63 }
func keyInt32(v int32) uint32 { return uint32(v) ^ 1<<31 }
func keyUint8(v uint8) uint32 { return uint32(v) }
