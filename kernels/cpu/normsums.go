package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// NormSums: the sums over channels that gradients of normalisations need.

// partials are sums of blocks of samples for each column of C*L, if L is small: two numbers for each column and block. The blocks
// depend on the shape alone, and are added in their order. A unit of work is a block of at most chunk columns.
type partials struct {
	sums   []float64
	blocks int
	rows   int // of a block
	width  int
	pieces int // of the columns
}

// set divides n rows of width columns.
func (p *partials) set(n, width int) {
	p.width = width
	p.rows = max(128, (n+31)/32)
	p.blocks = (n + p.rows - 1) / p.rows
	p.pieces = (width + chunk - 1) / chunk
	need := 2 * p.blocks * width
	if cap(p.sums) < need {
		p.sums = make([]float64, need)
	}
	p.sums = p.sums[:need]
	clear(p.sums)
}

// split runs j on all units.
func (p *partials) split(j job) {
	split(p.blocks*p.pieces, max(1, elementGrain/(p.rows*max(1, min(p.width, chunk)))), j)
}

// unit is what unit i of work is on: a block, its rows lo..hi-1 of n, and columns from..to-1.
func (p *partials) unit(i, n int) (block, lo, hi, from, to int) {
	block, from = i/p.pieces, i%p.pieces*chunk
	return block, block * p.rows, min((block+1)*p.rows, n), from, min(from+chunk, p.width)
}

// of is sum k, 0 or 1, of block b.
func (p *partials) of(b, k int) []float64 {
	at := (2*b + k) * p.width
	return p.sums[at : at+p.width]
}

// total adds sum k of all blocks up into that of the first.
func (p *partials) total(k int) []float64 {
	if p.blocks == 0 {
		return nil
	}
	first := p.of(0, k)
	for b := 1; b < p.blocks; b++ {
		mergeSum(first, p.of(b, k))
	}
	return first
}

// sumsJob is one NormSums in work. It is a job over channels, or over blocks of samples if L is small.
type sumsJob[T float] struct {
	normShape[T]
	partials partials
	result   [2][]T
}

// normSums makes the Func of NormSums.
func normSums[T float](l accessor[T]) op.Func {
	pool := &sync.Pool{New: func() any { return &sumsJob[T]{normShape: normShape[T]{access: l}} }}
	return func(c *op.Call) error {
		j := pool.Get().(*sumsJob[T])
		j.begin(c, &c.In[1])
		j.statistics(c.In[2:])
		for k := range j.result {
			j.result[k] = slice[T](c.Out[k].Ptr, j.c)
			clear(j.result[k])
		}
		switch {
		case j.total() == 0:
		case j.short():
			j.byBlocks()
		default:
			split(j.c, max(1, elementGrain/4/(j.n*j.l)), j)
		}
		j.release()
		j.result = [2][]T{}
		pool.Put(j)
		return nil
	}
}

// byBlocks adds up blocks of samples.
func (j *sumsJob[T]) byBlocks() {
	if j.groups == 0 {
		j.mean, j.rstd = j.repeated(j.mean), j.repeated(j.rstd)
	}
	j.partials.set(j.n, j.c*j.l)
	j.partials.split(j)
	for k := range j.result {
		for i, v := range folded(j.partials.total(k), j.l) {
			j.result[k][i] = T(v)
		}
	}
}

func (j *sumsJob[T]) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	short := j.short()
	for ; lo < hi; lo++ {
		if short {
			j.block(lo, s)
		} else {
			j.channel(lo, s)
		}
	}
}

// block adds up the rows of unit i.
func (j *sumsJob[T]) block(i int, s *scratch) {
	b, lo, hi, from, to := j.partials.unit(i, j.n)
	products, sums := j.partials.of(b, 0), j.partials.of(b, 1)
	width := j.c * j.l
	from = j.blockFloats(products, sums, lo, hi, from, to)
	for col, n := from, 0; col < to; col += n {
		n = to - col
		if j.groups > 1 { // one statistic for each piece
			n = min(n, j.columns-col%j.columns)
		}
		for r := lo; r < hi; r++ {
			g := j.open(j.call.In[0].Ptr, r*width+col, n, scratchBuffer[T](s, 0, n))
			x := scratchBuffer[T](s, 1, n)
			a := j.open(j.call.In[1].Ptr, r*width+col, n, x)
			if j.groups == 0 {
				subSlices(x, a, j.mean[col:col+n])
				mulSlices(x, x, j.rstd[col:col+n])
			} else {
				at := r*j.groups + col/j.columns
				shiftSlice(x, a, -j.mean[at])
				scaleSlice(x, x, j.rstd[at])
			}
			mulSlices(x, x, g)
			mergeFloats(products[col:col+n], x)
			mergeFloats(sums[col:col+n], g)
		}
	}
}

// channel adds up the elements of channel c.
func (j *sumsJob[T]) channel(c int, s *scratch) {
	var product, sum float64
	for n := range j.n {
		at := c
		if j.groups > 0 {
			at = n*j.groups + c/j.per
		}
		for i := 0; i < j.l; i += chunk {
			k, from := min(chunk, j.l-i), (n*j.c+c)*j.l+i
			g := j.open(j.call.In[0].Ptr, from, k, scratchBuffer[T](s, 0, k))
			x := scratchBuffer[T](s, 1, k)
			a := j.open(j.call.In[1].Ptr, from, k, x)
			if s, p, ok := channelDots(g, a, j.mean[at], j.rstd[at]); ok {
				sum, product = sum+s, product+p
				continue
			}
			shiftSlice(x, a, -j.mean[at])
			scaleSlice(x, x, j.rstd[at])
			mulSlices(x, x, g)
			product += foldSum(0, x)
			sum += foldSum(0, g)
		}
	}
	j.result[0][c], j.result[1][c] = T(product), T(sum)
}
