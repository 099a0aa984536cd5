package cuda

import (
	"math/bits"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/cistern-ml/cistern/tensor/dtype"
)

// IndexSelect and IndexAdd.

func indexRows() []op.Row {
	addition := typedRow(op.IndexAdd, indexAdd)
	addition.Workspace = sortSpace
	return []op.Row{sized(op.IndexSelect, indexSelect), addition}
}

// indexSelect makes the Func of IndexSelect: a thread for each element of the output. For the walk, the input has no extent
// along the indexed dimension, and the indices have none along the others.
func indexSelect(suffix string) op.Func {
	k := named("move", "index_select_"+suffix)
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		dst, a, index := c.Out[0], c.In[0], op.View{Ptr: c.In[1].Ptr, DType: dtype.Int64, NDim: c.Out[0].NDim}
		dim := int(c.I[0])
		size, step := a.Shape[dim], a.Strides[dim]
		a.Strides[dim] = 0
		index.Strides[dim] = c.In[1].Strides[0]
		t.loop.begin(&dst)
		t.loop.add(&a)
		t.loop.add(&index)
		t.loop.finish(&dst)
		total := t.loop.total
		if total == 0 {
			return nil // nothing is moved, and no index is looked at
		}
		if total >= maxLoop {
			return op.Errorf(c.Op, op.ErrCall, "%d elements are too many", total)
		}
		t.loop.walk(&t.params)
		t.params.Ptr(t.loop.ptr[0]).Ptr(t.loop.ptr[1]).Ptr(t.loop.ptr[2]).Int64(int64(size)).Int64(int64(step))
		if err := t.note(c); err != nil {
			return err
		}
		return t.launch(c, k, blocks(total, threads*steps))
	}
}

// What src/index.cu has for sorting.
const (
	entryBytes = 8           // of an Entry
	digits     = 16          // DIGITS: 4 bits a pass
	sortTile   = 8 * threads // TILE
)

// oneBlock is up to how many indices one block sorts: the launches of several blocks cost more.
const oneBlock = 2 * sortTile

// sortSpace is the workspace of IndexAdd: two lists of entries, and the counts of each block.
func sortSpace(c *op.Call) uint64 {
	n := c.In[1].Shape[0]
	space := 2 * entryBytes * uint64(n)
	if n > oneBlock {
		space += 4 * digits * uint64(blocks(n, sortTile).X)
	}
	return space
}

var (
	indexSort    = named("index", "index_sort")
	indexEntries = named("index", "index_entries")
	indexCount   = named("index", "index_count")
	indexPlaces  = named("index", "index_places")
	indexPlace   = named("index", "index_place")
)

// sort puts the indices of a call, below size, in order, with their places, and returns where that list is in the workspace.
func (t *task) sort(c *op.Call, n, size int) (device.Ptr, error) {
	passes := (bits.Len(uint(size-1)) + 3) / 4
	from, to := c.Work.Ptr, c.Work.Ptr.Add(entryBytes*uint64(n))
	one := n <= oneBlock
	t.params.Int32(int32(n)).Ptr(c.In[1].Ptr).Int64(int64(c.In[1].Strides[0])).Int64(int64(size))
	if one {
		t.params.Int32(int32(passes)).Ptr(from).Ptr(to)
	} else {
		t.params.Ptr(from)
	}
	if err := t.note(c); err != nil {
		return 0, err
	}
	if one {
		if passes%2 == 1 {
			from = to
		}
		return from, t.launch(c, indexSort, blocks(1, 1))
	}
	if err := t.launch(c, indexEntries, blocks(n, threads)); err != nil {
		return 0, err
	}
	for pass := range passes {
		if err := t.sortPass(c, n, 4*pass, from, to); err != nil {
			return 0, err
		}
		from, to = to, from
	}
	return from, nil
}

// sortPass orders entries by 4 bits of their index.
func (t *task) sortPass(c *op.Call, n, shift int, from, to device.Ptr) error {
	grid, counts := blocks(n, sortTile), c.Work.Ptr.Add(2*entryBytes*uint64(n))
	t.params.Int32(int32(n)).Int32(int32(shift)).Ptr(from).Ptr(counts)
	if err := t.launch(c, indexCount, grid); err != nil {
		return err
	}
	t.params.Int32(int32(digits * grid.X)).Ptr(counts)
	if err := t.launch(c, indexPlaces, blocks(1, 1)); err != nil {
		return err
	}
	t.params.Int32(int32(n)).Int32(int32(shift)).Ptr(from).Ptr(to).Ptr(counts)
	return t.launch(c, indexPlace, grid)
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
		dst.Shape[dim], a.Shape[dim] = 1, 1
		t.loop.begin(&dst)
		t.loop.add(&a)
		t.loop.finish(&dst)
		if t.loop.total == 0 || n == 0 || size == 0 {
			return nil
		}
		if t.loop.total >= maxLoop || n >= maxLoop || size >= maxLoop {
			return op.Errorf(c.Op, op.ErrCall, "%d slices of %d elements to %d are too many", n, t.loop.total, size)
		}
		sorted, err := t.sort(c, n, size)
		if err != nil {
			return err
		}
		t.loop.walk(&t.params)
		t.params.Int32(int32(n)).Ptr(t.loop.ptr[0]).Ptr(t.loop.ptr[1]).Ptr(sorted).Int64(int64(to)).Int64(int64(from))
		grid := blocks(t.loop.total, threads)
		grid.Y = uint32(min(n, 1<<16-1))
		return t.launch(c, k, grid)
	}
}
