package cpu

import "golang.org/x/sys/cpu"

// Conversions of half precision on amd64, in half_avx2_amd64.s: the loops of half.go, for n elements, a multiple of 8. Every
// processor with AVX2 has F16C, the instructions for Float16.

//go:noescape
func fromHalfAVX2(n int, dst *float32, src *uint16)

//go:noescape
func toHalfAVX2(n int, dst *uint16, src *float32)

//go:noescape
func fromBrainAVX2(n int, dst *float32, src *uint16)

//go:noescape
func toBrainAVX2(n int, dst *uint16, src *float32)

// halfLanes are the elements of a vector. Elements that are left over, from leastOver on, have a vector in memory of their own.
const (
	halfLanes = 8
	leastOver = 3
)

// The functions below convert as many elements as they can, from the first on, and return how many.

func fromHalfVector(dst []float32, src []uint16) int {
	if !cpu.X86.HasAVX2 {
		return 0
	}
	n := len(dst) &^ (halfLanes - 1)
	if n > 0 {
		fromHalfAVX2(n, &dst[0], &src[:n][0])
	}
	if len(dst)-n < leastOver {
		return n
	}
	var from [halfLanes]uint16
	var to [halfLanes]float32
	copy(from[:], src[n:len(dst)])
	fromHalfAVX2(halfLanes, &to[0], &from[0])
	return n + copy(dst[n:], to[:])
}

func toHalfVector(dst []uint16, src []float32) int {
	if !cpu.X86.HasAVX2 {
		return 0
	}
	n := len(dst) &^ (halfLanes - 1)
	if n > 0 {
		toHalfAVX2(n, &dst[0], &src[:n][0])
	}
	if len(dst)-n < leastOver {
		return n
	}
	var from [halfLanes]float32
	var to [halfLanes]uint16
	copy(from[:], src[n:len(dst)])
	toHalfAVX2(halfLanes, &to[0], &from[0])
	return n + copy(dst[n:], to[:])
}

func fromBrainVector(dst []float32, src []uint16) int {
	if !cpu.X86.HasAVX2 {
		return 0
	}
	n := len(dst) &^ (halfLanes - 1)
	if n > 0 {
		fromBrainAVX2(n, &dst[0], &src[:n][0])
	}
	if len(dst)-n < leastOver {
		return n
	}
	var from [halfLanes]uint16
	var to [halfLanes]float32
	copy(from[:], src[n:len(dst)])
	fromBrainAVX2(halfLanes, &to[0], &from[0])
	return n + copy(dst[n:], to[:])
}

func toBrainVector(dst []uint16, src []float32) int {
	if !cpu.X86.HasAVX2 {
		return 0
	}
	n := len(dst) &^ (halfLanes - 1)
	if n > 0 {
		toBrainAVX2(n, &dst[0], &src[:n][0])
	}
	if len(dst)-n < leastOver {
		return n
	}
	var from [halfLanes]float32
	var to [halfLanes]uint16
	copy(from[:], src[n:len(dst)])
	toBrainAVX2(halfLanes, &to[0], &from[0])
	return n + copy(dst[n:], to[:])
}
