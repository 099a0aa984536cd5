package cpu

import (
	"math"
)

// Attention of few queries, as in decoding: one query of each head over all the keys of a cache. Packed panels would be read once
// and then thrown away, so keys and values are used as they lie: scores are dot products, results sums of scaled rows. All heads of
// queries that share keys take a block of them in turn, while it is in the cache.

const (
	// fewQueries is up to how many queries of a head are computed like this: with more, packing pays.
	fewQueries = 16

	fewKeys  = 256 // keys of a block, a multiple of fewLanes and of 4, for the random numbers: 64 KiB of rows of 64 elements
	fewRows  = 16  // about the rows, which are queries of heads that share keys, of a piece of work
	fewLanes = 8   // maxima and sums of a row that run side by side: the width that the loops of columns.go have vectors for
)

// rowLoops are loops over rows that are ld elements apart, where this processor has such for a type. Those of plain Go are the loops of
// products with few rows.
type rowLoops[T float] struct {
	// dots sets each of s to scale times the product of q and a row.
	dots func(n, depth int, q, rows *T, ld int, scale T, s *T)
	// sums adds to acc each row times its factor p, in the rows' order.
	sums func(n, width int, p, rows *T, ld int, acc *T)
}

var (
	rows32 rowLoops[float32] // the init function of attention_amd64.go may set them
	rows64 rowLoops[float64]
)

func rowLoopsOf[T float]() *rowLoops[T] {
	if r, ok := any(&rows32).(*rowLoops[T]); ok {
		return r
	}
	return any(&rows64).(*rowLoops[T])
}

// attentionFew is a call of Attention with few queries in work. It is a job over chunks of the rows that share a head of k and v.
type attentionFew[T float] attentionForward[T]

// cut chooses chunks by shapes alone.
func (j *attentionFew[T]) cut() {
	rows := j.group * j.queries
	j.chunk = max(1, min(rows, fewRows))
	j.chunks = panels(rows, j.chunk)
}

func (j *attentionFew[T]) run(lo, hi int) {
	pool := attentionPool[T]()
	w := pool.Get().(*attentionMemory[T])
	shared := j.heads / j.group
	for ; lo < hi; lo++ {
		head, first := lo/j.chunks, lo%j.chunks*j.chunk
		c := fewChunk{batch: head / shared, head: head % shared, first: first, n: min(j.chunk, j.group*j.queries-first)}
		j.rows(&c, w)
	}
	pool.Put(w)
}

// fewChunk is n rows from first on of those that share a head of k and v.
type fewChunk struct{ batch, head, first, n int }

// place is which head of q a row of a chunk is of, and which query.
func (j *attentionFew[T]) place(c *fewChunk, row int) (head, query int) {
	row += c.first
	return c.head*j.group + row/j.queries, row % j.queries
}

// rows computes the results of a chunk.
func (j *attentionFew[T]) rows(c *fewChunk, w *attentionMemory[T]) {
	w.begin(c.n, c.n*j.width)
	w.sum, w.safe = sized(w.sum, c.n*fewLanes), sized(w.safe, fewLanes)
	clear(w.sum)
	w.q, w.s = sized(w.q, c.n*j.depth), sized(w.s, fewKeys)
	for row := range c.n {
		head, query := j.place(c, row)
		m := j.q.at(c.batch, head, query, j.access.size)
		j.access.load(w.q[row*j.depth:][:j.depth], m.ptr, m.step)
	}
	seen := j.seenBy(c)
	for key := 0; key < seen; key += fewKeys {
		n := min(fewKeys, seen-key)
		var k, v fewMatrix[T]
		w.k, k = j.lying(w.k, &j.k, c, key, n, j.depth)
		w.v, v = j.lying(w.v, &j.v, c, key, n, j.width)
		for row := range c.n {
			head, query := j.place(c, row)
			b := block{batch: c.batch, head: head, query: query, m: 1, key: key, n: n, k: 1}
			if !j.causal || key <= query {
				j.step(&b, row, k, v, w)
			}
		}
	}
	for row := range c.n {
		j.finish(c, row, w)
	}
}

// seenBy is how many keys at least one row of a chunk sees.
func (j *attentionFew[T]) seenBy(c *fewChunk) int {
	most := 0
	for row := range c.n {
		_, query := j.place(c, row)
		most = max(most, (*attentionForward[T])(j).visible(query+1))
	}
	return most
}

// fewMatrix is rows of keys or values, side by side elements, in rows that are ld apart.
type fewMatrix[T float] struct {
	elements []T
	ld       int
}

func (m *fewMatrix[T]) row(i, width int) []T { return m.elements[i*m.ld:][:width] }

