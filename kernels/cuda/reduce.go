package cuda

import (
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/internal/loops"
	"github.com/cistern-ml/cistern/kernels/op"
)

// The reductions. What src/reduce.h computes is planned here, from the call alone.

// busy is the number of blocks from which on a reduction of few outputs is not split further. It is a constant, and not the
// number of the GPU's multiprocessors, so that sums are the same bits on all of them.
const busy = 264 // two blocks for each of an H100's 132 multiprocessors

// plan is Plan in src/reduce.h.
type plan struct {
	lanes  int  // threads of an output, a power of two
	part   int  // elements of a split, of each output
	splits int  // blocks of an output; more than one leave their results in the workspace, for a second kernel
	across bool // neighbouring threads have neighbouring outputs, and not neighbouring elements of one: whichever lies closer in memory
	width  int  // elements of a vector; 1 if there are none
}

// reduceRows: all of them take the same plan, and differ in a reducer of src/reducers.h.
func reduceRows() []op.Row {
	var rows []op.Row
	for _, id := range []op.ID{op.Sum, op.Mean, op.Prod, op.Max, op.Min, op.ArgMax, op.ArgMin, op.Any, op.All,
		op.Norm1, op.Norm2, op.MeanSquare, op.NormMax, op.NormMin, op.CountNonzero, op.LogSumExp} {
		r := typedRow(id, func(d dtype.DType) op.Func { return reduction(id, d) })
		r.Workspace = reduceSpace
		rows = append(rows, r)
	}
	return rows
}

// reduction makes the Func of a reduction.
func reduction(id op.ID, d dtype.DType) op.Func {
	module := reduceModule(id, d)
	name := id.String() + "_" + suffixes[d]
	first, join := named(module, name), named(module, name+"_join")
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		t.separate(c)
		if t.loop.Total == 0 {
			return nil
		}
		if t.loop.Total >= maxLoop || t.cut.Total >= maxLoop {
			return op.Errorf(c.Op, op.ErrCall, "%d outputs of %d elements each are too many", t.loop.Total, t.cut.Total)
		}
		p := t.plan(c.Op)
		t.loop.walk(&t.params)
		t.cut.walk(&t.params)
		t.params.Words(pair(uint32(p.lanes), uint32(truth(p.across))), pair(uint32(p.part), uint32(p.splits)), uint64(truth(p.width > 1)))
		t.params.Ptr(t.loop.Ptr[0]).Ptr(t.loop.Ptr[1] + t.cut.Ptr[0]).Ptr(c.Work.Ptr) // cut's address is a distance, 0 unless a dimension was flipped
		grid := blocks(t.loop.Total, p.outputs())
		grid.Y = uint32(p.splits) // 1024 at most, of the 65,535 that the second dimension can have
		if err := t.launch(c, first, grid); err != nil || p.splits == 1 {
			return err
		}
		// The second kernel comes behind the first on the stream. It adds the splits in their order.
		lanes := min(threads, powerUp(p.splits))
		t.loop.walk(&t.params)
		t.params.Int32(int32(p.splits)).Int32(int32(t.cut.Total)).Int32(int32(lanes)).Ptr(t.loop.Ptr[0]).Ptr(c.Work.Ptr)
		return t.launch(c, join, blocks(t.loop.Total, threads/lanes))
	}
}

// reduceModule is where the kernels of a reduction are.
func reduceModule(id op.ID, d dtype.DType) string {
	switch {
	case id >= op.Norm1 && id <= op.LogSumExp:
		return "reduce_norm"
	case d.IsFloat():
		return "reduce_float"
	}
	return "reduce_integer"
}

// separate sets loop to the outputs and the input elements with all reduced indices 0, and cut to the reduced dimensions of
// the input alone. cut.Ptr[0] is what its flipped dimensions add to the input's address.
func (t *task) separate(c *op.Call) {
	dst, a := &c.Out[0], &c.In[0]
	k := op.View{Ptr: dst.Ptr, DType: dst.DType}
	in := op.View{Ptr: a.Ptr, DType: a.DType}
	x := op.View{DType: a.DType}
	// A dimension of one element in both is kept, of no consequence: the nests drop it.
	arg := c.Op == op.ArgMax || c.Op == op.ArgMin
	for d := range a.NDim {
		if dst.Shape[d] == 1 && a.Shape[d] != 1 {
			x.Shape[x.NDim], x.Strides[x.NDim] = a.Shape[d], a.Strides[d]
			x.NDim++
			continue
		}
		k.Shape[k.NDim], k.Strides[k.NDim] = dst.Shape[d], dst.Strides[d]
		in.Shape[k.NDim], in.Strides[k.NDim] = dst.Shape[d], a.Strides[d]
		k.NDim++
	}
	in.NDim = k.NDim
	t.loop.Begin(&k)
	t.loop.Add(&in)
	t.loop.Finish()
	if arg && x.NDim == 1 { // places count from the first element: the dimension must not be flipped
		t.cut = loop{loops.Nest{NDim: 1, N: 1, Total: x.Shape[0]}}
		t.cut.Shape[0], t.cut.Stride[0][0] = x.Shape[0], x.Strides[0]
		return
	}
	t.cut.Begin(&x) // merged and sorted: the order of elements is free, but for places
	t.cut.Finish()
}

