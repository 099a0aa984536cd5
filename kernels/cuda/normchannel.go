package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Normalisation of channels: src/norm_channel.cu.

// channelPlan is Channels in src/norm_channel.cu, and what belongs to it.
type channelPlan struct {
	n, c, l int  // images, channels, and elements of a channel in an image
	groups  int  // of channels; 0 if statistics belong to channels
	part    int  // rows, or elements of a channel, that a block adds up
	splits  int  // blocks of a channel; each leaves its sums in the workspace, and a second kernel joins them in their order
	columns bool // l is 1: rows are added up, else elements of a channel
	width   int  // elements of a vector, for sums; 1 if there are none
	flags   int64
	eps     float64
}

// planChannels takes a call over [N, C, L]; a is a view of that shape.
func planChannels(c *op.Call, a *op.View) channelPlan {
	p := channelPlan{n: a.Shape[0], c: a.Shape[1], l: a.Shape[2], groups: int(c.I[0]), flags: c.I[1], eps: c.F[0]}
	p.columns, p.width = p.l == 1, 1
	return p
}

// widen makes sums go by vectors, if neighbours lie so: of a row's channels, which must be of one group, or of a channel's elements.
func (p *channelPlan) widen(full ...op.View) {
	n := 16 / full[0].DType.Size()
	across := p.l
	if p.columns {
		across = p.c / max(p.groups, 1)
	}
	for i := range full {
		if across%n != 0 || !aligned(16, full[i].Ptr) {
			return
		}
	}
	p.width = n
	if !p.columns { // from here on l counts vectors; see counted
		p.l /= n
	}
}

// divide chooses how the sums over a channel are split between blocks.
func (p *channelPlan) divide() {
	const columns = 64 // COLUMNS in the source
	// total is what a channel has, across the blocks that one split makes, and deep what is worth a block: some loads for each of its threads.
	total, across, deep := p.n*p.l, p.c, 8*threads/min(p.width, 2)
	if p.columns {
		total, across, deep = p.n, (p.c+columns-1)/columns, 16*threads/columns*min(p.width, 2)
	}
	if total == 0 {
		return // no parts: the sums are those of nothing
	}
	p.splits = max(1, min((2*busy+across-1)/max(across, 1), (total+deep-1)/deep, 1024))
	p.part = (total + p.splits - 1) / p.splits
	p.splits = (total + p.part - 1) / p.part // parts are rounded up: the last ones may have become empty
}

// add appends Channels. Two divisions are prepared: a place by l is image and channel, and that by c is the image.
func (p *channelPlan) add(params *device.Params) {
	flag := func(f int64) uint32 {
		if p.flags&f != 0 {
			return 1
		}
		return 0
	}
	per := p.c
	if p.groups > 0 {
		per = p.c / p.groups
	}
	l, c := divisor(max(p.l, 1)), divisor(max(p.c, 1))
	params.Words(pair(uint32(p.n), uint32(p.c)), pair(uint32(p.groups), uint32(per)), pair(uint32(p.part), uint32(p.splits)),
		pair(flag(op.NormRMS), flag(op.NormVariance)), pair(l[0], l[1]), pair(l[2], c[0]), pair(c[1], c[2]),
		math.Float64bits(p.eps), math.Float64bits(float64(p.n)*float64(p.l)*float64(p.counted())))
}

// counted is the number of elements of what l counts.
func (p *channelPlan) counted() int {
	if p.columns {
		return 1
	}
	return p.width
}

// fold launches the kernel that adds up parts of channels; the caller has appended its parameters.
func (p *channelPlan) fold(t *task, c *op.Call, columns, runs variants) error {
	if p.n*p.l*p.counted() >= maxLoop || p.c >= maxLoop {
		return op.Errorf(c.Op, op.ErrCall, "%d channels of %d elements are too many", p.c, p.n*p.l)
	}
	if p.splits == 0 { // no elements: the kernel that joins finds no parts
		t.params.Reset()
		return nil
	}
	k, grid := runs, device.Dim3{X: uint32(p.c)}
	if p.columns {
		k, grid = columns, blocks(p.c, 64)
	}
	grid.Y = uint32(p.splits)
	if p.width > 1 {
		return t.launch(c, k.vector, grid)
	}
	return t.launch(c, k.strided, grid)
}

// planSums is the plan of NormSums or ChannelStats.
func planSums(c *op.Call) channelPlan {
	p := planChannels(c, &c.In[0])
	if c.Op == op.NormSums {
		p.widen(c.In[1], c.In[0]) // as many elements as 16 bytes have of what was normalised, which may be float32 beside a half type
	} else {
		p.widen(c.In[0])
	}
	p.divide()
	return p
}

// normSpace is the workspace of NormSums and ChannelStats: an accumulator for each channel and part.
func normSpace(c *op.Call) uint64 {
	a, numbers := &c.In[0], uint64(2)
	if c.Op == op.ChannelStats {
		numbers = 3
	}
	p := planSums(c)
	return uint64(p.splits) * uint64(p.c) * numbers * uint64(op.ComputeType(a.DType).Size())
}

