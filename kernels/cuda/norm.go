package cuda

import (
	"math"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// The normalisations: src/norm_row.cu here, src/norm_channel.cu in normchannel.go.

func normRows() []op.Row {
	sums, stats := typedRow(op.NormSums, normSums), typedRow(op.ChannelStats, channelStats)
	sums.Workspace, stats.Workspace = normSpace, normSpace
	return []op.Row{
		typedRow(op.RowNorm, rowNorm), typedRow(op.RowNormGrad, rowNormGrad), sums, stats,
		typedRow(op.ChannelNorm, channelNorm), typedRow(op.ChannelNormGrad, channelNormGrad),
	}
}

// pairs are the kernels of an operation by the type of weight and bias, each by vectors and by single elements.
type pairs [dtype.Count]variants

// pairsOf makes the kernels of an operation of type d, whose weight may also have the type of statistics.
func pairsOf(module string, id op.ID, d dtype.DType) (p pairs) {
	for _, w := range slices.Compact([]dtype.DType{d, op.ComputeType(d)}) {
		p[w] = variantsOf(module, id.String()+"_"+suffixes[d]+"_"+suffixes[w])
	}
	return p
}

// mixedOf makes the kernels of an operation that computes in float32 with a result, or a gradient, of a half type; none for other types.
func mixedOf(id op.ID, half dtype.DType) (k variants) {
	if half.Size() != 2 {
		return k
	}
	return variantsOf("norm_row", id.String()+"_mixed_"+suffixes[half])
}

// optional takes the views of weight and bias, as flags say that they are there, from views, and gives their addresses and
// type: d if there are none.
func optional(flags int64, views []op.View, d dtype.DType) (weight, bias device.Ptr, t dtype.DType) {
	t = d // both have one type: whichever is there tells it
	if flags&op.NormWeight != 0 {
		weight, t = views[0].Ptr, views[0].DType
		views = views[1:]
	}
	if flags&op.NormBias != 0 {
		bias, t = views[0].Ptr, views[0].DType
	}
	return weight, bias, t
}

// aligned reports whether vectors of so many bytes may be read at all addresses; an address of 0 is not read.
func aligned(bytes int, addresses ...device.Ptr) bool {
	for _, p := range addresses {
		if uint64(p)%uint64(bytes) != 0 {
			return false
		}
	}
	return true
}

// rowPlan is Rows in src/norm_row.cu, and what belongs to it.
type rowPlan struct {
	rows, columns int    // of statistics: a row is one group of channels of one image
	lanes         int    // threads of a row
	groups, per   int    // groups of channels, and channels of a group
	neighbours    int    // elements of a channel in a row, which share a weight
	plain, sum    uint32 // 1: no mean; 1: the gradient is added to what is there
	eps           float64
}

// planRows takes a call over [N, C, L] as rows of statistics: of N images with I[0] groups of channels each.
func planRows(c *op.Call) rowPlan {
	a := &c.Out[0]
	p := rowPlan{groups: int(c.I[0]), neighbours: a.Shape[2], eps: c.F[0]}
	p.rows, p.per = a.Shape[0]*p.groups, a.Shape[1]/p.groups
	p.columns = p.per * p.neighbours // contiguous, as the specification wants: a group's channels lie behind each other
	if c.I[1]&op.NormRMS != 0 {
		p.plain = 1
	}
	return p
}

// width is the number of elements of a vector: 1 unless rows and weights can be read by vectors.
func (p *rowPlan) width(d, w dtype.DType, weight, bias device.Ptr, full ...device.Ptr) int {
	// A vector has one weight for all elements, or one for each: neighbours that end within a vector would be neither.
	n := 16 / d.Size()
	if p.columns%n != 0 || p.neighbours%n != 0 && p.neighbours != 1 || !aligned(16, full...) {
		return 1
	}
	if p.neighbours == 1 && !aligned(n*w.Size(), weight, bias) { // weights are read by vectors, too, if each element has its own
		return 1
	}
	return n
}

// add appends the plan for vectors of width elements.
func (p *rowPlan) add(params *device.Params, width int) {
	vectors := p.columns / width
	p.lanes = lanesOf(vectors) // of what is loaded: more lanes would be idle
	d := divisor(p.neighbours)
	params.Words(pair(uint32(p.rows), uint32(p.lanes)), pair(uint32(vectors), uint32(p.groups)), pair(uint32(p.per), p.plain),
		pair(d[0], d[1]), pair(d[2], p.sum), math.Float64bits(p.eps))
}

// launch enqueues the kernel. THREADS/lanes rows share a block, as plans have it.
func (p *rowPlan) launch(t *task, c *op.Call, k variants, width int) error {
	if p.rows >= maxLoop || p.columns >= maxLoop {
		return op.Errorf(c.Op, op.ErrCall, "%d rows of %d elements are too many", p.rows, p.columns)
	}
	chosen := k.strided
	if width > 1 {
		chosen = k.vector
	}
	return t.launch(c, chosen, blocks(p.rows, threads/p.lanes))
}

// rowNorm makes the Func of RowNorm.
func rowNorm(d dtype.DType) op.Func {
	kernels, mixed := pairsOf("norm_row", op.RowNorm, d), mixedOf(op.RowNorm, d)
	return func(c *op.Call) error {
		p := planRows(c)
		if p.rows*p.columns == 0 {
			return nil
		}
		t := takeTask()
		defer tasks.Put(t)
		weight, bias, w := optional(c.I[1], c.In[1:], d)
		dst, a := c.Out[0].Ptr, c.In[0].Ptr
		k := kernels[w]
		if from := c.In[0].DType; from != d { // float32, and so are weight and bias
			k, w = mixed, from
		}
		width := p.width(c.In[0].DType, w, weight, bias, dst, a)
		p.add(&t.params, width)
		t.params.Ptr(dst).Ptr(c.Out[1].Ptr).Ptr(c.Out[len(c.Out)-1].Ptr).Ptr(a).Ptr(weight).Ptr(bias)
		return p.launch(t, c, k, width)
	}
}

// rowNormGrad makes the Func of RowNormGrad.
func rowNormGrad(d dtype.DType) op.Func {
	kernels := pairsOf("norm_row", op.RowNormGrad, d)
	var mixed [dtype.Count]variants // by the type of the gradient
	if d == dtype.Float32 {
		for _, g := range []dtype.DType{dtype.Float16, dtype.BFloat16} {
			mixed[g] = mixedOf(op.RowNormGrad, g)
		}
	}
	return func(c *op.Call) error {
		p := planRows(c)
		if p.rows*p.columns == 0 {
			return nil
		}
		t := takeTask()
		defer tasks.Put(t)
		stats := 2 - int(p.plain)
		weight, _, w := optional(c.I[1]&op.NormWeight, c.In[2+stats:], d)
		dst, g, a := c.Out[0].Ptr, c.In[0].Ptr, c.In[1].Ptr
		k := kernels[w]
		if from := c.In[0].DType; from != d {
			k = mixed[from]
		}
		if c.I[2] != 0 {
			p.sum = 1
		}
		width := p.width(d, w, weight, 0, dst, g, a)
		p.add(&t.params, width)
		t.params.Ptr(dst).Ptr(g).Ptr(a).Ptr(c.In[2].Ptr).Ptr(c.In[1+stats].Ptr).Ptr(weight)
		return p.launch(t, c, k, width)
	}
}
