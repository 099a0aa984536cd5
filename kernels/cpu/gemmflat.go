package cpu

import "sync"

// Products of some rows, and of a b whose rows lie straight: each element of b is used once for each tile of rows, so it is read where it lies. What the tiles of
// some columns read stays in the first-level cache between them.

const (
	flatRows    = 8  // of a tile
	flatColumns = 32 // of a tile
	flatSteps   = 256
	flatMost    = 16 // rows of a product
)

// flatTile is smallTile, but that results may be added to what is there. It is nil where the processor has no instructions for it.
var flatTile func(k int, a *float32, row, step int, b *float32, ld int, c *float32, to int, alpha float32, add bool)

// isFlat reports whether multiplyFlat is the way to compute p.
func isFlat[T float](l *accessor[T], p *product[T]) bool {
	var e T
	return flatTile != nil && l.direct && sizeOf(e) == 4 && p.b.step == 1 && p.dst.step == 1 &&
		p.m > flatRows && p.m <= flatMost && p.n >= flatColumns && p.k > 0
}

// flatJob is one such product in work. It is a job over tiles of columns.
type flatJob struct{ product[float32] }

var flatJobs = sync.Pool{New: func() any { return new(flatJob) }}

func multiplyFlat[T float](p *product[T], serial bool) {
	j := flatJobs.Get().(*flatJob)
	j.product = product[float32]{p.m, p.n, p.k, float32(p.alpha), float32(p.beta), p.dst, p.a, p.b, p.c}
	tiles := panels(j.n, flatColumns)
	if serial {
		j.run(0, tiles)
	} else {
		split(tiles, max(1, elementGrain/(flatColumns*j.k)), j)
	}
	j.product = product[float32]{}
	flatJobs.Put(j)
}

func (j *flatJob) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	for ; lo < hi; lo++ {
		column := min(lo*flatColumns, j.n-flatColumns)
		if j.beta != 0 {
			j.begin(lo * flatColumns)
		}
		for from := 0; from < j.k; from += flatSteps {
			for row := 0; row < j.m; row += flatRows {
				j.tile(row, column, lo*flatColumns, from, s)
			}
		}
	}
}

// begin sets the results of a tile's columns to beta*c.
func (j *flatJob) begin(column int) {
	const size = 4
	for r := range j.m {
		line := slice[float32](j.dst.at(r, column, size).ptr, min(flatColumns, j.n-column))
		for i := range line {
			line[i] = j.beta * slice[float32](j.c.at(r, column+i, size).ptr, 1)[0]
		}
	}
}

// tile adds some steps to the results of a tile. Where it overlaps those before it, it is computed apart: its own results are those from a row and a column on.
func (j *flatJob) tile(row, column, own, from int, s *scratch) {
	const size = 4
	i, steps := min(row, j.m-flatRows), min(flatSteps, j.k-from)
	a, b := &slice[float32](j.a.at(i, from, size).ptr, 1)[0], &slice[float32](j.b.at(from, column, size).ptr, 1)[0]
	if i == row && column == own {
		out := &slice[float32](j.dst.at(i, column, size).ptr, 1)[0]
		flatTile(steps, a, size*j.a.row, size*j.a.step, b, size*j.b.row, out, size*j.dst.row, j.alpha, from > 0 || j.beta != 0)
		return
	}
	t := scratchBuffer[float32](s, 0, flatRows*flatColumns)
	flatTile(steps, a, size*j.a.row, size*j.a.step, b, size*j.b.row, &t[0], size*flatColumns, j.alpha, false)
	for r := row; r < i+flatRows; r++ {
		putRow(slice[float32](j.dst.at(r, own, size).ptr, column+flatColumns-own), t[(r-i)*flatColumns+own-column:], from > 0 || j.beta != 0)
	}
}
