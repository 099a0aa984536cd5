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

// vectors is how many of n elements are converted here.
func vectors(n int) int {
	if !cpu.X86.HasAVX2 {
		return 0
	}
	return n &^ 7
}

// The functions below convert as many elements as they can, from the first on, and return how many.

func fromHalfVector(dst []float32, src []uint16) int {
	n := vectors(len(dst))
	if n > 0 {
		fromHalfAVX2(n, &dst[0], &src[:n][0])
	}
	return n
}

func toHalfVector(dst []uint16, src []float32) int {
	n := vectors(len(dst))
	if n > 0 {
		toHalfAVX2(n, &dst[0], &src[:n][0])
	}
	return n
}

func fromBrainVector(dst []float32, src []uint16) int {
	n := vectors(len(dst))
	if n > 0 {
		fromBrainAVX2(n, &dst[0], &src[:n][0])
	}
	return n
}

func toBrainVector(dst []uint16, src []float32) int {
	n := vectors(len(dst))
	if n > 0 {
		toBrainAVX2(n, &dst[0], &src[:n][0])
	}
	return n
}
