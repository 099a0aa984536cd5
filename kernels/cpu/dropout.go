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
	key, first := seedOf(c)
	for lo < hi {
		n := min(hi-lo, chunk/4)
		in, out := offset(c.In[0].Ptr, 4*lo, d.access.size), offset(c.Out[0].Ptr, 4*lo, d.access.size)
		count := min(4*n, total-4*lo)
		if d.access.direct {
			d.drop(slice[T](out, count), slice[T](in, count), key, first+uint64(lo), s)
		} else {
			x := scratchBuffer[T](s, 3, count)
			d.access.load(x, in, 1)
			d.drop(x, x, key, first+uint64(lo), s)
			d.access.store(out, 1, x)
		}
		lo += n
	}
}

// drop sets dst to the elements of src times 0 or the factor, with the words of blocks from first on.
func (d *dropper[T]) drop(dst, src []T, key, first uint64, s *scratch) {
	whole := padded(len(src), 4)
	keep, factor := d.call.F[0], T(d.call.F[1])
	if narrow, ok := any(dst).([]float32); ok {
		philoxBlocks(scratchBuffer[uint32](s, 1, whole), key, first, 0)
		applyKept(fnDropped, narrow, any(src).([]float32), scratchBuffer[float32](s, 1, len(src)), keptLimit(keep), float32(factor))
		return
	}
	u := scratchBuffer[T](s, 0, whole)
	uniforms(u, key, first, s)
	factors := [2]T{0, factor}
	for i, v := range src {
		// A table, not a branch: which way it goes cannot be predicted.
		dst[i] = v * factors[truth(float64(u[i]) < keep)]
	}
}
