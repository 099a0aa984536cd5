package cpu

// matMulKernels are the inner loops of matrix products on this processor.
type matMulKernels[T float] struct {
	wide, narrow microkernel[T] // of many, and of few results; both may be the same
	gemv         gemvKernels[T]
	pack         packKernels[T]
}

// microkernel multiplies a panel of mr rows with a panel of nr columns.
type microkernel[T float] struct {
	name   string
	mr, nr int

	// tile computes c = alpha*a*b, or c += alpha*a*b, for a tile of mr x nr results in rows that are ld apart:
	//
	//	for i in 0..mr-1, j in 0..nr-1
	//	    sum = 0
	//	    for l in 0..k-1: sum += a[l*mr+i] * b[l*nr+j]
	//	    c[i*ld+j] = alpha*sum, plus c[i*ld+j] before if add
	//
	// k is at least 1. The additions to sum may be fused with the products; the last two steps are not.
	tile tileLoop[T]

	fewer []tileLoop[T] // for panels of mr-1 rows of a, mr-2, and so on; none if all panels have mr
}

// tileLoop is the loop of a micro-kernel.
type tileLoop[T float] func(k int, a, b, c *T, ld int, alpha T, add bool)

// of is the loop for panels of some rows.
func (m *microkernel[T]) of(rows int) tileLoop[T] {
	if rows == m.mr {
		return m.tile
	}
	return m.fewer[m.mr-rows-1]
}

// cut is how count rows of the left operand are cut into panels.
func (m *microkernel[T]) cut(count int) cut {
	if len(m.fewer) == 0 {
		return cut{count: count, width: m.mr}
	}
	return cutEvenly(count, m.mr, m.mr-len(m.fewer))
}

// gemvKernels are the loops of products of few rows, specified by the functions of the same names in gemv.go.
type gemvKernels[T float] struct {
	axpy4 func(y, a, x0, x1, x2, x3 []T)
	pair  func(y0, y1, a0, a1, x0, x1, x2, x3 []T) // axpy4 for y0 and for y1; nil where the processor has no instructions for it
	dots  func(sums *[gemvGroup]T, count int, a []T, ld int, b []T)
}

// The kernels of plain Go. The init function of gemm_amd64.go may replace them.
var (
	kernels32 = goKernels[float32]()
	kernels64 = goKernels[float64]()
)

func goKernels[T float]() matMulKernels[T] {
	m := microkernel[T]{name: "4x4 Go", mr: 4, nr: 4, tile: tileGo[T]}
	return matMulKernels[T]{wide: m, narrow: m, gemv: gemvKernels[T]{axpy4[T], nil, dots[T]}}
}

func matMulKernelsOf[T float]() *matMulKernels[T] {
	if k, ok := any(&kernels32).(*matMulKernels[T]); ok {
		return k
	}
	return any(&kernels64).(*matMulKernels[T])
}

// choose gives the kernel for m x n products: the wide one, which is twice as fast on some processors and as fast on others, unless it computes half as many results
// more, beyond the ends.
func (k *matMulKernels[T]) choose(m, n int) *microkernel[T] {
	cost := func(k *microkernel[T]) int {
		rows := k.cut(m)
		return rows.rows() * panels(n, k.nr) * k.nr
	}
	if 2*cost(&k.wide) > 3*cost(&k.narrow) {
		return &k.narrow
	}
	return &k.wide
}

// tileGo is the portable micro-kernel, of 4x4 results.
func tileGo[T float](k int, a, b, c *T, ld int, alpha T, add bool) {
	as, bs := elementsAt(a, 4*k), elementsAt(b, 4*k)
	var c00, c01, c02, c03, c10, c11, c12, c13, c20, c21, c22, c23, c30, c31, c32, c33 T
	for l := 0; l+4 <= len(as) && l+4 <= len(bs); l += 4 {
		a0, a1, a2, a3 := as[l], as[l+1], as[l+2], as[l+3]
		b0, b1, b2, b3 := bs[l], bs[l+1], bs[l+2], bs[l+3]
		c00 += a0 * b0
		c01 += a0 * b1
		c02 += a0 * b2
		c03 += a0 * b3
		c10 += a1 * b0
		c11 += a1 * b1
		c12 += a1 * b2
		c13 += a1 * b3
		c20 += a2 * b0
		c21 += a2 * b1
		c22 += a2 * b2
		c23 += a2 * b3
		c30 += a3 * b0
		c31 += a3 * b1
		c32 += a3 * b2
		c33 += a3 * b3
	}
	sums := [16]T{c00, c01, c02, c03, c10, c11, c12, c13, c20, c21, c22, c23, c30, c31, c32, c33}
	out := elementsAt(c, 3*ld+4)
	for i, v := range sums {
		at := i/4*ld + i%4
		v *= alpha
		if add {
			v += out[at]
		}
		out[at] = v
	}
}
