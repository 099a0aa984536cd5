package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// The launches of a product of conv.go.

// launch enqueues the kernels of a product on the call's stream.
func (p *convolution) launch(c *op.Call, k *convKernels) error {
	weight := c.Op == op.Conv2DGradWeight
	// Columns are blocks of the first dimension of the grid, rows of the second, groups and splits of the third.
	if max(p.m*p.groups, p.n, p.k, p.rows, p.columns) >= maxLoop || blocksOf(p.m, tile) > maxGridZ {
		return op.Errorf(c.Op, op.ErrCall, "%d products of %d by %d by %d are too large", p.groups, p.m, p.k, p.n)
	}
	t := takeTask()
	defer tasks.Put(t)
	p.sums = c.Work.Ptr
	switch {
	case p.direct(weight) && weight:
		if err := p.over(t, c, k.direct, device.Dim3{X: uint32(p.n), Y: uint32(p.m)}, false); err != nil {
			return err
		}
	case p.direct(weight):
		p.splits = 1
		return p.rowwise(t, c, k.direct)
	default:
		f, rows, columns := k.tiles(p)
		grid := blocks(p.n, columns)
		grid.Y = blocks(p.m, rows).X
		if err := p.over(t, c, f, grid, true); err != nil {
			return err
		}
	}
	if p.splits == 1 {
		return nil
	}
	return p.joinSums(t, c, k)
}

// joinSums enqueues the kernel that adds up the splits. It is behind the others on the stream: all are in the workspace.
func (p *convolution) joinSums(t *task, c *op.Call, k *convKernels) error {
	p.add(&t.params, 0)
	t.params.Ptr(p.dst).Ptr(p.added).Ptr(p.sums)
	grid := blocks(p.n, threads)
	grid.Y, grid.Z = uint32(p.m), uint32(p.groups) // both within the grid: sums are split only where there are fewer than busy tiles of 64 rows
	return t.launch(c, k.join, grid)
}

// tiles chooses the kernel of a product, and says how large its tiles are: for tensor cores unless the product is small, and those
// of fewer rows in vain.
func (k *convKernels) tiles(p *convolution) (f *kernel, rows, columns int) {
	switch {
	case k.tensor == nil || p.m <= tile/4 || p.n <= tile/2 || p.k < 16:
		return k.product, tile, tile
	case blocksOf(p.m, side)*side > blocksOf(p.m, side/2)*(side/2): // half of the last tile of 128 would be empty
		return k.low, side / 2, side
	}
	return k.tensor, side, side
}

// over launches a kernel for all pairs of group and split.
func (p *convolution) over(t *task, c *op.Call, f *kernel, grid device.Dim3, takesBias bool) error {
	count := p.groups * p.splits // groups may be more than a grid's third dimension has: first tells the kernel where its launch begins
	for first := 0; first < count; first += maxGridZ {
		p.add(&t.params, first)
		t.params.Ptr(p.dst).Ptr(p.left).Ptr(p.right)
		if takesBias {
			t.params.Ptr(p.added)
		}
		t.params.Ptr(c.Work.Ptr)
		grid.Z = uint32(min(count-first, maxGridZ))
		if err := t.launch(c, f, grid); err != nil {
			return err
		}
	}
	return nil
}

// rowwise launches a kernel of a thread for each result.
func (p *convolution) rowwise(t *task, c *op.Call, f *kernel) error {
	count := p.groups * p.m // a row of a group each, in the second dimension of the grid
	for first := 0; first < count; first += maxGridZ {
		p.add(&t.params, first)
		d := divisor(p.m)
		t.params.Words(pair(d[0], d[1]), uint64(d[2])).Ptr(p.dst).Ptr(p.left).Ptr(p.right).Ptr(p.added)
		grid := blocks(p.n, threads)
		grid.Y = uint32(min(count-first, maxGridZ))
		if err := t.launch(c, f, grid); err != nil {
			return err
		}
	}
	return nil
}

// add appends the Conv, whose launch begins with a pair of group and split.
func (p *convolution) add(params *device.Params, first int) {
	var w [33]uint64
	h, x := &p.axis[0], &p.axis[1] // the kernel has the innermost first
	biased := truth(p.biased) | truth(p.paired)<<1
	halves := [28]int{0: p.m, p.n, p.k, p.part, p.splits, p.groups, first, biased,
		20: h.At0, h.AtTap, h.AtStep, x.At0, x.AtTap, x.AtStep, p.rows, p.columns}
	for i, size := range [4]int{x.Size, h.Size, max(1, x.Taps), max(1, h.Taps)} {
		for j, v := range divisor(max(1, size)) {
			halves[8+3*i+j] = int(v)
		}
	}
	for i, v := range halves {
		put32(w[:], i, uint32(v))
	}
	at := 14
	for _, list := range [3][5]int{p.a, p.b, p.d} {
		for _, v := range list {
			w[at] = uint64(v)
			at++
		}
	}
	w[at] = uint64(p.bias)
	params.Words(w[:at+1]...)
}
