package cpu

import "sync"

// Products of few rows. Packing would cost more than it saves, because each element of b is used only a few times: they are
// computed on b as it lies. Where rows of b lie side by side, rows are scaled and added (axpy); where columns do, results are
// dot products.

const (
	maxSkinnyRows = 16 // of a: with more, packing is faster
	gemvGroup     = 4  // rows of a whose dot products are computed together
	gemvRows      = 8  // rows of a that are computed on each four rows of b, which are read so many times less often

	gemvColumns = chunk / 2 // of a piece of up to gemvGroup rows, half as many of more: they stay in the first-level cache with four rows of b
)

// isSkinny reports whether multiplySkinny is the way to compute p.
func isSkinny[T float](p *product[T]) bool {
	return p.m <= maxSkinnyRows && (p.b.step == 1 || p.b.row == 1)
}

// gemvJob is one product of few rows in work. It is a job over pieces of columns.
type gemvJob[T float] struct {
	access accessor[T]
	product[T]
	kernels *gemvKernels[T]
	a       []T // rows of a

	group, columns int // rows and columns that are computed together
}

var gemvPools = struct{ narrow, wide sync.Pool }{
	sync.Pool{New: func() any { return new(gemvJob[float32]) }},
	sync.Pool{New: func() any { return new(gemvJob[float64]) }},
}

func multiplySkinny[T float](l accessor[T], p *product[T], serial bool) {
	pool := &gemvPools.narrow
	if l.size == 8 {
		pool = &gemvPools.wide
	}
	j := pool.Get().(*gemvJob[T])
	j.access, j.product, j.kernels = l, *p, &matMulKernelsOf[T]().gemv
	j.a = sized(j.a, p.m*p.k)
	for i := range p.m {
		l.load(j.a[i*p.k:][:p.k], offset(p.a.ptr, i*p.a.row, l.size), p.a.step)
	}
	j.group, j.columns = gemvGroup, gemvColumns
	if p.b.step == 1 && p.m > gemvGroup {
		j.group, j.columns = gemvRows, gemvColumns/2
	}
	pieces := panels(p.n, j.columns)
	if serial {
		j.run(0, pieces)
	} else {
		split(pieces, max(1, elementGrain/(j.columns*p.k)), j)
	}
	pool.Put(j)
}

func (j *gemvJob[T]) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	for ; lo < hi; lo++ {
		c := lo * j.columns
		n := min(j.columns, j.n-c)
		for i := 0; i < j.m; i += j.group {
			j.piece(i, min(j.group, j.m-i), c, n, s)
		}
	}
}

// piece computes rows i..i+m-1 and columns c..c+n-1.
func (j *gemvJob[T]) piece(i, m, c, n int, s *scratch) {
	var sums [gemvRows][]T
	for r := range m { // in the lower halves of the first four buffers
		part := r / gemvGroup * j.columns
		sums[r] = scratchBuffer[T](s, r%gemvGroup, part+n)[part:]
	}
	if j.b.step == 1 {
		j.addRows(sums[:m], i, c, n, s)
	} else {
		j.dotColumns(sums[:m], i, c, n, s)
	}
	for r, sum := range sums[:m] {
		j.scale(sum)
		if j.beta != 0 {
			// The second half of the buffer is free: gemvColumns is at most half a chunk.
			add := scratchBuffer[T](s, r%gemvGroup, chunk)[chunk-n:]
			j.access.load(add, offset(j.c.ptr, (i+r)*j.c.row+c*j.c.step, j.access.size), j.c.step)
			for x := range sum {
				sum[x] += T(j.beta * add[x])
			}
		}
		j.access.store(offset(j.dst.ptr, (i+r)*j.dst.row+c*j.dst.step, j.access.size), j.dst.step, sum)
	}
}

// scale multiplies sums by alpha: elements times alpha may overflow where the sums do not.
func (j *gemvJob[T]) scale(sum []T) {
	if j.alpha == 1 {
		return
	}
	for x := range sum {
		sum[x] *= j.alpha
	}
}

