package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
)

// Products of few columns, and of many rows of a that lie straight: each element of a is used a few times only, so it is read where it lies, and only b is packed.

const (
	thinRows    = 12 // of a tile
	thinColumns = 16 // of a tile, and of a product at most
	thinLeast   = 48 // rows of a product
)

// thinTile computes a tile as smallTile does, but for the columns that mask leaves out. It is nil where the processor has no instructions for it.
var thinTile func(k int, a *float32, row, step int, b *float32, ld int, c *float32, to int, alpha float32, mask int)

// isThin reports whether multiplyThin is the way to compute p.
func isThin[T float](l *accessor[T], p *product[T]) bool {
	var e T
	return thinTile != nil && l.direct && sizeOf(e) == 4 && (p.dst.step == 1 || p.dst.row == 1) && p.a.step == 1 &&
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
	if j.b.step != 1 {
		j.pack(any(l).(*accessor[float32]))
	}
	tiles := panels(j.m, thinRows)
	if serial {
		j.run(0, tiles)
	} else {
		split(tiles, max(1, elementGrain/(thinRows*j.k)), j)
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
	for ; lo < hi; lo++ {
		own := lo * thinRows
		i := min(own, j.m-thinRows)
		if i == own && j.dst.step == 1 && j.beta == 0 {
			j.tile(i, &slice[float32](j.dst.at(i, 0, size).ptr, 1)[0], size*j.dst.row)
			continue
		}
		t := scratchBuffer[float32](s, 0, thinRows*thinColumns)
		j.tile(i, &t[0], size*thinColumns)
		j.put(t[(own-i)*thinColumns:], own)
	}
}

// tile computes the tile of rows from i on.
func (j *thinJob) tile(i int, out *float32, to int) {
	const size = 4
	a, b := &slice[float32](j.a.at(i, 0, size).ptr, 1)[0], &slice[float32](j.b.ptr, 1)[0]
	thinTile(j.k, a, size*j.a.row, size, b, size*j.b.row, out, to, j.alpha, 1<<j.n-1)
}

// put writes the rows of a tile from one on, and adds beta*c.
func (j *thinJob) put(t []float32, row int) {
	const size = 4
	rows := len(t) / thinColumns
	if j.dst.step == 1 {
		for r := range rows {
			line := t[r*thinColumns:][:j.n]
			if j.beta != 0 {
				j.addTo(line, j.c.at(row+r, 0, size).ptr, j.c.step)
			}
			copy(slice[float32](j.dst.at(row+r, 0, size).ptr, j.n), line)
		}
		return
	}
	var line [thinRows]float32
	for c := range j.n {
		for r := range rows {
			line[r] = t[r*thinColumns+c]
		}
		if j.beta != 0 {
			j.addTo(line[:rows], j.c.at(row, c, size).ptr, j.c.row)
		}
		copy(slice[float32](j.dst.at(row, c, size).ptr, rows), line[:])
	}
}

// addTo adds beta times elements of c, which are step apart.
func (p *product[T]) addTo(line []T, c device.Ptr, step int) {
	var e T
	for i := range line {
		line[i] += p.beta * slice[T](offset(c, i*step, sizeOf(e)), 1)[0]
	}
}
