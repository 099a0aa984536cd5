package cpu

// Small products. Packing costs as much as multiplying where each element is used few times, so they are computed on operands as they lie, in
// tiles. The last tiles overlap those before them, and compute some results again, with the same bits.

const (
	smallRows    = 6  // of a tile
	smallColumns = 16 // of a tile

	smallSteps   = blockK  // of a sum: those of one slice of the general product, which has the same order of additions
	smallProduct = 1 << 19 // multiplications
)

// smallTile computes a tile of alpha*a*b. Rows of a are row bytes apart, its elements step bytes, rows of b and c ld and to bytes. It is nil
// where the processor has no instructions for it.
var smallTile func(k int, a *float32, row, step int, b *float32, ld int, c *float32, to int, alpha float32)

// isSmall reports whether multiplySmall is the way to compute p.
func isSmall[T float](l *accessor[T], p *product[T]) bool {
	var e T
	return smallTile != nil && l.direct && sizeOf(e) == 4 && p.beta == 0 && p.b.step == 1 && p.dst.step == 1 &&
		p.m >= smallRows && p.n >= smallColumns && p.k > 0 && p.k <= smallSteps && p.m*p.n*p.k <= smallProduct
}

func multiplySmall[T float](p *product[T]) {
	const size = 4
	at := func(m matrix, i, j int) *float32 { return &slice[float32](m.at(i, j, size).ptr, 1)[0] }
	for column := 0; column < p.n; column += smallColumns {
		j := min(column, p.n-smallColumns)
		b := at(p.b, 0, j)
		for row := 0; row < p.m; row += smallRows {
			i := min(row, p.m-smallRows)
			smallTile(p.k, at(p.a, i, 0), size*p.a.row, size*p.a.step, b, size*p.b.row, at(p.dst, i, j), size*p.dst.row, float32(p.alpha))
		}
	}
}