// lying gives n rows of k or v as they lie, or converted and put side by side in buffer, which it returns.
func (j *attentionFew[T]) lying(buffer []T, from *strip, c *fewChunk, key, n, width int) ([]T, fewMatrix[T]) {
	if width == 0 {
		return buffer, fewMatrix[T]{} // there is no memory
	}
	m := from.at(c.batch, c.head, key, j.access.size)
	if j.access.direct && (m.step == 1 || width == 1) && m.row >= width {
		return buffer, fewMatrix[T]{slice[T](m.ptr, (n-1)*m.row+width), m.row}
	}
	buffer = sized(buffer, n*width)
	for i := range n {
		j.access.load(buffer[i*width:][:width], offset(m.ptr, i*m.row, j.access.size), m.step)
	}
	return buffer, fewMatrix[T]{buffer, width}
}

// step takes a block of keys into the results of a row.
func (j *attentionFew[T]) step(b *block, row int, k, v fewMatrix[T], w *attentionMemory[T]) {
	n := padded(b.n, fewLanes)
	s, sum, acc := w.s[:n], w.sum[row*fewLanes:][:fewLanes], w.acc[row*j.width:][:j.width]
	j.score(s, w.q[row*j.depth:][:j.depth], b.n, k, &w.dots)
	fillSlice(s[b.n:], negativeInfinity[T]())
	j.hide(s, b, w)
	if factor := j.raise(s, &w.most[row], w.safe); factor != 1 {
		scaleAll(sum, factor)
		scaleAll(acc, factor)
	}
	fillSlice(w.safe, w.most[row])
	if math.IsInf(float64(w.most[row]), -1) {
		clear(w.safe) // nothing seen yet: exp(-infinity - 0) is 0
	}
	j.columns.exp(n/fewLanes, fewLanes, &s[0], &w.safe[0], &sum[0])
	if j.dropout.on {
		j.keep(b, w, s)
	}
	j.add(acc, s[:b.n], v)
}

// score sets s to the products of a query and n keys.
func (j *attentionFew[T]) score(s, q []T, n int, k fewMatrix[T], four *[gemvGroup]T) {
	if j.depth == 0 {
		clear(s)
		return
	}
	i := 0
	if dots := rowLoopsOf[T]().dots; dots != nil && j.depth%fewLanes == 0 && n >= fewLanes {
		i = n / fewLanes * fewLanes
		dots(i, j.depth, &q[0], &k.elements[0], k.ld, j.scale, &s[0])
	}
	for ; i < n; i += gemvGroup {
		count := min(gemvGroup, n-i)
		j.all.gemv.dots(four, count, k.elements[i*k.ld:], k.ld, q)
		for x, dot := range four[:count] {
			s[i+x] = dot * j.scale
		}
	}
}

// raise takes the maximum of a block into most, in lanes, and returns what sums and results relative to the earlier maximum must be
// multiplied by.
func (j *attentionFew[T]) raise(s []T, most *T, lanes []T) T {
	before := *most
	fillSlice(lanes, before)
	j.columns.max(len(s)/fewLanes, fewLanes, &s[0], &lanes[0])
	for _, m := range lanes {
		*most = max(*most, m)
	}
	if *most > before {
		return T(expOf[T](float64(before - *most)))
	}
	return 1
}

func scaleAll[T float](x []T, by T) {
	for i := range x {
		x[i] *= by
	}
}

// add adds the values, each times its probability.
func (j *attentionFew[T]) add(acc, p []T, v fewMatrix[T]) {
	if len(acc) == 0 {
		return
	}
	if sums := rowLoopsOf[T]().sums; sums != nil && j.width%fewLanes == 0 {
		sums(len(p), j.width, &p[0], &v.elements[0], v.ld, &acc[0])
		return
	}
	i := 0
	for ; i+4 <= len(p); i += 4 {
		j.all.gemv.axpy4(acc, p[i:i+4], v.row(i, j.width), v.row(i+1, j.width), v.row(i+2, j.width), v.row(i+3, j.width))
	}
	for ; i < len(p); i++ {
		axpy(acc, p[i], v.row(i, j.width))
	}
}

// finish divides by the sum and writes the result of a row.
func (j *attentionFew[T]) finish(c *fewChunk, row int, w *attentionMemory[T]) {
	head, query := j.place(c, row)
	var sum T
	for _, lane := range w.sum[row*fewLanes:][:fewLanes] {
		sum += lane
	}
	j.lse[(c.batch*j.heads+head)*j.queries+query] = w.most[row] + T(math.Log(float64(sum)))
	factor := 1 / sum
	if sum == 0 {
		factor = 0 // a row that sees nothing
	}
	acc := w.acc[row*j.width:][:j.width]
	scaleAll(acc, factor)
	out := j.out.at(c.batch, head, query, j.access.size)
	j.access.store(out.ptr, out.step, acc)
}
