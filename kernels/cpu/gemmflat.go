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
	flatTask  = 1 << 18 // multiplications that are worth another processor
)

// isFlat reports whether multiplyFlat is the way to compute p.
func isFlat[T float](l *accessor[T], p *product[T]) bool {
	return len(smallKernels) > 0 && isSingle(l) && p.b.step == 1 && p.dst.step == 1 &&
		p.m >= flatLeast && p.n >= smallKernels[0].columns && p.k > 0 &&
		(p.m <= flatMost || p.m <= flatHigh && p.b.row <= flatRow && p.n*p.k <= flatB)
}

// flatJob is one such product in work, or as many with the same a. It is a job over tiles of columns.
type flatJob struct {
	product[float32]
	kernel         *smallKernel
	number         int // of products
	nextB, nextDst int // elements from one to the next
}

var flatJobs = sync.Pool{New: func() any { return new(flatJob) }}

func multiplyFlat[T float](p *product[T], serial bool) {
	j := flatJobs.Get().(*flatJob)
	j.product = product[float32]{p.m, p.n, p.k, float32(p.alpha), float32(p.beta), p.dst, p.a, p.b, p.c}
	j.number = 1
	j.multiply(serial)
}

// multiply computes the products, and gives j back.
func (j *flatJob) multiply(serial bool) {
	j.kernel = &smallKernels[0]
	tiles := j.number * j.tiles()
	if serial {
		j.run(0, tiles)
	} else {
		split(tiles, panels(flatTask, max(1, j.m*j.kernel.columns*j.k)), j)
	}
	j.product = product[float32]{}
	flatJobs.Put(j)
}

// tiles is how many tiles the columns of a product make.
func (j *flatJob) tiles() int { return panels(j.n, j.kernel.columns) }

func (j *flatJob) run(lo, hi int) {
	const size = 4
	s := takeScratch()
	defer scratches.Put(s)
	tiles := j.tiles()
	for ; lo < hi; lo++ {
		t := flatTile{flatJob: j, own: lo % tiles * j.kernel.columns}
		t.b, t.dst = j.b.at(0, lo/tiles*j.nextB, size), j.dst.at(0, lo/tiles*j.nextDst, size)
		t.column = min(t.own, j.n-j.kernel.columns)
		if j.beta != 0 {
			t.begin()
		}
		for from := 0; from < j.k; from += flatSteps {
			for row := 0; row < j.m; row += j.kernel.rows {
				t.add(row, from, s)
			}
		}
	}
}

// flatTile is the tiles of some columns, in work.
type flatTile struct {
	*flatJob
	b, dst      matrix
	column, own int // the first column, and the first of its own, where it overlaps the tile before
}

// begin sets the results to beta*c.
func (t *flatTile) begin() {
	const size = 4
	for r := range t.m {
		line := slice[float32](t.dst.at(r, t.own, size).ptr, min(t.kernel.columns, t.n-t.own))
		if t.c.step == 0 {
			fillSlice(line, t.beta*slice[float32](t.c.at(r, 0, size).ptr, 1)[0])
			continue
		}
		for i := range line {
			line[i] = t.beta * slice[float32](t.c.at(r, t.own+i, size).ptr, 1)[0]
		}
	}
}

// add adds some steps to the results of rows. Where they overlap others, they are computed apart.
func (t *flatTile) add(row, from int, s *scratch) {
	const size = 4
	k := t.kernel
	i, steps, add := min(row, t.m-k.rows), min(flatSteps, t.k-from), from > 0 || t.beta != 0
	a, b := &slice[float32](t.a.at(i, from, size).ptr, 1)[0], &slice[float32](t.b.at(from, t.column, size).ptr, 1)[0]
	if i == row && t.column == t.own {
		out := &slice[float32](t.dst.at(i, t.column, size).ptr, 1)[0]
		k.tile(steps, a, size*t.a.row, size*t.a.step, b, size*t.b.row, out, size*t.dst.row, t.alpha, add)
		return
	}
	sums := scratchBuffer[float32](s, 0, k.rows*k.columns)
	k.tile(steps, a, size*t.a.row, size*t.a.step, b, size*t.b.row, &sums[0], size*k.columns, t.alpha, false)
	for r := row; r < i+k.rows; r++ {
		putRow(slice[float32](t.dst.at(r, t.own, size).ptr, t.column+k.columns-t.own), sums[(r-i)*k.columns+t.own-t.column:], add)
	}
}
