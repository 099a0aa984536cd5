package cuda

import (
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

func addMixedRows() []op.Row {
	return []op.Row{typedRow(op.AddMixed, func(d dtype.DType) op.Func { return addMixed(named("add_mixed", "add_mixed_"+suffixes[d])) })}
}

// mixedBlocks is the most blocks of a launch: what is more is their next round.
const mixedBlocks = 1 << 20

// addMixed makes the Func of AddMixed.
func addMixed(k *kernel) op.Func {
	return func(c *op.Call) error {
		n := c.Out[0].Len()
		if n == 0 {
			return nil
		}
		t := takeTask()
		defer tasks.Put(t)
		t.params.Ptr(c.Out[0].Ptr).Ptr(c.In[0].Ptr).Ptr(c.In[1].Ptr).Int64(int64(n))
		return t.launch(c, k, blocks(min(n, mixedBlocks*8*threads), 8*threads))
	}
}
