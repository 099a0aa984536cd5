package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// castManyRow makes the row of CastMany from that of Cast: one tensor after the other, each shared by the processors.
func castManyRow(all []op.Row) op.Row {
	row := op.Row{Op: op.CastMany}
	for _, r := range all {
		if r.Op != op.Cast {
			continue
		}
		for _, d := range op.CastMany.Types() {
			row.Funcs[d] = castMany(r.Funcs[dtype.Float32])
		}
	}
	return row
}

func castMany(cast op.Func) op.Func {
	parts := sync.Pool{New: func() any { return new(op.Call) }}
	return func(c *op.Call) error {
		part := parts.Get().(*op.Call)
		defer func() {
			*part = op.Call{} // it holds nothing of its caller's
			parts.Put(part)
		}()
		for i := range c.Out {
			*part = op.Call{Op: op.Cast, Stream: c.Stream, Out: c.Out[i : i+1], In: c.In[i : i+1]}
			if err := cast(part); err != nil {
				return err
			}
		}
		return nil
	}
}
