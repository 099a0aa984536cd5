package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Gather, and what it shares with Scatter and ScatterAdd: an index for each element.

// indexCheck looks for indices outside of 0..size-1. It is a job over the elements of a view.
type indexCheck struct {
	loop
	size int64
	mu   sync.Mutex
	bad  bool
	at   int // the first of the bad ones
	was  int64
}

var indexChecks = sync.Pool{New: func() any { return new(indexCheck) }}

// checkAllIndices refuses a call with an index outside of 0..size-1 in its second input.
func checkAllIndices(c *op.Call, size int) error {
	j := indexChecks.Get().(*indexCheck)
	defer indexChecks.Put(j)
	j.loop.set(&c.In[1], nil)
	j.size, j.bad = int64(size), false
	split(j.Total, elementGrain, j)
	if j.bad {
		return op.Errorf(c.Op, op.ErrIndex, "index %d at %d %s", j.was, j.at, op.Outside(int64(size), "the dimension is empty"))
	}
	return nil
}

func (j *indexCheck) run(lo, hi int) {
	var w walk
	w.seek(&j.loop, lo)
	for lo < hi {
		n := min(hi-lo, w.inner()-w.col)
		p, step := w.at(0)
		mem, at := span[int64](p, step, n)
		for i := range n {
			if x := mem[at]; x < 0 || x >= j.size {
				j.note(lo+i, x)
				return
			}
			at += step
		}
		w.skip(n)
		lo += n
	}
}

// note keeps the first bad index.
func (j *indexCheck) note(at int, x int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.bad || at < j.at {
		j.bad, j.at, j.was = true, at, x
	}
}

// gathering is one Gather in work. It is a job over the elements of the output.
type gathering[T any] struct {
	loop loop // output, input without extent along the indexed dimension, indices
	step int  // of the input along that dimension
}

// gather makes the Gather of elements that have the size of T.
func gather[T any]() op.Func {
	pool := &sync.Pool{New: func() any { return new(gathering[T]) }}
	return func(c *op.Call) error {
		dim := int(c.I[0])
		if err := checkAllIndices(c, c.In[0].Shape[dim]); err != nil {
			return err
		}
		g := pool.Get().(*gathering[T])
		in := [2]op.View{c.In[0], c.In[1]}
		g.step = in[0].Strides[dim]
		in[0].Strides[dim] = 0
		g.loop.set(&c.Out[0], in[:])
		split(g.loop.Total, elementGrain, g)
		pool.Put(g)
		return nil
	}
}

func (g *gathering[T]) run(lo, hi int) {
	var w walk
	w.seek(&g.loop, lo)
	var e T
	size := sizeOf(e)
	for lo < hi {
		n := min(hi-lo, w.inner()-w.col)
		p, to := w.at(0)
		a, from := w.at(1)
		q, step := w.at(2)
		out, i := span[T](p, to, n)
		indices, k := span[int64](q, step, n)
		for range n {
			out[i] = slice[T](offset(a, int(indices[k])*g.step, size), 1)[0]
			a = offset(a, from, size)
			i += to
			k += step
		}
		w.skip(n)
		lo += n
	}
}

func gatherRows() []op.Row {
	return []op.Row{
		{Op: op.Gather, Funcs: bySize(gather[uint8](), gather[uint16](), gather[uint32](), gather[uint64]())},
		{Op: op.Scatter, Funcs: bySize(scatter[uint8](), scatter[uint16](), scatter[uint32](), scatter[uint64]())},
		row(op.ScatterAdd, floats(scatterAdd[float32], scatterAdd[float64])),
		row(op.EmbeddingBag, floats(embeddingBag[float32], embeddingBag[float64])),
		row(op.EmbeddingBagGrad, floats(embeddingBagGrad[float32], embeddingBagGrad[float64])),
	}
}
