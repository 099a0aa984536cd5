package cpu

import "golang.org/x/sys/cpu"

// Loops of convolutions on amd64, in conv_avx2_amd64.s and conv_avx512_amd64.s. Their specifications are at the variables that they are set to.

//go:noescape
func correlate6x16AVX2(c *correlateCall)

//go:noescape
func correlate6x32AVX512(c *correlateCall)

//go:noescape
func few3x32AVX2(steps int, weights, image *float32, offsets *int, c *float32, ld int)

//go:noescape
func everySecondRowsAVX2(rows, n int, dst *float32, to int, src *float32, from int)

//go:noescape
func everySecondRowsAVX512(rows, n int, dst *float32, to int, src *float32, from int)

// everySecondRowsWide is everySecondRows on AVX-512, which is for rows of sixteen and more.
func everySecondRowsWide(rows, n int, dst *float32, to int, src *float32, from int) {
	if n >= 16 {
		everySecondRowsAVX512(rows, n, dst, to, src, from)
	} else {
		everySecondRowsAVX2(rows, n, dst, to, src, from)
	}
}

//go:noescape
func toEverySecondAVX2(n int, dst, src *float32)

//go:noescape
func interleaveRowsAVX2(rows, n int, image *float32, down int, odd *float32)

func init() {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return
	}
	correlateKernels, few3x32 = []correlateKernel{{16, correlate6x16AVX2}}, few3x32AVX2
	everySecondRows, toEverySecond, interleaveRows = everySecondRowsAVX2, toEverySecondAVX2, interleaveRowsAVX2
	if cpu.X86.HasAVX512F {
		correlateKernels = append(correlateKernels, correlateKernel{32, correlate6x32AVX512})
		everySecondRows = everySecondRowsWide
	}
}
