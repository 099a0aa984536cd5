package cpu

import "golang.org/x/sys/cpu"

// The inner loops of matrix products on amd64: gemm_avx2_amd64.s, gemm_avx512_amd64.s and gemv_avx2_amd64.s. Their
// specifications are the loops in microkernel.go and gemv.go, which they follow but for products that are fused into sums.

// axpy4AVX2 is axpy4 for n elements, a multiple of 16, axpyPairAVX2 that for two y, of a multiple of 8, dotAVX2 is dot for a multiple of 32, and dot4AVX2 sets sums to the dot
// products of b and four rows of a, which are ld apart, for a multiple of 16. Those of float64 take multiples of half as many.

//go:noescape
func axpy4AVX2(n int, y, a, x0, x1, x2, x3 *float32)

//go:noescape
func axpyPairAVX2(n int, y0, y1, a0, a1, x0, x1, x2, x3 *float32)

//go:noescape
func dotAVX2(n int, a, b *float32) float32

//go:noescape
func dot4AVX2(n int, a *float32, ld int, b *float32, sums *[gemvGroup]float32)

//go:noescape
func axpy4DoubleAVX2(n int, y, a, x0, x1, x2, x3 *float64)

//go:noescape
func dotDoubleAVX2(n int, a, b *float64) float64

//go:noescape
func dot4DoubleAVX2(n int, a *float64, ld int, b *float64, sums *[gemvGroup]float64)

// pack4AVX is a packFour.
//
//go:noescape
func pack4AVX(steps int, dst *float32, width int, src *float32, ld int)

// pack16AVX512 is a packSixteen.
//
//go:noescape
func pack16AVX512(steps int, dst *float32, width int, src *float32, ld, skip, mask int)

// copyRowsAVX is copyRows of 3, 4, 5, 6 and 16 elements, copyRowsAVX512 of up to 32.

//go:noescape
func copyRowsAVX(count int, dst *float32, width int, src *float32, ld int)

//go:noescape
func copyRowsAVX512(count int, dst *float32, width int, src *float32, ld int)

// product6x16AVX2, product8x32AVX512 and product12x16AVX512 are tiles of smallKernels, in gemmsmall_avx2_amd64.s and gemmsmall_avx512_amd64.s.

//go:noescape
func product6x16AVX2(k int, a *float32, row, step int, b *float32, ld int, c *float32, to int, alpha float32, add bool)

//go:noescape
func product8x32AVX512(k int, a *float32, row, step int, b *float32, ld int, c *float32, to int, alpha float32, add bool)

//go:noescape
func product12x16AVX512(k int, a *float32, row, step int, b *float32, ld int, c *float32, to int, alpha float32, add bool)

func init() {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return
	}
	kernels32.narrow, kernels64.narrow = tilesAVX2()
	kernels32.wide, kernels64.wide = kernels32.narrow, kernels64.narrow
	kernels32.pack = packKernels[float32]{four: pack4AVX}
	for _, width := range []int{3, 4, 5, 6, 16} {
		kernels32.pack.rows[width] = copyRowsAVX
	}
	if cpu.X86.HasAVX512F {
		kernels32.wide, kernels64.wide = tilesAVX512()
		kernels32.pack.sixteen = pack16AVX512
		for _, width := range []int{7, 8, 9, 10, 11, 12, 13, 14, 32} {
			kernels32.pack.rows[width] = copyRowsAVX512
		}
	}
	kernels32.gemv = gemvKernels[float32]{axpy4Vector(axpy4AVX2, 16), axpyPairVector(axpyPairAVX2), dotsVector(dotAVX2, dot4AVX2, 16)}
	kernels64.gemv = gemvKernels[float64]{axpy4Vector(axpy4DoubleAVX2, 8), nil, dotsVector(dotDoubleAVX2, dot4DoubleAVX2, 8)}
	thinKernel = smallKernel{6, 16, product6x16AVX2}
	smallKernels = []smallKernel{thinKernel}
	if cpu.X86.HasAVX512F {
		thinKernel = smallKernel{12, 16, product12x16AVX512}
		smallKernels = []smallKernel{{8, 32, product8x32AVX512}, smallKernels[0]}
	}
}
