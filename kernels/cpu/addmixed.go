package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

func addMixedRow() op.Row {
	r := op.Row{Op: op.AddMixed}
	for _, d := range halfTypes {
		r.Funcs[d] = addMixed(accessorOf[float32](d))
	}
	return r
}

// mixedSum is one AddMixed in work. It is a job over elements.
type mixedSum struct {
	access accessor[float32]
	call   *op.Call
}

// addMixed makes the Func of AddMixed.
func addMixed(l accessor[float32]) op.Func {
	pool := &sync.Pool{New: func() any { return &mixedSum{access: l} }}
	return func(c *op.Call) error {
		j := pool.Get().(*mixedSum)
		j.call = c
		split(c.Out[0].Len(), elementGrain, j)
		j.call = nil
		pool.Put(j)
		return nil
	}
}

func (j *mixedSum) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	for ; lo < hi; lo += chunk {
		n := min(chunk, hi-lo)
		x := scratchBuffer[float32](s, 0, n)
		j.access.load(x, offset(j.call.In[0].Ptr, lo, j.access.size), 1)
		addSlices(slice[float32](offset(j.call.Out[0].Ptr, lo, 4), n), x, slice[float32](offset(j.call.In[1].Ptr, lo, 4), n))
	}
}
