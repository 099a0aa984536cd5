package cuda

import (
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// IndexSelect and IndexAdd.

func indexRows() []op.Row {
	addition := typedRow(op.IndexAdd, indexAdd)
	addition.Workspace = func(c *op.Call) uint64 { return sortSpace(c.In[1].Shape[0]) }
	return []op.Row{sized(op.IndexSelect, indexSelect), addition}
}

// indexSelect makes the Func of IndexSelect: a thread for each element of the output. For the walk, the input has no extent
// along the indexed dimension, and the indices have none along the others.
func indexSelect(suffix string) op.Func {
	k := indexSelectKernel(suffix)
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		dst, a, index := c.Out[0], c.In[0], op.View{Ptr: c.In[1].Ptr, DType: dtype.Int64, NDim: c.Out[0].NDim}
		dim := int(c.I[0])
		size, step := a.Shape[dim], a.Strides[dim]
		a.Strides[dim] = 0 // its place along dim is index*step, which the kernel adds
		index.Strides[dim] = c.In[1].Strides[0]
		t.loop.Begin(&dst)
		t.loop.Add(&a)
		t.loop.Add(&index)
		t.loop.Finish()
		return t.selectElements(c, k, size, step)
	}
}

// indexAdd makes the Func of IndexAdd: the indices are sorted, then each run of equal ones is added up.
func indexAdd(d dtype.DType) op.Func {
	k := named("index", "index_add_"+suffixes[d])
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		dst, a := c.Out[0], c.In[0]
		dim := int(c.I[0])
		n, size := c.In[1].Shape[0], dst.Shape[dim]
		to, from := dst.Strides[dim], a.Strides[dim]
		dst.Shape[dim], a.Shape[dim] = 1, 1 // the loop is over one slice, whose elements are threads; entries are blocks
		t.loop.Begin(&dst)
		t.loop.Add(&a)
		t.loop.Finish()
		if t.loop.Total == 0 || n == 0 || size == 0 {
			return nil
		}
		if t.loop.Total >= maxLoop || n >= maxLoop || size >= maxLoop {
			return op.Errorf(c.Op, op.ErrCall, "%d slices of %d elements to %d are too many", n, t.loop.Total, size)
		}
		// Three stages on one stream: entries are made, and checked; they are sorted; each run of equal indices is added up, by one thread for each element of a slice.
		t.params.Int32(int32(n)).Ptr(c.In[1].Ptr).Int64(int64(c.In[1].Strides[0])).Int64(int64(size)).Ptr(c.Work.Ptr)
		if err := t.note(c); err != nil {
			return err
		}
		if err := t.launch(c, indexEntries, blocks(n, threads)); err != nil {
			return err
		}
		sorted, err := t.sort(c, n, size) // stable: equal indices are added in their order, on each GPU
		if err != nil {
			return err
		}
		t.loop.walk(&t.params)
		t.params.Int32(int32(n)).Ptr(t.loop.Ptr[0]).Ptr(t.loop.Ptr[1]).Ptr(sorted).Int64(int64(to)).Int64(int64(from))
		grid := blocks(t.loop.Total, threads)
		grid.Y = uint32(min(n, maxGridZ)) // a block goes on with each entry that is grid.Y further on
		return t.launch(c, k, grid)
	}
}

var indexEntries = named("index", "index_entries")
