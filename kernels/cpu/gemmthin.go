package cpu

import "sync"

// Products of few columns, and of many rows of a that lie straight: each element of a is used a few times only, so it is read where it lies, and only b is packed.

const (
	thinColumns = 16 // of a tile, and of a product at most
	thinLeast   = 48 // rows of a product
)

// thinKernel is the kernel for tiles of thinColumns; it has no tile where the processor has no instructions for it.
var thinKernel smallKernel

// isThin reports whether multiplyThin is the way to compute p.
func isThin[T float](l *accessor[T], p *product[T]) bool {
	return thinKernel.tile != nil && isSingle(l) && (p.dst.step == 1 || p.dst.row == 1) && p.a.step == 1 &&
		p.n <= thinColumns && p.n > gemvGroup && p.m >= thinLeast && p.k > 0
}

// thinJob is one such product in work. It is a job over tiles.
type thinJob struct {
	product[float32]
	packed []float32
}

var thinJobs = sync.Pool{New: func() any { return new(thinJob) }}

func multiplyThin[T float](l *accessor[T], p *product[T], serial bool) {
	j := thinJobs.Get().(*thinJob)
	j.product = product[float32]{p.m, p.n, p.k, float32(p.alpha), float32(p.beta), p.dst, p.a, p.b, p.c}
	if j.b.step != 1 || j.n < thinColumns {
		j.pack(any(l).(*accessor[float32]))
	}
	tiles := panels(j.m, thinKernel.rows)
	if serial {
		j.run(0, tiles)
	} else {
		split(tiles, max(1, elementGrain/(thinKernel.rows*j.k)), j)
	}
	j.product = product[float32]{}
	thinJobs.Put(j)
}

// pack puts the columns of b side by side.
func (j *thinJob) pack(l *accessor[float32]) {
	s := takeScratch()
	defer scratches.Put(s)
	j.packed = sized(j.packed, thinColumns*j.k)
	columns, b := cut{count: j.n, width: thinColumns}, j.b.transposed()
	for job := range packJobs(&b, &columns, j.k) {
		pack(l, j.packed, b, job, &columns, j.k, &kernels32.pack, s)
	}
	j.b = matrix{addressOf(j.packed), thinColumns, 1}
}

func (j *thinJob) run(lo, hi int) {
	const size = 4
	s := takeScratch()
	defer scratches.Put(s)
	rows := thinKernel.rows
	for ; lo < hi; lo++ {
		own := lo * rows
		i := min(own, j.m-rows)
		if i == own && j.dst.step == 1 && j.n == thinColumns && j.beta == 0 {
			j.tile(i, &slice[float32](j.dst.at(i, 0, size).ptr, 1)[0], size*j.dst.row)
			continue
		}
		t := scratchBuffer[float32](s, 0, rows*thinColumns)
		j.tile(i, &t[0], size*thinColumns)
		if j.dst.step == 1 {
			j.put(t[(own-i)*thinColumns:], own)
		} else {
			j.putTurned(t[(own-i)*thinColumns:], own, s)
		}
	}
}

// tile computes the tile of rows from i on.
func (j *thinJob) tile(i int, out *float32, to int) {
	const size = 4
	a, b := &slice[float32](j.a.at(i, 0, size).ptr, 1)[0], &slice[float32](j.b.ptr, 1)[0]
	thinKernel.tile(j.k, a, size*j.a.row, size, b, size*j.b.row, out, to, j.alpha, false)
}

// put writes the rows of a tile from one on, and adds beta*c.
func (j *thinJob) put(t []float32, row int) {
	const size = 4
	for ; len(t) > 0; row++ {
		line := t[:j.n]
		if j.beta != 0 {
			addTimes(line, j.beta, j.c.at(row, 0, size), j.c.step)
		}
		copy(slice[float32](j.dst.at(row, 0, size).ptr, j.n), line)
		t = t[thinColumns:]
	}
}

// putTurned is put for results whose columns lie straight.
func (j *thinJob) putTurned(t []float32, row int, s *scratch) {
	const size = 4
	rows := len(t) / thinColumns
	turned := scratchBuffer[float32](s, 1, thinColumns*rows)
	packRows(turned, matrix{addressOf(t), thinColumns, 1}, rows, rows, thinColumns, size, kernels32.pack.four)
	for c := range j.n {
		line := turned[c*rows:][:rows]
		if j.beta != 0 {
			addTimes(line, j.beta, j.c.at(row, c, size), j.c.row)
		}
		copy(slice[float32](j.dst.at(row, c, size).ptr, rows), line)
	}
}

// addTimes adds beta times the elements from c on, which are step apart.
func addTimes(line []float32, beta float32, c matrix, step int) {
	if step == 1 {
		for i, v := range slice[float32](c.ptr, len(line)) {
			line[i] += beta * v
		}
		return
	}
	for i := range line {
		line[i] += beta * slice[float32](offset(c.ptr, i*step, 4), 1)[0]
	}
}
