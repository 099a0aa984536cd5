package cuda

import (
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// CumSum, CumProd and CumProdGrad. What src/scan.cu computes is planned here, from the call alone.

// scanItems is ITEMS in src/scan.cu.
const scanItems = 4

// scanPlan is ScanPlan in src/scan.cu.
type scanPlan struct{ columns, lanes, part, splits int }

// scanRows: the gradient of CumSum needs no kernel, being a running sum from the other end.
func scanRows() []op.Row {
	var rows []op.Row
	for _, id := range []op.ID{op.CumSum, op.CumProd, op.CumProdGrad} {
		r := typedRow(id, func(d dtype.DType) op.Func { return scan(id, d) })
		r.Workspace = scanSpace
		rows = append(rows, r)
	}
	return rows
}

// scan makes the Func of a scan. A call of one input gives it three times.
func scan(id op.ID, d dtype.DType) op.Func {
	name := id.String() + "_" + suffixes[d]
	whole, part := named("scan", name), named("scan", name+"_part")
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		p, steps := t.scanPlan(c)
		if t.loop.Total == 0 || p.columns == 0 {
			return nil
		}
		if t.loop.Total >= maxLoop || p.columns >= maxLoop {
			return op.Errorf(c.Op, op.ErrCall, "%d rows of %d elements are too many", t.loop.Total, p.columns)
		}
		grid := blocks(t.loop.Total, threads/p.lanes)
		grid.Y = uint32(p.splits) // 256 at most: a block of the second launch adds up one total for each thread
		run := func(k *kernel) error {
			t.loop.walk(&t.params)
			t.params.Words(pair(uint32(p.columns), uint32(p.lanes)), pair(uint32(p.part), uint32(p.splits)))
			for k := range t.loop.N {
				t.params.Ptr(t.loop.Ptr[k])
			}
			t.params.Words(uint64(steps[0]), uint64(steps[1]), uint64(steps[2]), uint64(steps[3])).Ptr(c.Work.Ptr)
			return t.launch(c, k, grid)
		}
		if p.splits > 1 { // the totals of the parts, of which the second launch finds those before its own in the workspace
			if err := run(part); err != nil {
				return err
			}
		}
		return run(whole)
	}
}

// scanPlan sets loop to the first elements of the rows, and chooses how threads share them: few long rows are cut into parts of
// a block each, of which a block must be able to add up the totals at once.
func (t *task) scanPlan(c *op.Call) (p scanPlan, steps [4]int) {
	views := [4]op.View{c.Out[0], c.In[0], c.In[0], c.In[0]}
	copy(views[2:], c.In[1:]) // CumProdGrad has three inputs
	last := views[0].NDim - 1
	p = scanPlan{columns: views[0].Shape[last], splits: 1}
	for k := range views {
		steps[k] = views[k].Strides[last]
		views[k].Shape[last] = 1
	}
	t.loop.Set(&views[0], views[1:])
	size, near := t.loop.inner(1)
	// A row is scanned by a thread, a warp or a block. What is long and alone is cut into parts, and read twice: for their totals, and again.
	switch tile := threads * scanItems; {
	case size >= 32 && abs(near) < abs(steps[1]) || p.columns <= scanItems:
		p.lanes = 1 // a thread for each row: neighbouring threads read neighbouring elements, of neighbouring rows
	case p.columns <= tile:
		p.lanes = 32 // a warp, which needs no barrier
	default:
		p.lanes = threads
		if t.loop.Total < busy && p.columns > 4*tile {
			p.splits = min((busy+t.loop.Total-1)/max(t.loop.Total, 1), (p.columns+2*tile-1)/(2*tile), threads)
		}
	}
	// The bits depend on the parts, and those on the call alone.
	p.part = max(1, (p.columns+p.splits-1)/p.splits)
	p.splits = max(1, (p.columns+p.part-1)/p.part)
	return p, steps
}

// scanSpace is the workspace of a scan: what the parts of each row have together.
func scanSpace(c *op.Call) uint64 {
	t := takeTask()
	defer tasks.Put(t)
	p, _ := t.scanPlan(c)
	if p.splits == 1 {
		return 0
	}
	size := uint64(8)
	if d := c.In[0].DType; d.IsFloat() && d != dtype.Float64 && c.Op != op.CumProd {
		size = 4 // sums of float32 and of half types, and gradients of products; products are formed in double
	}
	if c.Op == op.CumProdGrad {
		size *= 2
	}
	return size * uint64(t.loop.Total) * uint64(p.splits)
}