// along gives n elements of b from row l and column c on, along rows or columns, converted into the upper half of buffer k if need
// be: the lower halves hold sums.
func (j *gemvJob[T]) along(step, l, c, n, k int, s *scratch) []T {
	p := offset(j.b.ptr, l*j.b.row+c*j.b.step, j.access.size)
	if j.access.direct {
		return slice[T](p, n)
	}
	buf := scratchBuffer[T](s, k, chunk)[gemvColumns:][:n]
	j.access.load(buf, p, step)
	return buf
}

// addRows takes four rows of b at a time, for all rows of a, while they are in the cache.
func (j *gemvJob[T]) addRows(sums [][]T, i, c, n int, s *scratch) {
	for _, sum := range sums {
		clear(sum)
	}
	for l := 0; l < j.k; l += 4 {
		var b [4][]T
		steps := min(4, j.k-l)
		for x := range steps {
			b[x] = j.along(j.b.step, l+x, c, n, x, s)
		}
		r := 0
		for pair := j.kernels.pair; pair != nil && steps == 4 && r+2 <= len(sums); r += 2 {
			a := j.a[(i+r)*j.k+l:]
			pair(sums[r], sums[r+1], a, a[j.k:], b[0], b[1], b[2], b[3])
		}
		for ; r < len(sums); r++ {
			a := j.a[(i+r)*j.k+l:][:steps]
			if steps == 4 {
				j.kernels.axpy4(sums[r], a, b[0], b[1], b[2], b[3])
				continue
			}
			for x := range steps {
				axpy(sums[r], a[x], b[x])
			}
		}
	}
}

// dotColumns takes a column of b at a time, for all rows of a. Columns to be converted are taken in pieces.
func (j *gemvJob[T]) dotColumns(sums [][]T, i, c, n int, s *scratch) {
	out := (*[gemvGroup]T)(scratchBuffer[T](s, 3, chunk)[gemvColumns:])
	length := j.k
	if !j.access.direct {
		length = min(j.k, gemvColumns)
	}
	for x := range n {
		for l := 0; l < j.k; l += length {
			b := j.along(j.b.row, l, c+x, min(length, j.k-l), 0, s)
			j.kernels.dots(out, len(sums), j.a[i*j.k+l:], j.k, b)
			for r, sum := range sums {
				if l == 0 {
					sum[x] = out[r]
				} else {
					sum[x] += out[r]
				}
			}
		}
	}
}

// axpy is y += a*x.
func axpy[T float](y []T, a T, x []T) {
	x = x[:len(y)]
	for i := range y {
		y[i] += T(a * x[i])
	}
}

// axpy4 is y += a[0]*x0 + ... + a[3]*x3, in this order.
func axpy4[T float](y, a, x0, x1, x2, x3 []T) {
	x0, x1, x2, x3 = x0[:len(y)], x1[:len(y)], x2[:len(y)], x3[:len(y)]
	a0, a1, a2, a3 := a[0], a[1], a[2], a[3]
	for i := range y {
		y[i] = y[i] + a0*x0[i] + a1*x1[i] + a2*x2[i] + a3*x3[i]
	}
}

// dots sets sums[r] to the dot product of row r of a and b, for count rows, which are ld apart.
func dots[T float](sums *[gemvGroup]T, count int, a []T, ld int, b []T) {
	for r := range count {
		sums[r] = dot(a[r*ld:][:len(b)], b)
	}
}

// dot is the sum of a[i]*b[i], in eight sums.
func dot[T float](a, b []T) T {
	var s [8]T
	b = b[:len(a)]
	for ; len(a) >= 8; a, b = a[8:], b[8:] {
		s[0] += a[0] * b[0]
		s[1] += a[1] * b[1]
		s[2] += a[2] * b[2]
		s[3] += a[3] * b[3]
		s[4] += a[4] * b[4]
		s[5] += a[5] * b[5]
		s[6] += a[6] * b[6]
		s[7] += a[7] * b[7]
	}
	for i := range a {
		s[0] += a[i] * b[i]
	}
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}
