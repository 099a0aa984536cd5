package cpu

import (
	"math"
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Attention without the matrix of scores, after Dao et al., "FlashAttention: fast and memory-efficient exact attention with
// IO-awareness" (2022): scores exist a block of keys at a time, and sums of exponentials that were taken relative to an
// earlier, smaller maximum are corrected when a larger one turns up.
//
// The products are those of the micro-kernels of matrix products. A block of scores is transposed: keys are rows, and as many
// queries as the micro-kernel has columns lie side by side, a panel. So maxima and sums of all queries of a panel run down
// its columns as vectors (columns.go), and the block is at once the packed right operand of the product with v, whose
// result is transposed too. attentionforward.go and attentionbackward.go have the two directions.
//
// The order of additions for each result depends on the sizes of blocks only, not on where work is cut.

// strip is an operand of attention: four dimensions, of which the last two are the rows and elements of one head.
type strip struct {
	ptr                    device.Ptr
	batch, head, row, step int
}

func stripOf(v *op.View) strip {
	return strip{v.Ptr, v.Strides[0], v.Strides[1], v.Strides[2], v.Strides[3]}
}

// at is row i and the rows after it of one head, as a matrix.
func (p *strip) at(batch, head, i, size int) matrix {
	return matrix{offset(p.ptr, batch*p.batch+head*p.head+i*p.row, size), p.row, p.step}
}

// attention is what both directions share: the sizes, the operands and the kernels of a call.
type attention[T float] struct {
	access  accessor[T]
	all     *matMulKernels[T]
	kernel  *microkernel[T]
	columns *columnLoops[T]

	batch, heads, group         int // group: heads of q that share one of k and v
	queries, keys, depth, width int // depth: elements of a head of q and k; width: of v
	keyBlock                    int // keys of a block: a multiple of the micro-kernel's rows, and of 4 for the random numbers
	q, k, v, out                strip
	lse                         []T
	scale                       T
	causal                      bool
	mask                        strip
	maskKind                    maskKind
	dropout                     dropout[T]
	masks                       accessor[uint8]
}

// set reads a call; q, k and v are its inputs from first on, and the mask, if there is one, the input after all others.
func (a *attention[T]) set(c *op.Call, first int, out, lse *op.View, mask []op.View) {
	q, k, v := &c.In[first], &c.In[first+1], &c.In[first+2]
	a.batch, a.heads, a.queries, a.depth = q.Shape[0], q.Shape[1], q.Shape[2], q.Shape[3]
	a.keys, a.width = k.Shape[2], v.Shape[3]
	a.group = a.heads / max(1, k.Shape[1])
	a.q, a.k, a.v, a.out = stripOf(q), stripOf(k), stripOf(v), stripOf(out)
	a.lse = slice[T](lse.Ptr, lse.Len())
	a.scale, a.causal = T(c.F[0]), c.I[0] != 0
	a.setMask(mask)
	a.dropout.set(c, a.keys)
	a.kernel = a.all.choose(a.keys, a.queries)
	step := leastCommonMultiple(a.kernel.mr, 4)
	a.keyBlock = max(1, keyBlockSize/step) * step
}

const (
	keyBlockSize = 128 // about the keys of a block: a panel of scores stays in the first-level cache
	queryChunk   = 256 // about the queries that share a packed block of keys
)

func leastCommonMultiple(a, b int) int {
	n := a
	for n%b != 0 {
		n += a
	}
	return n
}

// visible is how many of the keys a block of queries that ends before query end sees.
func (a *attention[T]) visible(end int) int {
	if a.causal {
		return min(a.keys, end)
	}
	return a.keys
}

// packed packs panels of width rows of a matrix, count rows of k steps, on this goroutine.
func (a *attention[T]) packed(dst []T, m matrix, count, width, k int, s *scratch) {
	if k == 0 {
		return
	}
	rows := cut{count: count, width: width}
	for job := range packJobs(&m, &rows, k) {
		pack(&a.access, dst, m, job, &rows, k, &a.all.pack, s)
	}
}

// scores sets s to the block of scores of packed keys k, n of them, and a packed panel of queries q.
func (a *attention[T]) scores(s, k, q []T, n int) {
	a.product(s, k, q, n, a.depth, a.scale)
}

// product sets s, in rows of a panel's width, to alpha times the products of packed rows and a packed panel of depth elements.
func (a *attention[T]) product(s, rows, panel []T, n, depth int, alpha T) {
	mr, nr := a.kernel.mr, a.kernel.nr
	if depth == 0 {
		clear(s[:padded(n, mr)*nr])
		return
	}
	for i := 0; i < n; i += mr {
		a.kernel.tile(depth, &rows[i*depth], &panel[0], &s[i*nr], nr, alpha, false)
	}
}

// padded is n rounded up to a multiple of width.
func padded(n, width int) int { return panels(n, width) * width }

// negativeInfinity is -infinity as a T.
func negativeInfinity[T float]() T { return T(math.Inf(-1)) }

// attentionPools has the memory of workers, for each type of computation.
var attentionPools = struct{ narrow, wide sync.Pool }{
	sync.Pool{New: func() any { return new(attentionMemory[float32]) }},
	sync.Pool{New: func() any { return new(attentionMemory[float64]) }},
}

func attentionPool[T float]() *sync.Pool {
	if sizeOf(T(0)) == 4 {
		return &attentionPools.narrow
	}
	return &attentionPools.wide
}

// attentionMemory is what one worker computes in.
type attentionMemory[T float] struct {
	q, k, v, transposed, rows []T // packed operands
	grad, gradRows            []T // the packed gradient of the result
	s, ds, kept, left         []T // scores and their gradients, what dropout keeps of them, and them packed
	acc, accK, accV           []T // results on the way
	most, safe, sum, delta    []T // for each query
	line                      []T // one row
	dots                      [gemvGroup]T
	words                     []uint32
	factors, turned           []T // that dropout makes of the words, and them as scores lie
	bytes                     []uint8
}
