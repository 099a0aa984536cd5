package cpu

import (
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// What a row does not see, and what dropout leaves out of it.

type maskKind uint8

const (
	noMask maskKind = iota
	truthMask
	addedMask
)

func (a *attention[T]) setMask(mask []op.View) {
	a.maskKind = noMask
	if len(mask) == 0 {
		return
	}
	a.mask, a.maskKind = stripOf(&mask[0]), addedMask
	if mask[0].DType == dtype.Bool {
		a.maskKind, a.masks = truthMask, accessorOf[uint8](dtype.Bool)
	}
}

// block is a block of scores: n keys from key on, of m queries from query on of one head.
type block struct {
	batch, head         int
	query, m, key, n, k int // k is the width of a panel
}

// hide takes the mask, and the order of keys and queries if it counts, into a block of scores.
func (a *attention[T]) hide(s []T, b *block, w *attentionMemory[T]) {
	if a.causal && b.key+b.n > b.query+1 {
		low := negativeInfinity[T]()
		for j := range b.m {
			for i := max(0, b.query+j+1-b.key); i < b.n; i++ {
				s[i*b.k+j] = low
			}
		}
	}
	switch a.maskKind {
	case truthMask:
		a.hideWhere(s, b, w)
	case addedMask:
		w.line = sized(w.line, max(b.n, a.width, a.depth))
		line := w.line[:b.n]
		for j := range b.m {
			row := a.mask.at(b.batch, b.head, b.query+j, a.access.size).at(0, b.key, a.access.size)
			a.access.load(line, row.ptr, row.step)
			for i, v := range line {
				s[i*b.k+j] += v
			}
		}
	}
}

func (a *attention[T]) hideWhere(s []T, b *block, w *attentionMemory[T]) {
	w.bytes = sized(w.bytes, b.n)
	low := negativeInfinity[T]()
	for j := range b.m {
		row := a.mask.at(b.batch, b.head, b.query+j, 1).at(0, b.key, 1)
		a.masks.load(w.bytes, row.ptr, row.step)
		for i, seen := range w.bytes {
			if seen == 0 {
				s[i*b.k+j] = low
			}
		}
	}
}

// dropout says which probabilities stay: a function of the place, so that it is the same forward and backward.
type dropout[T float] struct {
	on         bool
	key, first uint64
	limit      uint32 // of keptFactors
	factor     T
	rowBlocks  uint64 // blocks of random words for a row of scores
}

func (d *dropout[T]) set(c *op.Call, keys int) {
	*d = dropout[T]{on: c.F[1] != 0, key: uint64(c.I[1]), first: uint64(c.I[2]), rowBlocks: uint64(keys+3) / 4}
	if v := op.AttentionSeed(c); v != nil {
		at := slice[int64](v.Ptr, 2)
		d.key, d.first = uint64(at[0]), d.first+uint64(at[1])
	}
	d.limit = keptLimit(1 - c.F[1])
	if c.F[1] < 1 {
		d.factor = T(1 / (1 - c.F[1]))
	}
}

// keep multiplies a block of probabilities, or of what goes with them, by what dropout makes of each: 0 or the factor. Queries that the panel does not
// have are multiplied by either.
func (a *attention[T]) keep(b *block, w *attentionMemory[T], blocks ...[]T) {
	d := &a.dropout
	n := padded(b.n, 4)
	w.words, w.factors = sized(w.words, n*b.k), sized(w.factors, n*b.k)
	clear(w.words[b.m*n:])
	for j := range b.m {
		row := uint64((b.batch*a.heads+b.head)*a.queries + b.query + j)
		philoxBlocks(w.words[j*n:][:n], d.key, d.first+row*d.rowBlocks+uint64(b.key)/4, 0)
	}
	keptFactors(w.factors, w.words, d.limit, d.factor)
	factors := w.factors
	if b.k > 1 {
		w.turned = sized(w.turned, n*b.k)
		factors = w.turned
		transposeRows(factors, w.factors, b.k, n, n, a.all.pack.four)
	}
	for _, s := range blocks {
		mulSlices(s[:b.n*b.k], s, factors)
	}
}
