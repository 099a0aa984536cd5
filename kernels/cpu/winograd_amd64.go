package cpu

import "golang.org/x/sys/cpu"

// The loops of Winograd's convolution on amd64: winograd_avx2_amd64.s and gemm_avx512_amd64.s. Their specification is winogradtransform.go.

//go:noescape
func winogradImageAVX2(dst *float32, position int, src *float32, lanes *[winogradLanes]int, row int, work *winogradWork)

//go:noescape
func winogradGradientAVX2(dst *float32, position int, src *float32, lanes *[winogradLanes]int, row int, work *winogradWork)

//go:noescape
func winogradFilterAVX2(dst *float32, position int, src *float32, lanes *[winogradLanes]int, row int, work *winogradWork)

//go:noescape
func winogradTurnedAVX2(dst *float32, position int, src *float32, lanes *[winogradLanes]int, row int, work *winogradWork)

//go:noescape
func winogradResultAVX2(dst *float32, lanes *[winogradLanes]int, row int, src *float32, position int, bias float32, work *winogradWork)

//go:noescape
func winogradFilter5AVX2(dst *float32, position int, src *float32, lanes *[winogradLanes]int, row int, work *winogradWork)

//go:noescape
func winogradTurned5AVX2(dst *float32, position int, src *float32, lanes *[winogradLanes]int, row int, work *winogradWork)

//go:noescape
func winogradResult2AVX2(dst *float32, lanes *[winogradLanes]int, row int, src *float32, position int, bias float32, work *winogradWork)

//go:noescape
func winogradTapsAVX2(dst *float32, lanes *[winogradLanes]int, src *float32, position int, work *winogradWork)

//go:noescape
func tile8x16AVX2(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile8x24AVX2(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile8x48AVX512(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func shifts8AVX(dst *float32, nr int, src *float32, offsets *int, taps int, chunks *int, count int)

//go:noescape
func shifts4AVX(dst *float32, nr int, src *float32, offsets *int, taps int, chunks *int, count int)

//go:noescape
func shifts16AVX512(dst *float32, nr int, src *float32, offsets *int, taps int, chunks *int, count int)

// shiftsVector is shiftsGo.
func shiftsVector(dst *float32, nr int, src *float32, offsets, chunks []int, n int) {
	switch n {
	case 16:
		shifts16AVX512(dst, nr, src, &offsets[0], len(offsets), &chunks[0], len(chunks)/2)
	case 8:
		shifts8AVX(dst, nr, src, &offsets[0], len(offsets), &chunks[0], len(chunks)/2)
	default:
		shifts4AVX(dst, nr, src, &offsets[0], len(offsets), &chunks[0], len(chunks)/2)
	}
}

func init() {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return
	}
	winogradTiles = [][2]microkernel[float32]{{{name: "8x24 AVX2", mr: 8, nr: 24, tile: tile8x24AVX2}, {name: "8x16 AVX2", mr: 8, nr: 16, tile: tile8x16AVX2}}}
	widest := 8
	if cpu.X86.HasAVX512F {
		widest = 16
		winogradTiles = append(winogradTiles, [2]microkernel[float32]{{name: "8x48 AVX-512", mr: 8, nr: 48, tile: tile8x48AVX512}, {name: "8x32 AVX-512", mr: 8, nr: 32, tile: tile8x32AVX512}})
	}
	tiles := winogradTiles[len(winogradTiles)-1]
	winogradLoops = winogradKernels{
		wide: tiles[0], narrow: tiles[1],
		image: winogradImageAVX2, gradient: winogradGradientAVX2,
		three: winogradForm{3, 4, winogradFilterAVX2, winogradTurnedAVX2, winogradResultAVX2},
		five:  winogradForm{5, 2, winogradFilter5AVX2, winogradTurned5AVX2, winogradResult2AVX2},
		taps:  winogradTapsAVX2, shifts: shiftsVector, widest: widest,
	}
}
