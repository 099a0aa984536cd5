package cpu

import "golang.org/x/sys/cpu"

// Loops by vectors of 64 bytes, for what waits for conversions and for sums, or has more to compute than memory takes. They take the place of those for AVX2, with the same bits.

//go:noescape
func dotWideAVX512(n int, a, b *float32) float64

//go:noescape
func prodAVX512(n int, v *float32) float64

//go:noescape
func logicAVX512(n int, dst, a, b *byte, m *[4]uint64)

//go:noescape
func mergeProdsAVX512(fours, n int, acc *float64, rows *float32, ld int)

//go:noescape
func int64ToFloat32AVX512(n int, dst, src *byte)

//go:noescape
func int64ToFloat64AVX512(n int, dst, src *byte)

// Those of layer norm's gradients are in normgrad_avx512_amd64.s.

//go:noescape
func normDotsAVX512(n int, grad, w, x *float32, c *normRow, sums *[2]float64)

//go:noescape
func normGradsAVX512(n int, dst, grad, w, x *float32, c *normRow)

//go:noescape
func normSumsAVX512(rows, n int, grad, x *float32, ld int, mean, rstd *float32, products, sums *float64)

// wideVectors reports whether a processor has the instructions of these loops, and of functions: BMI2 is for masks.
func wideVectors() bool {
	x := &cpu.X86
	return x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL && x.HasBMI2 && x.HasFMA
}

func (v *vectorLoops) setAVX512() {
	v.masked, v.expSum = true, expSumAVX512
	v.dot, v.prod, v.logic = dotWideAVX512, prodAVX512, logicAVX512
	v.mergeProds = mergeProdsAVX512
	v.casts[castInt64][castFloat32], v.casts[castInt64][castFloat64] = int64ToFloat32AVX512, int64ToFloat64AVX512 // AVX2 has none
	v.normDots, v.normGrads, v.normSums = normDotsAVX512, normGradsAVX512, normSumsAVX512
}
