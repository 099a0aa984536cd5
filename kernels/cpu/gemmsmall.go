package cpu

// Small products. Packing costs as much as multiplying where each element is used few times, so they are computed on operands as they lie, in
// tiles. The last tiles overlap those before them, and compute some results again, with the same bits.

const (
	smallSteps   = blockK  // of a sum: those of one slice of the general product, which has the same order of additions
	smallProduct = 1 << 19 // multiplications
)

// smallKernel computes tiles of so many rows and columns of operands as they lie.
type smallKernel struct {
	rows, columns int

	// tile computes a tile of alpha*a*b, or adds it to c. Rows of a are row bytes apart, its elements step bytes, rows of b and c ld and to bytes.
	tile func(k int, a *float32, row, step int, b *float32, ld int, c *float32, to int, alpha float32, add bool)
}

// smallKernels are those of the processor, the fastest first; none where it has no instructions for them.
var smallKernels []smallKernel

// smallKernelOf is the kernel for p if multiplySmall is the way to compute it, or nil.
func smallKernelOf[T float](l *accessor[T], p *product[T]) *smallKernel {
	if !isSingle(l) || p.beta != 0 || p.b.step != 1 || p.dst.step != 1 || p.k == 0 || p.k > smallSteps || p.m*p.n*p.k > smallProduct {
		return nil
	}
	for i := range smallKernels {
		if k := &smallKernels[i]; p.m >= k.rows && p.n >= k.columns {
			return k
		}
	}
	return nil
}

// isSingle reports whether elements are float32.
func isSingle[T float](l *accessor[T]) bool {
	var e T
	return l.direct && sizeOf(e) == 4
}

func multiplySmall[T float](k *smallKernel, p *product[T]) {
	const size = 4
	at := func(m matrix, i, j int) *float32 { return &slice[float32](m.at(i, j, size).ptr, 1)[0] }
	for column := 0; column < p.n; column += k.columns {
		j := min(column, p.n-k.columns)
		b := at(p.b, 0, j)
		for row := 0; row < p.m; row += k.rows {
			i := min(row, p.m-k.rows)
			k.tile(p.k, at(p.a, i, 0), size*p.a.row, size*p.a.step, b, size*p.b.row, at(p.dst, i, j), size*p.dst.row, float32(p.alpha), false)
		}
	}
}
