package cpu

import "golang.org/x/sys/cpu"

// The micro-kernels of matrix products on arm64, in gemm_neon_arm64.s: one instruction multiplies a vector of columns with one element of a row.

//go:noescape
func tile6x16NEON(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile5x16NEON(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile4x16NEON(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile3x16NEON(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile6x8NEON(k int, a, b, c *float64, ld int, alpha float64, add bool)

//go:noescape
func tile5x8NEON(k int, a, b, c *float64, ld int, alpha float64, add bool)

//go:noescape
func tile4x8NEON(k int, a, b, c *float64, ld int, alpha float64, add bool)

//go:noescape
func tile3x8NEON(k int, a, b, c *float64, ld int, alpha float64, add bool)

//go:noescape
func tile8x16NEON(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func tile8x24NEON(k int, a, b, c *float32, ld int, alpha float32, add bool)

//go:noescape
func product6x16NEON(k int, a *float32, row, step int, b *float32, ld int, c *float32, to int, alpha float32, add bool)

func init() {
	if !cpu.ARM64.HasASIMD {
		return
	}
	kernels32.wide = microkernel[float32]{"6x16 NEON", 6, 16, tile6x16NEON, []tileLoop[float32]{tile5x16NEON, tile4x16NEON, tile3x16NEON}}
	kernels64.wide = microkernel[float64]{"6x8 NEON", 6, 8, tile6x8NEON, []tileLoop[float64]{tile5x8NEON, tile4x8NEON, tile3x8NEON}}
	kernels32.narrow, kernels64.narrow = kernels32.wide, kernels64.wide
	kernels32.pack = packKernels[float32]{four: pack4NEON}
	for _, width := range []int{3, 4, 5, 6, 16} {
		kernels32.pack.rows[width] = copyRowsNEON
	}
	kernels32.gemv = gemvKernels[float32]{axpy4Vector(axpy4NEON, 16), axpyPairVector(axpyPairNEON), dotsVector(dotNEON, dot4NEON, 16)}
	kernels64.gemv = gemvKernels[float64]{axpy4Vector(axpy4DoubleNEON, 8), nil, dotsVector(dotDoubleNEON, dot4DoubleNEON, 8)}
	thinKernel = smallKernel{6, 16, product6x16NEON}
	smallKernels = []smallKernel{thinKernel}
}
