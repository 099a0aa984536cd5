package cpu

import "golang.org/x/sys/cpu"

// Loops by vectors of 64 bytes, for what waits for conversions and for sums, not for memory. They take the place of those for AVX2, with the same bits.

//go:noescape
func dotWideAVX512(n int, a, b *float32) float64

//go:noescape
func prodAVX512(n int, v *float32) float64

// Those of layer norm's gradients are in normgrad_avx512_amd64.s.

//go:noescape
func normDotsAVX512(n int, grad, w, x *float32, c *normRow, sums *[2]float64)

//go:noescape
func normGradsAVX512(n int, dst, grad, w, x *float32, c *normRow)

//go:noescape
func normSumsAVX512(rows, n int, grad, x *float32, ld int, mean, rstd *float32, products, sums *float64)

// wideVectors reports whether a processor has the instructions of these loops.
func wideVectors() bool {
	return cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL
}

func (v *vectorLoops) setAVX512() {
	v.dot, v.prod = dotWideAVX512, prodAVX512
	v.normDots, v.normGrads, v.normSums = normDotsAVX512, normGradsAVX512, normSumsAVX512
}