// normSums makes the Func of NormSums.
func normSums(d dtype.DType) op.Func {
	columns, runs := variantsOf("norm_channel", "norm_sums_columns_"+suffixes[d]), variantsOf("norm_channel", "norm_sums_runs_"+suffixes[d])
	join := sumsJoin[op.ComputeType(d)]
	var mixed [2]variants
	if d.Size() == 2 {
		mixed = [2]variants{variantsOf("norm_channel", "norm_sums_columns_mixed_"+suffixes[d]), variantsOf("norm_channel", "norm_sums_runs_mixed_"+suffixes[d])}
	}
	return func(c *op.Call) error {
		p := planSums(c)
		columns, runs := columns, runs
		if c.In[1].DType != d {
			columns, runs = mixed[0], mixed[1]
		}
		if p.c == 0 {
			return nil
		}
		t := takeTask()
		defer tasks.Put(t)
		p.add(&t.params)
		t.params.Ptr(c.Work.Ptr).Ptr(c.In[0].Ptr).Ptr(c.In[1].Ptr).Ptr(c.In[2].Ptr).Ptr(c.In[len(c.In)-1].Ptr)
		if err := p.fold(t, c, columns, runs); err != nil {
			return err
		}
		p.add(&t.params)
		t.params.Ptr(c.Out[0].Ptr).Ptr(c.Out[1].Ptr).Ptr(c.Work.Ptr)
		return t.launch(c, join, blocks(p.c, threads))
	}
}

var sumsJoin = [dtype.Count]*kernel{
	dtype.Float32: named("norm_channel", "norm_sums_join_f32"), dtype.Float64: named("norm_channel", "norm_sums_join_f64"),
}

// statsJoin are the kernels that finish ChannelStats, by the type of running statistics.
var statsJoin = [dtype.Count]*kernel{
	dtype.Float32: named("norm_channel", "channel_stats_join_f32_f32"), dtype.Float64: named("norm_channel", "channel_stats_join_f64_f64"),
	dtype.Float16: named("norm_channel", "channel_stats_join_f32_f16"), dtype.BFloat16: named("norm_channel", "channel_stats_join_f32_bf16"),
}

// channelStats makes the Func of ChannelStats.
func channelStats(d dtype.DType) op.Func {
	columns, runs := variantsOf("norm_channel", "channel_stats_columns_"+suffixes[d]), variantsOf("norm_channel", "channel_stats_runs_"+suffixes[d])
	return func(c *op.Call) error {
		p := planSums(c)
		if p.c == 0 {
			return nil
		}
		t := takeTask()
		defer tasks.Put(t)
		p.add(&t.params)
		t.params.Ptr(c.Work.Ptr).Ptr(c.In[0].Ptr)
		if err := p.fold(t, c, columns, runs); err != nil {
			return err
		}
		var mean, variance device.Ptr
		join := statsJoin[op.ComputeType(d)] // without running statistics their type is no matter
		if c.I[1]&op.NormRunning != 0 {
			mean, variance = c.Out[2].Ptr, c.Out[3].Ptr
			join = statsJoin[c.Out[2].DType]
		}
		p.add(&t.params)
		t.params.Ptr(c.Out[0].Ptr).Ptr(c.Out[1].Ptr).Ptr(mean).Ptr(variance).Float64(c.F[1]).Ptr(c.Work.Ptr)
		return t.launch(c, join, blocks(p.c, threads))
	}
}

// channelNorm makes the Func of ChannelNorm.
func channelNorm(d dtype.DType) op.Func {
	kernels := pairsOf("norm_channel", op.ChannelNorm, d)
	return func(c *op.Call) error {
		weight, bias, w := optional(c.I[1], c.In[3:], d)
		p := planChannels(c, &c.In[0])
		return p.everywhere(c, kernels[w], c.In[:1], func(params *device.Params) {
			params.Ptr(c.In[1].Ptr).Ptr(c.In[2].Ptr).Ptr(weight).Ptr(bias)
		})
	}
}

// channelNormGrad makes the Func of ChannelNormGrad.
func channelNormGrad(d dtype.DType) op.Func {
	kernels := pairsOf("norm_channel", op.ChannelNormGrad, d)
	return func(c *op.Call) error {
		weight, _, w := optional(c.I[1]&op.NormWeight, c.In[4:], d)
		var product, sum device.Ptr
		if c.I[1]&op.NormTraining != 0 {
			product, sum = c.In[len(c.In)-2].Ptr, c.In[len(c.In)-1].Ptr
		}
		p := planChannels(c, &c.In[1])
		return p.everywhere(c, kernels[w], c.In[:2], func(params *device.Params) {
			params.Ptr(c.In[2].Ptr).Ptr(c.In[3].Ptr).Ptr(weight).Ptr(product).Ptr(sum)
		})
	}
}

// everywhere launches a kernel on all elements: of Out[0] and the views of its shape. rest appends the parameters after
// those. What is too large for one launch is cut along the first dimension.
func (p *channelPlan) everywhere(c *op.Call, k variants, full []op.View, rest func(*device.Params)) error {
	row := p.c * p.l
	if row == 0 {
		return nil
	}
	if row >= maxLoop {
		return op.Errorf(c.Op, op.ErrCall, "%d channels of %d elements are too many", p.c, p.l)
	}
	t := takeTask()
	defer tasks.Put(t)
	size, each := c.Out[0].DType.Size(), min(p.n, (maxLoop-1)/row) // whole images, so that places count from an image's first element
	for first := 0; first < p.n; first += each {
		total := min(each, p.n-first) * row
		skip := uint64(first) * uint64(row) * uint64(size)
		chosen, width := k.vector, 16/size
		p.add(&t.params)
		t.params.Int32(int32(total)).Ptr(c.Out[0].Ptr.Add(skip))
		straight := aligned(16, c.Out[0].Ptr.Add(skip)) // of each launch anew: rows need not be of whole vectors
		for i := range full {
			t.params.Ptr(full[i].Ptr.Add(skip))
			straight = straight && aligned(16, full[i].Ptr.Add(skip))
		}
		if !straight {
			chosen, width = k.strided, 1
		}
		rest(&t.params)
		if err := t.launch(c, chosen, blocks(total, threads*steps*width)); err != nil {
			return err
		}
	}
	return nil
}
