package cpu

import "sync"

// Products of some rows, and of a b whose rows lie straight: each element of b is used once for each tile of rows, so it is read where it lies. What the tiles of
// some columns read stays in the first-level cache between them.

const (
	flatSteps = 256
	flatLeast = 9   // rows of a product
	flatMost  = 16  // rows of any product
	flatHigh  = 128 // rows of one whose b is small, and has rows of flatRow elements at most: longer ones meet in few sets of the first-level cache
	flatRow   = 512
	flatB     = 1 << 17 // elements of a small b
)

// isFlat reports whether multiplyFlat is the way to compute p.
func isFlat[T float](l *accessor[T], p *product[T]) bool {
	return len(smallKernels) > 0 && isSingle(l) && p.b.step == 1 && p.dst.step == 1 &&
		p.m >= flatLeast && p.n >= smallKernels[0].columns && p.k > 0 &&
		(p.m <= flatMost || p.m <= flatHigh && p.b.row <= flatRow && p.n*p.k <= flatB)
}

// flatJob is one such product in work. It is a job over tiles of columns.
type flatJob struct {
	product[float32]
	kernel *smallKernel
}

var flatJobs = sync.Pool{New: func() any { return new(flatJob) }}

func multiplyFlat[T float](p *product[T], serial bool) {
	j := flatJobs.Get().(*flatJob)
	j.product = product[float32]{p.m, p.n, p.k, float32(p.alpha), float32(p.beta), p.dst, p.a, p.b, p.c}
	j.kernel = &smallKernels[0]
	tiles := panels(j.n, j.kernel.columns)
	if serial {
		j.run(0, tiles)
	} else {
		split(tiles, max(1, elementGrain/(j.kernel.columns*j.k)), j)
	}
	j.product = product[float32]{}
	flatJobs.Put(j)
}

func (j *flatJob) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	for ; lo < hi; lo++ {
		own := lo * j.kernel.columns
		column := min(own, j.n-j.kernel.columns)
		if j.beta != 0 {
			j.begin(own)
		}
		for from := 0; from < j.k; from += flatSteps {
			for row := 0; row < j.m; row += j.kernel.rows {
				j.tile(row, column, own, from, s)
			}
		}
	}
}

// begin sets the results of a tile's columns to beta*c.
func (j *flatJob) begin(column int) {
	const size = 4
	for r := range j.m {
		line := slice[float32](j.dst.at(r, column, size).ptr, min(j.kernel.columns, j.n-column))
		for i := range line {
			line[i] = j.beta * slice[float32](j.c.at(r, column+i, size).ptr, 1)[0]
		}
	}
}

// tile adds some steps to the results of a tile. Where it overlaps those before it, it is computed apart: its own results are those from a row and a column on.
func (j *flatJob) tile(row, column, own, from int, s *scratch) {
	const size = 4
	k := j.kernel
	i, steps, add := min(row, j.m-k.rows), min(flatSteps, j.k-from), from > 0 || j.beta != 0
	a, b := &slice[float32](j.a.at(i, from, size).ptr, 1)[0], &slice[float32](j.b.at(from, column, size).ptr, 1)[0]
	if i == row && column == own {
		out := &slice[float32](j.dst.at(i, column, size).ptr, 1)[0]
		k.tile(steps, a, size*j.a.row, size*j.a.step, b, size*j.b.row, out, size*j.dst.row, j.alpha, add)
		return
	}
	t := scratchBuffer[float32](s, 0, k.rows*k.columns)
	k.tile(steps, a, size*j.a.row, size*j.a.step, b, size*j.b.row, &t[0], size*k.columns, j.alpha, false)
	for r := row; r < i+k.rows; r++ {
		putRow(slice[float32](j.dst.at(r, own, size).ptr, column+k.columns-own), t[(r-i)*k.columns+own-column:], add)
	}
}
