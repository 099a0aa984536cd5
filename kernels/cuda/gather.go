package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Gather, Scatter and ScatterAdd.

func gatherRows() []op.Row {
	set := sized(op.Scatter, func(suffix string) op.Func { return scatter("scatter", suffix) })
	addition := typedRow(op.ScatterAdd, func(d dtype.DType) op.Func { return scatter("scatter_add", suffixes[d]) })
	set.Workspace, addition.Workspace = scatterSpace, scatterSpace
	return []op.Row{sized(op.Gather, gather), set, addition}
}

// gather makes the Func of Gather: a thread for each element of the output. For the walk, the input has no extent along the
// indexed dimension.
func gather(suffix string) op.Func {
	k := named("move", "index_select_"+suffix)
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		dst, a := c.Out[0], c.In[0]
		dim := int(c.I[0])
		size, step := a.Shape[dim], a.Strides[dim]
		a.Strides[dim] = 0
		t.loop.Begin(&dst)
		t.loop.Add(&a)
		t.loop.Add(&c.In[1])
		t.loop.Finish()
		return t.selectElements(c, k, size, step)
	}
}

// selectElements launches index_select over the task's loop of output, input and indices. Where neighbours have one index they are
// moved 16 bytes at a time.
func (t *task) selectElements(c *op.Call, k *kernel, size, step int) error {
	l := &t.loop
	if l.Total == 0 {
		return nil // nothing is moved, and no index is looked at
	}
	if l.Total >= maxLoop {
		return op.Errorf(c.Op, op.ErrCall, "%d elements are too many", l.Total)
	}
	// Rows of an embedding, mostly: one index for all of a row, whose elements are neighbours on both sides. Then a thread moves 16 bytes, and
	// distances are of such pieces.
	each := 16 / l.Size[0]
	_, same := l.inner(2)
	_, near := l.inner(1)
	if inner, _ := l.inner(0); inner%each == 0 && same == 0 && near == 1 && step%each == 0 && l.groups(each) {
		k, step = selectWide, step/each
		t.cut = l.grouped(each)
		for d := range t.cut.NDim {
			t.cut.Stride[0][d] /= each
			t.cut.Stride[1][d] /= each
		}
		l = &t.cut
	} else {
		each = 1
	}
	l.walk(&t.params) // each makes of a piece's number that of its first element, for the note
	t.params.Int32(int32(each)).Ptr(l.Ptr[0]).Ptr(l.Ptr[1]).Ptr(l.Ptr[2]).Int64(int64(size)).Int64(int64(step))
	if err := t.note(c); err != nil {
		return err
	}
	return t.launch(c, k, blocks(l.Total, threads*steps))
}

var selectWide = named("move", "index_select_u128")

// shortLine is the number of elements of a line up to which one thread does it: it looks at each pair of them.
const shortLine = 16

// scatterSpace is the workspace for sorting the elements, unless lines are short.
func scatterSpace(c *op.Call) uint64 {
	if c.In[1].Shape[c.I[0]] <= shortLine {
		return 0
	}
	return sortSpace(c.In[1].Len())
}

var scatterEntries = named("scatter", "scatter_entries")

// scatter makes the Func of Scatter or ScatterAdd.
func scatter(name, suffix string) op.Func {
	lines, runs := named("scatter", name+"_lines_"+suffix), named("scatter", name+"_runs_"+suffix)
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		total, size := c.In[1].Len(), c.Out[0].Len()
		if total == 0 || size == 0 {
			return nil
		}
		if total >= maxLoop || size >= maxLoop { // an entry to be sorted has 32 bits for where it goes, and 32 for where it came from
			return op.Errorf(c.Op, op.ErrCall, "%d elements to %d are too many", total, size)
		}
		if c.In[1].Shape[c.I[0]] <= shortLine {
			return t.scatterLines(c, lines)
		}
		return t.scatterRuns(c, runs)
	}
}

// scatterLines launches a thread for each line.
func (t *task) scatterLines(c *op.Call, k *kernel) error {
	dim := int(c.I[0])
	dst, a, index := c.Out[0], c.In[0], c.In[1]
	n, size := index.Shape[dim], dst.Shape[dim]
	dst.Shape = index.Shape // which may be smaller: what lies beyond is left alone
	dst.Shape[dim] = 1
	t.loop.Begin(&dst)
	t.loop.Add(&a)
	t.loop.Add(&index)
	t.loop.Finish()
	t.loop.walk(&t.params)
	// A Line: n has 32 bits there, and 32 unused ones behind it.
	t.params.Words(uint64(n), uint64(size), uint64(dst.Strides[dim]), uint64(a.Strides[dim]), uint64(index.Strides[dim]))
	t.params.Ptr(t.loop.Ptr[0]).Ptr(t.loop.Ptr[1]).Ptr(t.loop.Ptr[2])
	return t.noted(c, k, t.loop.Total)
}

// scatterRuns sorts the elements by where they go, and launches a thread for each.
func (t *task) scatterRuns(c *op.Call, k *kernel) error {
	dim := int(c.I[0])
	dst, index := c.Out[0], c.In[1]
	size, step := dst.Shape[dim], dst.Strides[dim]
	numbers := rowMajor(&index)      // what orders the walk; it has no memory, and the kernel does not look at its places
	dst.Ptr, dst.Strides[dim] = 0, 0 // a walk over it gives the offsets of lines in the output, to which the kernel adds index*step
	t.loop.Begin(&numbers)
	t.loop.Add(&index)
	t.loop.Add(&dst)
	t.loop.Finish()
	t.loop.walk(&t.params)
	t.params.Ptr(t.loop.Ptr[1]).Int64(int64(size)).Int64(int64(step)).Ptr(c.Work.Ptr)
	if err := t.noted(c, scatterEntries, t.loop.Total); err != nil {
		return err
	}
	// Equal places lie side by side then, in the order in which the elements came: what is added up does not depend on which block
	// was faster, as it would with atomic additions.
	sorted, err := t.sort(c, t.loop.Total, c.Out[0].Len()) // by places in the output, of which no two lines have the same
	if err != nil {
		return err
	}
	t.loop.Begin(&numbers)
	t.loop.Add(&c.In[0])
	t.loop.Finish()
	t.loop.walk(&t.params)
	t.params.Ptr(c.Out[0].Ptr).Ptr(t.loop.Ptr[1]).Ptr(sorted)
	return t.launch(c, k, blocks(t.loop.Total, threads))
}

// rowMajor is a view of v's shape that numbers its elements: it makes a walk go over them in row-major order.
func rowMajor(v *op.View) op.View {
	r := op.View{Ptr: device.Ptr(0), DType: dtype.Uint8, NDim: v.NDim, Shape: v.Shape}
	step := 1
	for d := v.NDim - 1; d >= 0; d-- {
		r.Strides[d] = step
		step *= v.Shape[d]
	}
	return r
}
