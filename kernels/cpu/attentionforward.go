package cpu

import (
	"math"
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// attentionForward is one call of Attention in work. It is a job over chunks of the queries of a head.
type attentionForward[T float] struct {
	attention[T]
	chunk, chunks int // queries of a chunk, and chunks of a head
}

// attend makes the Func of Attention.
func attend[T float](l accessor[T]) op.Func {
	pool := &sync.Pool{New: func() any {
		j := new(attentionForward[T])
		j.access, j.all, j.columns = l, matMulKernelsOf[T](), columnLoopsOf[T]()
		return j
	}}
	return func(c *op.Call) error {
		j := pool.Get().(*attentionForward[T])
		j.set(c, 0, &c.Out[0], &c.Out[1], op.AttentionMask(c))
		j.attend(j.queries <= fewQueries)
		j.lse = nil
		pool.Put(j)
		return nil
	}
}

// attend computes all results, of few queries or of panels of them.
func (j *attentionForward[T]) attend(few bool) {
	if j.batch*j.heads*j.queries == 0 {
		return
	}
	var work job = j
	shared := j.heads // strips of rows that are cut into chunks
	if few {
		f := (*attentionFew[T])(j)
		f.cut()
		work, shared = f, j.heads/j.group
	} else {
		j.cut()
	}
	flops := 2 * j.chunk * j.keys * (j.depth + j.width) // of a chunk
	split(j.batch*shared*j.chunks, max(1, serialFlops/max(1, flops)), work)
}

// cut chooses chunks: whole panels, fewer of them where there are few heads.
func (j *attentionForward[T]) cut() {
	nr := j.kernel.nr
	n := max(1, queryChunk/nr)
	for n > 1 && j.batch*j.heads*panels(j.queries, n*nr) < 16 {
		n /= 2
	}
	j.chunk = n * nr
	j.chunks = panels(j.queries, j.chunk)
}

func (j *attentionForward[T]) run(lo, hi int) {
	pool := attentionPool[T]()
	w := pool.Get().(*attentionMemory[T])
	s := takeScratch()
	for ; lo < hi; lo++ {
		head, first := lo/j.chunks, lo%j.chunks*j.chunk
		j.rows(head/j.heads, head%j.heads, first, min(first+j.chunk, j.queries), w, s)
	}
	scratches.Put(s)
	pool.Put(w)
}

// rows computes the results of queries first..end-1 of a head.
func (j *attentionForward[T]) rows(batch, head, first, end int, w *attentionMemory[T], s *scratch) {
	mr, nr, size := j.kernel.mr, j.kernel.nr, j.access.size
	n := padded(end-first, nr)
	height := padded(j.width, mr) * nr // of the results of a panel
	w.begin(n, n/nr*height)
	w.q = sized(w.q, n*j.depth)
	j.packed(w.q, j.q.at(batch, head, first, size), end-first, nr, j.depth, s)
	w.k = sized(w.k, j.keyBlock*j.depth)
	w.v = sized(w.v, padded(j.width, mr)*j.keyBlock)
	w.s = sized(w.s, j.keyBlock*nr)
	seen := j.visible(end)
	for key := 0; key < seen; key += j.keyBlock {
		b := block{batch: batch, head: head, key: key, n: min(j.keyBlock, seen-key), k: nr}
		j.packed(w.k, j.k.at(batch, head/j.group, key, size), b.n, mr, j.depth, s)
		j.packed(w.v, j.v.at(batch, head/j.group, key, size).transposed(), j.width, mr, b.n, s)
		for p := range n / nr {
			b.query = first + p*nr
			b.m = min(nr, end-b.query)
			if j.causal && key >= b.query+b.m {
				continue
			}
			j.step(&b, p, w.acc[p*height:][:height], w)
		}
	}
	for p := range n / nr {
		query := first + p*nr
		j.finish(batch, head, query, min(nr, end-query), p, w.acc[p*height:], w)
	}
}

// begin clears the results and statistics of n queries.
func (w *attentionMemory[T]) begin(n, results int) {
	w.most, w.safe, w.sum, w.acc = sized(w.most, n), sized(w.safe, n), sized(w.sum, n), sized(w.acc, results)
	fillSlice(w.most, negativeInfinity[T]())
	clear(w.sum)
	clear(w.acc)
}

// step takes a block of keys into the results of panel p.
func (j *attentionForward[T]) step(b *block, p int, acc []T, w *attentionMemory[T]) {
	mr, nr := j.kernel.mr, j.kernel.nr
	most, safe, sum := w.most[p*nr:][:nr], w.safe[p*nr:][:nr], w.sum[p*nr:][:nr]
	j.scores(w.s, w.k, w.q[p*nr*j.depth:], b.n)
	j.hide(w.s, b, w)
	if j.raise(b.n, w.s, most, safe) {
		scaleColumns(sum, safe)
		scaleColumns(acc, safe)
	}
	for i, m := range most {
		safe[i] = m
		if math.IsInf(float64(m), -1) {
			safe[i] = 0 // nothing seen yet: exp(-infinity - 0) is 0
		}
	}
	j.columns.exp(b.n, nr, &w.s[0], &safe[0], &sum[0])
	if j.dropout.on {
		j.keep(b, w, w.s)
	}
	for e := 0; e < j.width; e += mr {
		j.kernel.tile(b.n, &w.v[e*b.n], &w.s[0], &acc[e*nr], nr, 1, true)
	}
}

// raise takes the maxima of a block of n keys into most, and sets factor to what sums and results relative to the earlier
// maxima must be multiplied by. It reports whether any of them is not 1.
func (j *attentionForward[T]) raise(n int, s, most, factor []T) bool {
	copy(factor, most)
	j.columns.max(n, j.kernel.nr, &s[0], &most[0])
	changed := false
	for i, m := range most {
		before := factor[i]
		factor[i] = 1
		if m > before {
			factor[i], changed = T(expOf[T](float64(before-m))), true
		}
	}
	return changed
}

// finish divides by the sums and writes the results of m queries.
func (j *attentionForward[T]) finish(batch, head, query, m, p int, acc []T, w *attentionMemory[T]) {
	nr := j.kernel.nr
	out := j.out.at(batch, head, query, j.access.size)
	lse := j.lse[(batch*j.heads+head)*j.queries+query:][:m]
	w.line = sized(w.line, max(j.width, j.depth, j.keyBlock))
	row := w.line[:j.width]
	for i := range m {
		sum := w.sum[p*nr+i]
		lse[i] = w.most[p*nr+i] + T(math.Log(float64(sum)))
		factor := 1 / sum
		if sum == 0 {
			factor = 0 // a row that sees nothing
		}
		for e := range row {
			row[e] = acc[e*nr+i] * factor
		}
		j.access.store(offset(out.ptr, i*out.row, j.access.size), out.step, row)
	}
}
