package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// EmbeddingBag and EmbeddingBagGrad: src/bag.cu.

func bagRows() []op.Row {
	grad := typedRow(op.EmbeddingBagGrad, embeddingBagGrad)
	grad.Workspace = func(c *op.Call) uint64 { return sortSpace(c.In[1].Len()) }
	return []op.Row{typedRow(op.EmbeddingBag, embeddingBag), grad}
}

// addBags appends Bags in src/bag.cu. It refuses what is too large.
func addBags(c *op.Call, params *device.Params, table, bags *op.View) error {
	rows, n, b, width := table.Shape[0], c.In[1].Len(), bags.Shape[0], bags.Shape[1]
	if n >= maxLoop || b*width >= maxLoop || rows >= maxLoop { // what is counted in 32 bits; rows of the table are found in 64
		return op.Errorf(c.Op, op.ErrCall, "%d bags of %d elements, of %d indices into %d rows, are too many", b, width, n, rows)
	}
	d := divisor(width)
	params.Words(pair(uint32(b), uint32(n)), pair(d[0], d[1]), pair(d[2], uint32(c.I[0])), uint64(rows), uint64(c.I[1]))
	return nil
}

// embeddingBag makes the Func of EmbeddingBag.
func embeddingBag(d dtype.DType) op.Func {
	k := named("bag", "embedding_bag_"+suffixes[d])
	return func(c *op.Call) error {
		if c.Out[0].Len() == 0 {
			return nil
		}
		t := takeTask()
		defer tasks.Put(t)
		if err := addBags(c, &t.params, &c.In[0], &c.Out[0]); err != nil {
			return err
		}
		var result device.Ptr
		if len(c.Out) > 1 {
			result = c.Out[1].Ptr
		}
		t.params.Ptr(c.Out[0].Ptr).Ptr(result).Ptr(c.In[0].Ptr).Ptr(c.In[1].Ptr).Ptr(c.In[2].Ptr)
		return t.noted(c, k, c.Out[0].Len())
	}
}

// embeddingBagGrad makes the Func of EmbeddingBagGrad.
func embeddingBagGrad(d dtype.DType) op.Func {
	k := named("bag", "embedding_bag_backward_"+suffixes[d])
	return func(c *op.Call) error {
		n, rows, width := c.In[1].Len(), c.Out[0].Shape[0], c.Out[0].Shape[1]
		if n*rows*width == 0 || c.In[2].Len() == 0 {
			return nil
		}
		t := takeTask()
		defer tasks.Put(t)
		if err := addBags(c, &t.params, &c.Out[0], &c.In[0]); err != nil {
			return err
		}
		t.params.Reset() // it was only to refuse: sorting comes first
		// As IndexAdd does: entries of index and place, sorted, so that the sum of each row has one order.
		t.params.Int32(int32(n)).Ptr(c.In[1].Ptr).Int64(1).Int64(int64(rows)).Ptr(c.Work.Ptr)
		if err := t.noted(c, indexEntries, n); err != nil {
			return err
		}
		sorted, err := t.sort(c, n, rows)
		if err != nil {
			return err
		}
		// The sort has emptied the parameters, so they are appended anew.
		if err := addBags(c, &t.params, &c.Out[0], &c.In[0]); err != nil {
			return err
		}
		var counts device.Ptr
		if len(c.In) > 3 {
			counts = c.In[3].Ptr
		}
		t.params.Ptr(c.Out[0].Ptr).Ptr(c.In[0].Ptr).Ptr(sorted).Ptr(c.In[2].Ptr).Ptr(counts)
		if err := t.note(c); err != nil {
			return err
		}
		grid := blocks(width, threads)
		grid.Y = uint32(min(n, maxGridZ)) // a block goes on with each entry that is grid.Y further on
		return t.launch(c, k, grid)
	}
}
