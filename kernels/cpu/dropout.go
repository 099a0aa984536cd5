package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// dropper is one call of Dropout in work. It is a job over blocks of four elements, as random numbers are.
type dropper[T float] struct {
	call   *op.Call
	access accessor[T]
}

// droppedOut makes the Func of Dropout.
func droppedOut[T float](l accessor[T]) op.Func {
	pool := &sync.Pool{New: func() any { return &dropper[T]{access: l} }}
	return func(c *op.Call) error {
		d := pool.Get().(*dropper[T])
		d.call = c
		split((c.Out[0].Len()+3)/4, elementGrain/16, d)
		d.call = nil
		pool.Put(d)
		return nil
	}
}

func (d *dropper[T]) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	c := d.call
	total := c.Out[0].Len()
	factors := [2]T{0, T(c.F[1])}
	key, first := seedOf(c)
	for lo < hi {
		n := min(hi-lo, chunk/4)
		u, x := scratchBuffer[T](s, 0, 4*n), scratchBuffer[T](s, 3, min(4*n, total-4*lo))
		uniforms(u, key, first+uint64(lo), s)
		d.access.load(x, offset(c.In[0].Ptr, 4*lo, d.access.size), 1)
		for i, v := range x {
			// A table, not a branch: which way it goes cannot be predicted.
			x[i] = v * factors[truth(float64(u[i]) < c.F[0])]
		}
		d.access.store(offset(c.Out[0].Ptr, 4*lo, d.access.size), 1, x)
		lo += n
	}
}
