package cpu

import (
	"math"
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// attentionBackward is one call of AttentionGrad in work. It is a job over the heads of k and v, or over parts of their keys
// where there are few heads. A task goes through its keys for each head of q that uses them, so that gradients of k and v
// belong to one task; those of q are sums over the tasks of a head, which are kept apart and added in order.
type attentionBackward[T float] struct {
	attention[T]
	grad, dq, dk, dv, dmask strip
	wantsMask               bool

	keyHeads int // heads of k
	parts    int // tasks of a head of k
	part     int // keys of a task
	partial  []T // gradients of q of all tasks, if a head has several
}

// queryGroup is how many panels of queries are taken together into the gradients of k and v.
const queryGroup = 4

// attendGrad makes the Func of AttentionGrad.
func attendGrad[T float](l accessor[T]) op.Func {
	pool := &sync.Pool{New: func() any {
		j := new(attentionBackward[T])
		j.access, j.all, j.columns = l, matMulKernelsOf[T](), columnLoopsOf[T]()
		return j
	}}
	return func(c *op.Call) error {
		j := pool.Get().(*attentionBackward[T])
		j.set(c, 1, &c.In[4], &c.In[5], op.AttentionMask(c))
		j.grad, j.dq, j.dk, j.dv = stripOf(&c.In[0]), stripOf(&c.Out[0]), stripOf(&c.Out[1]), stripOf(&c.Out[2])
		if j.wantsMask = len(c.Out) == 4; j.wantsMask {
			j.dmask = stripOf(&c.Out[3])
		}
		j.keyHeads = c.In[2].Shape[1]
		tasks := j.cut()
		flops := 2 * j.group * j.queries * max(1, j.part) * (3*j.depth + 2*j.width)
		split(tasks, max(1, serialFlops/max(1, flops)), j)
		if j.parts > 1 {
			split(j.batch*j.heads, 1, (*attentionSum[T])(j))
		}
		j.lse = nil
		pool.Put(j)
		return nil
	}
}

// cut chooses the tasks, by the shapes alone, and returns their number.
func (j *attentionBackward[T]) cut() int {
	strips := j.batch * j.keyHeads
	blocks := max(1, panels(j.keys, j.keyBlock))
	j.parts = min(blocks, max(1, 16/max(1, strips)))
	if j.queries*j.keys < 1<<16 {
		j.parts = 1
	}
	j.part = panels(blocks, j.parts) * j.keyBlock
	j.parts = max(1, panels(j.keys, j.part))
	if j.parts > 1 {
		j.partial = sized(j.partial, strips*j.parts*j.group*j.querySums())
	}
	return strips * j.parts
}

// querySums is the elements of the gradients of a head of q, as transposed panels.
func (j *attentionBackward[T]) querySums() int {
	return panels(j.queries, j.kernel.nr) * j.kernel.nr * padded(j.depth, j.kernel.mr)
}

func (j *attentionBackward[T]) run(lo, hi int) {
	pool := attentionPool[T]()
	w := pool.Get().(*attentionMemory[T])
	s := takeScratch()
	for ; lo < hi; lo++ {
		j.task(lo, w, s)
	}
	scratches.Put(s)
	pool.Put(w)
}

func (j *attentionBackward[T]) task(task int, w *attentionMemory[T], s *scratch) {
	strip, first := task/j.parts, task%j.parts*j.part
	batch, head := strip/j.keyHeads, strip%j.keyHeads
	end := min(first+j.part, j.keys)
	j.room(end-first, w)
	for h := range j.group {
		q := head*j.group + h
		j.loadHead(batch, q, w, s)
		sums := w.acc
		if j.parts > 1 {
			sums = j.partial[(task*j.group+h)*len(sums):][:len(sums)]
		}
		clear(sums)
		for key := first; key < end; key += j.keyBlock {
			j.keysOf(batch, q, key, min(j.keyBlock, end-key), first, sums, w, s)
		}
		if j.parts == 1 {
			j.storeQueries(batch, q, sums, w)
		}
	}
	j.storeKeys(&j.dk, batch, head, first, end, j.depth, w.accK, w)
	j.storeKeys(&j.dv, batch, head, first, end, j.width, w.accV, w)
}

// room makes the memory of a task of n keys.
func (j *attentionBackward[T]) room(n int, w *attentionMemory[T]) {
	mr, nr := j.kernel.mr, j.kernel.nr
	t := padded(j.queries, nr)
	w.q, w.transposed = sized(w.q, t*j.depth), sized(w.transposed, t*padded(j.depth, nr))
	w.grad, w.gradRows = sized(w.grad, t*j.width), sized(w.gradRows, t*padded(j.width, nr))
	w.safe, w.delta, w.sum = sized(w.safe, t), sized(w.delta, t), sized(w.sum, nr) // the sums are not used
	clear(w.sum)
	w.acc = sized(w.acc, j.querySums())
	w.accK, w.accV = sized(w.accK, padded(n, mr)*padded(j.depth, nr)), sized(w.accV, padded(n, mr)*padded(j.width, nr))
	clear(w.accK)
	clear(w.accV)
	w.k, w.v, w.rows = sized(w.k, j.keyBlock*j.depth), sized(w.v, j.keyBlock*j.width), sized(w.rows, j.keyBlock*padded(j.depth, mr))
	block := j.keyBlock * nr * queryGroup
	w.s, w.ds, w.kept, w.left = sized(w.s, block), sized(w.ds, block), sized(w.kept, block), sized(w.left, block)
	w.line = sized(w.line, max(2*j.width, j.depth, j.keyBlock))
}

// loadHead packs the queries of a head and the gradient of their results, each as panels of queries, for scores, and as groups
// of rows, for the gradients of keys; and computes delta, the sum of gradient times result for each query.
func (j *attentionBackward[T]) loadHead(batch, head int, w *attentionMemory[T], s *scratch) {
	nr, size := j.kernel.nr, j.access.size
	j.packed(w.q, j.q.at(batch, head, 0, size), j.queries, nr, j.depth, s)
	j.packed(w.grad, j.grad.at(batch, head, 0, size), j.queries, nr, j.width, s)
	for t := 0; t < j.queries; t += queryGroup * nr {
		n := min(queryGroup*nr, j.queries-t)
		j.packed(w.transposed[t*padded(j.depth, nr):], j.q.at(batch, head, t, size).transposed(), j.depth, nr, n, s)
		j.packed(w.gradRows[t*padded(j.width, nr):], j.grad.at(batch, head, t, size).transposed(), j.width, nr, n, s)
	}
	copy(w.safe, j.lse[(batch*j.heads+head)*j.queries:][:j.queries])
	for t, v := range w.safe[:j.queries] {
		if math.IsInf(float64(v), -1) {
			w.safe[t] = -negativeInfinity[T]() // a row that sees nothing has no probabilities, as a row that is not there
		}
		a, b := w.line[:j.width], w.line[j.width:2*j.width]
		grad, out := j.grad.at(batch, head, t, size), j.out.at(batch, head, t, size)
		j.access.load(a, grad.ptr, grad.step)
		j.access.load(b, out.ptr, out.step)
		w.delta[t] = T(dotProduct(a, b))
	}
	for t := j.queries; t < len(w.safe); t++ {
		w.safe[t], w.delta[t] = -negativeInfinity[T](), 0
	}
}

// keysOf takes a block of n keys through all queries of a head that see one of them.
func (j *attentionBackward[T]) keysOf(batch, head, key, n, first int, sums []T, w *attentionMemory[T], s *scratch) {
	mr, nr, size := j.kernel.mr, j.kernel.nr, j.access.size
	k := j.k.at(batch, head/j.group, key, size)
	j.packed(w.k, k, n, mr, j.depth, s)
	j.packed(w.rows, k.transposed(), j.depth, mr, n, s)
	j.packed(w.v, j.v.at(batch, head/j.group, key, size), n, mr, j.width, s)
	from := 0
	if j.causal {
		from = key / (queryGroup * nr) * queryGroup * nr
	}
	for t := from; t < j.queries; t += queryGroup * nr {
		m := min(queryGroup*nr, j.queries-t)
		b := block{batch: batch, head: head, key: key, n: n, k: nr}
		for p := range panels(m, nr) {
			b.query, b.m = t+p*nr, min(nr, m-p*nr)
			j.panel(&b, p, sums, w)
		}
		j.toKeys(w.accV[(key-first)*padded(j.width, nr):], j.probabilities(w), w.gradRows[t*padded(j.width, nr):], n, m, j.width, 1, w)
		j.toKeys(w.accK[(key-first)*padded(j.depth, nr):], w.ds, w.transposed[t*padded(j.depth, nr):], n, m, j.depth, j.scale, w)
	}
}

// probabilities are those that the values were multiplied by: after dropout, if there is any.
func (j *attentionBackward[T]) probabilities(w *attentionMemory[T]) []T {
	if j.dropout.on {
		return w.kept
	}
	return w.s
}

// panel computes probabilities and gradients of scores of a block, panel p of its group, and adds to the gradients of q.
func (j *attentionBackward[T]) panel(b *block, p int, sums []T, w *attentionMemory[T]) {
	mr, nr := j.kernel.mr, j.kernel.nr
	at := p * j.keyBlock * nr
	s, ds := w.s[at:][:j.keyBlock*nr], w.ds[at:][:j.keyBlock*nr]
	j.scores(s, w.k, w.q[b.query*j.depth:], b.n)
	j.hide(s, b, w)
	j.columns.exp(b.n, nr, &s[0], &w.safe[b.query], &w.sum[0])
	j.product(ds, w.v, w.grad[b.query*j.width:], b.n, j.width, 1)
	if j.dropout.on {
		kept := w.kept[at:][:len(s)]
		copy(kept, s)
		j.keep(b, w, kept, ds)
	}
	j.columns.grad(b.n, nr, &s[0], &ds[0], &w.delta[b.query])
	if j.wantsMask {
		j.storeMask(b, ds, w)
	}
	height := padded(j.depth, mr)
	for d := 0; d < j.depth; d += mr {
		j.kernel.tile(b.n, &w.rows[d*b.n], &ds[0], &sums[b.query*height+d*nr], nr, j.scale, true)
	}
}

// toKeys adds to the gradients of n keys, rows of width elements, alpha times the products of blocks (a panel after the other, of
// m queries together) and rows, the packed rows of those queries.
func (j *attentionBackward[T]) toKeys(sums, blocks, rows []T, n, m, width int, alpha T, w *attentionMemory[T]) {
	mr, nr := j.kernel.mr, j.kernel.nr
	ld := padded(width, nr)
	for i := 0; i < n; i += mr {
		for p := range panels(m, nr) {
			transposeRows(w.left[p*nr*mr:], blocks[p*j.keyBlock*nr+i*nr:], mr, nr, nr, j.all.pack.four)
		}
		for e := 0; e < width; e += nr {
			j.kernel.tile(m, &w.left[0], &rows[e*m], &sums[i*ld+e], ld, alpha, true)
		}
	}
}
