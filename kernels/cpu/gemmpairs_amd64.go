package cpu

import "golang.org/x/sys/cpu"

// In gemm_bf16_amd64.s, with the instructions of AVX512-BF16.

//go:noescape
func tile14x32BF16(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile13x32BF16(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile12x32BF16(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile11x32BF16(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile10x32BF16(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile9x32BF16(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile8x32BF16(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile7x32BF16(k int, a, b, c *float32, ld int, alpha float32, add bool)

// In pack_avx512_amd64.s.
//
//go:noescape
func pairRowsAVX512(count int, dst *float32, width int, src *uint16, ld, n int)

// The kernels of float32, which pack pairs, are set by then: files are in order.
func init() {
	if !wideVectors() {
		return
	}
	pairRows = pairRowsAVX512
	if cpu.X86.HasAVX512BF16 {
		tile := microkernel[float32]{"14x32 AVX512-BF16", 14, 32, tile14x32BF16, []tileLoop[float32]{
			tile13x32BF16, tile12x32BF16, tile11x32BF16, tile10x32BF16, tile9x32BF16, tile8x32BF16, tile7x32BF16,
		}}
		pairKernels[brainHalf] = &pairLoops{matMulKernels[float32]{wide: tile, narrow: tile, pack: kernels32.pack}, false}
	}
	setTiles()
}
