package cpu

// Small products. Packing costs as much as multiplying where each element is used few times, so they are computed on operands as they lie, in
// tiles. The last tiles overlap those before them, and compute some results again, with the same bits.

const (
	smallSteps   = blockK  // of a sum: those of one slice of the general product, which has the same order of additions
	smallProduct = 1 << 19 // multiplications
)

// smallKernel computes tiles of so many rows and columns.
type smallKernel struct {
	rows, columns int
	tile          smallTile
}

// smallTile computes a tile of alpha*a*b. Rows of a are row bytes apart, its elements step bytes, rows of b and c ld and to bytes.
type smallTile func(k int, a *float32, row, step int, b *float32, ld int, c *float32, to int, alpha float32)

// smallKernels are those of the processor, the fastest first.
var smallKernels []smallKernel

// smallKernelOf is the kernel for p if multiplySmall is the way to compute it.
func smallKernelOf[T float](l *accessor[T], p *product[T]) (k smallKernel, ok bool) {
	var e T
	if !l.direct || sizeOf(e) != 4 || p.beta != 0 || p.b.step != 1 || p.dst.step != 1 || p.k == 0 || p.k > smallSteps || p.m*p.n*p.k > smallProduct {
		return k, false
	}
	for _, k := range smallKernels {
		if p.m >= k.rows && p.n >= k.columns {
			return k, true
		}
	}
	return k, false
}

func multiplySmall[T float](k smallKernel, p *product[T]) {
	const size = 4
	at := func(m matrix, i, j int) *float32 { return &slice[float32](m.at(i, j, size).ptr, 1)[0] }
	for column := 0; column < p.n; column += k.columns {
		j := min(column, p.n-k.columns)
		b := at(p.b, 0, j)
		for row := 0; row < p.m; row += k.rows {
			i := min(row, p.m-k.rows)
			k.tile(p.k, at(p.a, i, 0), size*p.a.row, size*p.a.step, b, size*p.b.row, at(p.dst, i, j), size*p.dst.row, float32(p.alpha))
		}
	}
}
