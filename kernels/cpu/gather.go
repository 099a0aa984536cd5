package cpu

import (
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Gather and Scatter: each element of the indices names a place along one dimension.

// along is one call in work. It is a job over the elements of the indices: over their range first, then over the moves.
type along[T any] struct {
	loop         // operands: what has the shape of the indices, what is indexed with its dimension at 0, the indices
	size    int  // of the indexed dimension
	stride  int  // of what is indexed, along it
	scatter bool // operand 0 is read and operand 1 written
	check   bool
	bad     atomic.Bool
}

// alongDim makes Gather or Scatter of elements that have the size of T.
func alongDim[T any](scatter bool) op.Func {
	pool := &sync.Pool{New: func() any { return &along[T]{scatter: scatter} }}
	return func(c *op.Call) error {
		j := pool.Get().(*along[T])
		defer pool.Put(j)
		dim := int(c.I[0])
		picked, indexed := c.Out[0], c.In[0]
		if scatter {
			picked, indexed = indexed, picked
		}
		j.size, j.stride = indexed.Shape[dim], indexed.Strides[dim]
		indexed.Strides[dim] = 0
		in := [2]op.View{indexed, c.In[1]}
		j.set(&picked, in[:])
		j.check = true
		j.bad.Store(false)
		split(j.total, elementGrain, j)
		if j.bad.Load() {
			return j.complaint(c)
		}
		j.check = false
		split(j.total, elementGrain, j)
		return nil
	}
}

// complaint names the first index that is out of range.
func (j *along[T]) complaint(c *op.Call) error {
	var w walk
	w.seek(&j.loop, 0)
	for i := range j.total {
		p, _ := w.at(2)
		if x := slice[int64](p, 1)[0]; x < 0 || x >= int64(j.size) {
			return op.Errorf(c.Op, op.ErrIndex, "index %d at %d is not in 0..%d", x, i, j.size-1)
		}
		w.skip(1)
	}
	return nil
}

func (j *along[T]) run(lo, hi int) {
	var w walk
	w.seek(&j.loop, lo)
	for lo < hi {
		n := min(hi-lo, w.inner()-w.col)
		if j.check {
			j.look(&w, n)
		} else {
			j.move(&w, n)
		}
		w.skip(n)
		lo += n
	}
}

// look checks the next n indices.
func (j *along[T]) look(w *walk, n int) {
	p, step := w.at(2)
	index, at := span[int64](p, step, n)
	for range n {
		if x := index[at]; x < 0 || x >= int64(j.size) {
			j.bad.Store(true)
			return
		}
		at += step
	}
}

// move moves the next n elements.
func (j *along[T]) move(w *walk, n int) {
	p, step := w.at(2)
	index, at := span[int64](p, step, n)
	q, near := w.at(0)
	own, to := span[T](q, near, n)
	base, far := w.at(1)
	size := sizeOf(*new(T))
	for i := range n {
		x := &slice[T](offset(base, i*far+int(index[at])*j.stride, size), 1)[0]
		if j.scatter {
			*x = own[to]
		} else {
			own[to] = *x
		}
		at += step
		to += near
	}
}
