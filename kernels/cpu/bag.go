package cpu

import (
	"slices"
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// EmbeddingBag and EmbeddingBagGrad.

// bagJob is one EmbeddingBag in work. It is a job over bags.
type bagJob[T float] struct {
	access  accessor[T]
	call    *op.Call
	indices []int64
	offsets []int64
	result  []int64 // counts or rows; nil for sums
	width   int
	padding int64
	mode    int64
}

// checkBags refuses offsets that are not in the list or descend, and indices outside of 0..rows-1.
func checkBags(c *op.Call, rows int) error {
	before, n := int64(0), int64(c.In[1].Len())
	for k, o := range slice[int64](c.In[2].Ptr, c.In[2].Len()) {
		if o < before || o > n {
			return op.Errorf(c.Op, op.ErrIndex, "offset %d at %d is not in %d..%d", o, k, before, n)
		}
		before = o
	}
	return checkAllIndices(c, rows)
}

// embeddingBag makes the Func of EmbeddingBag.
func embeddingBag[T float](l accessor[T]) op.Func {
	pool := &sync.Pool{New: func() any { return &bagJob[T]{access: l} }}
	return func(c *op.Call) error {
		if err := checkBags(c, c.In[0].Shape[0]); err != nil {
			return err
		}
		j := pool.Get().(*bagJob[T])
		j.call, j.mode, j.padding, j.width = c, c.I[0], c.I[1], c.Out[0].Shape[1]
		j.indices, j.offsets = slice[int64](c.In[1].Ptr, c.In[1].Len()), slice[int64](c.In[2].Ptr, c.In[2].Len())
		if j.mode != op.BagSum {
			j.result = slice[int64](c.Out[1].Ptr, c.Out[1].Len())
		}
		work := max(1, len(j.indices)*j.width/max(1, len(j.offsets))) // of a bag
		split(len(j.offsets), max(1, elementGrain/work), j)
		*j = bagJob[T]{access: l}
		pool.Put(j)
		return nil
	}
}

// bag is the indices of bag k.
func (j *bagJob[T]) bag(k int) []int64 {
	if k+1 < len(j.offsets) {
		return j.indices[j.offsets[k]:j.offsets[k+1]]
	}
	return j.indices[j.offsets[k]:]
}

func (j *bagJob[T]) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	for k := lo; k < hi; k++ {
		if j.mode == op.BagMean {
			j.result[k] = 0
			for _, x := range j.bag(k) {
				if x != j.padding {
					j.result[k]++
				}
			}
		}
		for col := 0; col < j.width; col += chunk {
			j.columns(k, col, min(chunk, j.width-col), s)
		}
	}
}

// columns computes n elements of bag k from column col on.
func (j *bagJob[T]) columns(k, col, n int, s *scratch) {
	y, x := scratchBuffer[T](s, 0, n), scratchBuffer[T](s, 1, n)
	clear(y)
	var rows []int64
	if j.mode == op.BagMax {
		rows = j.result[k*j.width+col:][:n]
		fillSlice(rows, -1)
	}
	for _, row := range j.bag(k) {
		if row == j.padding {
			continue
		}
		j.access.load(x, offset(j.call.In[0].Ptr, int(row)*j.width+col, j.access.size), 1)
		if rows == nil {
			addSlices(y, y, x)
			continue
		}
		for i, v := range x {
			if rows[i] < 0 || v > y[i] {
				y[i], rows[i] = v, row
			}
		}
	}
	if j.mode == op.BagMean {
		count := T(max(j.result[k], 1))
		for i := range y {
			y[i] /= count
		}
	}
	j.access.store(offset(j.call.Out[0].Ptr, k*j.width+col, j.access.size), 1, y)
}

// bagGrad is one EmbeddingBagGrad in work. It is a job over rows of the table that are named: each belongs to one worker.
type bagGrad[T float] struct {
	accumulation[T] // the sorted indices
	offsets         []int64
	counts          []int64 // of bags; nil for sums
	width           int
}

// embeddingBagGrad makes the Func of EmbeddingBagGrad.
func embeddingBagGrad[T float](l accessor[T]) op.Func {
	pool := &sync.Pool{New: func() any { return &bagGrad[T]{accumulation: accumulation[T]{access: l}} }}
	return func(c *op.Call) error {
		if err := checkBags(c, c.Out[0].Shape[0]); err != nil {
			return err
		}
		j := pool.Get().(*bagGrad[T])
		j.call, j.width, j.counts = c, c.Out[0].Shape[1], nil
		j.offsets = slice[int64](c.In[2].Ptr, c.In[2].Len())
		if c.I[0] == op.BagMean {
			j.counts = slice[int64](c.In[3].Ptr, c.In[3].Len())
		}
		j.sortIndices(&c.In[1])
		if n := len(j.places) * j.width; n > 0 {
			split(len(j.groups), max(1, elementGrain*len(j.groups)/n), j)
		}
		j.call, j.offsets, j.counts = nil, nil, nil
		pool.Put(j)
		return nil
	}
}

func (j *bagGrad[T]) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	for ; lo < hi; lo++ {
		row, places := j.group(lo)
		if int64(row) == j.call.I[1] {
			continue
		}
		for col := 0; col < j.width; col += chunk {
			j.columns(row, places, col, min(chunk, j.width-col), s)
		}
	}
}

// columns adds what belongs to n elements of a row from column col on.
func (j *bagGrad[T]) columns(row int, places []int, col, n int, s *scratch) {
	p := offset(j.call.Out[0].Ptr, row*j.width+col, j.access.size)
	sum, x := scratchBuffer[T](s, 0, n), scratchBuffer[T](s, 1, n)
	j.access.load(sum, p, 1)
	for _, i := range places {
		k := j.bagOf(int64(i))
		if k < 0 {
			continue
		}
		j.access.load(x, offset(j.call.In[0].Ptr, k*j.width+col, j.access.size), 1)
		if j.counts == nil {
			addSlices(sum, sum, x)
			continue
		}
		count := T(max(j.counts[k], 1))
		for i, v := range x {
			sum[i] += v / count
		}
	}
	j.access.store(p, 1, sum)
}

// bagOf is the bag of index i: the last that begins at or before it; -1 for indices before the first.
func (j *bagGrad[T]) bagOf(i int64) int {
	k, _ := slices.BinarySearchFunc(j.offsets, i, func(o, i int64) int {
		if o <= i {
			return -1
		}
		return 1
	})
	return k - 1
}
