package cpu

// The micro-kernels of matrix products on amd64, in gemm_avx2_amd64.s and gemm_avx512_amd64.s.

//go:noescape
func tile6x16AVX2(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile5x16AVX2(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile4x16AVX2(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile3x16AVX2(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile6x8AVX2(k int, a, b, c *float64, ld int, alpha float64, add bool)

//go:noescape
func tile5x8AVX2(k int, a, b, c *float64, ld int, alpha float64, add bool)

//go:noescape
func tile4x8AVX2(k int, a, b, c *float64, ld int, alpha float64, add bool)

//go:noescape
func tile3x8AVX2(k int, a, b, c *float64, ld int, alpha float64, add bool)

//go:noescape
func tile14x32AVX512(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile13x32AVX512(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile12x32AVX512(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile11x32AVX512(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile10x32AVX512(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile9x32AVX512(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile8x32AVX512(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile7x32AVX512(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile14x16AVX512(k int, a, b, c *float64, ld int, alpha float64, add bool)

//go:noescape
func tile13x16AVX512(k int, a, b, c *float64, ld int, alpha float64, add bool)

//go:noescape
func tile12x16AVX512(k int, a, b, c *float64, ld int, alpha float64, add bool)

//go:noescape
func tile11x16AVX512(k int, a, b, c *float64, ld int, alpha float64, add bool)

//go:noescape
func tile10x16AVX512(k int, a, b, c *float64, ld int, alpha float64, add bool)

//go:noescape
func tile9x16AVX512(k int, a, b, c *float64, ld int, alpha float64, add bool)

//go:noescape
func tile8x16AVX512(k int, a, b, c *float64, ld int, alpha float64, add bool)

//go:noescape
func tile7x16AVX512(k int, a, b, c *float64, ld int, alpha float64, add bool)

func tilesAVX2() (microkernel[float32], microkernel[float64]) {
	return microkernel[float32]{"6x16 AVX2", 6, 16, tile6x16AVX2, []tileLoop[float32]{tile5x16AVX2, tile4x16AVX2, tile3x16AVX2}},
		microkernel[float64]{"6x8 AVX2", 6, 8, tile6x8AVX2, []tileLoop[float64]{tile5x8AVX2, tile4x8AVX2, tile3x8AVX2}}
}

func tilesAVX512() (microkernel[float32], microkernel[float64]) {
	return microkernel[float32]{"14x32 AVX-512", 14, 32, tile14x32AVX512, []tileLoop[float32]{
			tile13x32AVX512, tile12x32AVX512, tile11x32AVX512, tile10x32AVX512, tile9x32AVX512, tile8x32AVX512, tile7x32AVX512,
		}},
		microkernel[float64]{"14x16 AVX-512", 14, 16, tile14x16AVX512, []tileLoop[float64]{
			tile13x16AVX512, tile12x16AVX512, tile11x16AVX512, tile10x16AVX512, tile9x16AVX512, tile8x16AVX512, tile7x16AVX512,
		}}
}