// plan chooses how threads share the work of loop and cut. A block's share is some loads for each thread.
func (t *task) plan(id op.ID) plan {
	n, outputs := t.cut.Total, t.loop.Total
	columns, near := t.loop.inner(1)
	_, step := t.cut.inner(0)
	p := plan{lanes: 1, splits: 1}
	// Neighbouring threads should read what lies side by side. Eight outputs of float32 fill a sector of 32 bytes, the least that memory gives.
	p.across = columns >= 8 && n > 1 && abs(near) <= abs(step)
	p.width = 1
	if id != op.ArgMax && id != op.ArgMin && id != op.LogSumExp { // vectors in the source
		p.width = t.width(p.across)
	}
	deep, most := 32, busy // elements of a lane that are worth a block, and blocks that are enough
	if p.across {
		side := min(powerUp(columns/p.width), 32) // neighbouring threads of a block with outputs of their own
		p.lanes = min(threads/side, powerUp(n/4)) // four loads are on their way at a time: fewer elements than that are not worth a lane
		if p.width > 1 {
			deep = 8
		}
	} else {
		p.lanes = min(threads, powerUp(n/(4*p.width)))
		deep = max(deep, 8*p.width)
	}
	if p.width > 1 {
		most *= 4 // these wait for memory alone
	}
	count := (outputs + p.outputs() - 1) / p.outputs()
	deep *= p.lanes
	if count < most && n > 2*deep {
		p.splits = min((most+count-1)/count, (n+deep-1)/deep, 1024) // 1024: of which the second kernel gives each of its 256 threads four
	}
	p.part = max(1, (n+p.splits-1)/p.splits)
	if !p.across { // each split begins at a vector
		p.part = (p.part + p.width - 1) / p.width * p.width
	}
	p.splits = max(1, (n+p.part-1)/p.part)
	return p
}

// outputs is the number of outputs of a block.
func (p *plan) outputs() int {
	if p.across {
		return threads / p.lanes * p.width
	}
	return threads / p.lanes
}

// width is the number of elements of a vector: 1 unless those along the inner dimension, of the outputs or of what is reduced, are
// neighbours, and all other steps are of whole vectors.
func (t *task) width(across bool) int {
	n := min(16/t.loop.Size[1], 8) // WIDE in the source: of bytes eight, since each has an accumulator in registers
	for _, l := range []struct {
		*loop
		operand int
		inner   bool
	}{{&t.loop, 1, across}, {&t.cut, 0, !across}} {
		for d, step := range l.Stride[l.operand][:l.NDim] {
			switch {
			case !l.inner || d < l.NDim-1:
				if step%n != 0 {
					return 1
				}
			case step != 1, (across || l.NDim > 1) && l.Shape[d]%n != 0:
				return 1
			}
		}
	}
	if !across && t.cut.NDim == 0 || uint64(t.loop.Ptr[1]+t.cut.Ptr[0])%uint64(n*t.loop.Size[1]) != 0 {
		return 1
	}
	return n
}

func abs(n int) int { return max(n, -n) }

// powerUp is the least power of two that is at least n.
func powerUp(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}

// reduceSpace is the workspace of a reduction: an accumulator for each output and split.
func reduceSpace(c *op.Call) uint64 {
	t := takeTask()
	defer tasks.Put(t)
	t.separate(c)
	if t.loop.Total == 0 {
		return 0
	}
	p := t.plan(c.Op)
	if p.splits == 1 {
		return 0
	}
	return uint64(t.loop.Total) * uint64(p.splits) * accumulator(c.Op, c.In[0].DType)
}

// accumulator is the size of a reducer's A in src/reducers.h.
func accumulator(id op.ID, d dtype.DType) uint64 {
	size := uint64(d.Size())
	if d == dtype.Float16 || d == dtype.BFloat16 {
		size = 4
	}
	switch {
	case id == op.ArgMax || id == op.ArgMin:
		return 2 * max(size, 4)
	case (id == op.Sum || id == op.Prod) && !d.IsFloat():
		return 8
	case id == op.Prod && d == dtype.Float64:
		return 16
	case id == op.Prod, id == op.CountNonzero:
		return 8
	case id == op.LogSumExp:
		return 2 * size
	}
	return size
}
