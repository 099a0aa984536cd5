package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// The gradient of a convolution's kernel by the kernels of src/conv_weight.cu: over operands with their channels last, where they are
// if they lie so and else in copies in the workspace, or of one tap over images whose places are a line.

// weightKernels are those of a type, or nil: last and lines by rows of their tiles, as in weightTiles.
type weightKernels struct {
	last, lines [2]*kernel
	spots, sum  *kernel
}

var weightSpots = named("conv_weight", "conv_weight_spots")

var weightTiles = [2]int{64, 128}

const (
	weightPiece   = 8   // rows or channels that are copied at a time
	weightColumns = 128 // of a tile
	weightWhole   = 64  // rows and columns of a warp, of which partial sums are a multiple
	weightDeep    = 512 // places that are worth a split
	weightSpot    = 8   // bytes of a Spot, of which there is one for each place
)

func weightKernelsOf(d dtype.DType) *weightKernels {
	if d.Size() != 2 {
		return nil
	}
	name := func(way string) [2]*kernel {
		return [2]*kernel{roomy("conv_weight", "conv_weight_"+way+"_64_"+suffixes[d]), roomy("conv_weight", "conv_weight_"+way+"_128_"+suffixes[d])}
	}
	return &weightKernels{name("last"), name("lines"), weightSpots, named("conv_weight", "conv_weight_sum_"+suffixes[d])}
}

// weightWay is how the gradient of a kernel is computed.
type weightWay int

const (
	gathered weightWay = iota // element by element, by the kernels of src/conv.cu and src/conv_tensor.cu
	lasting                   // from places with the channels last
	lined                     // from places in lines, where they are
)

// weightWay chooses from nothing but the call, as the workspace depends on it.
func (p *convolution) weightWay(d dtype.DType) weightWay {
	taps, channels := p.axis[0].Taps*p.axis[1].Taps, p.channels(true)
	if d != dtype.Float16 && d != dtype.BFloat16 || p.m%weightPiece != 0 || channels%weightPiece != 0 || taps > lastTaps {
		return gathered
	}
	if p.m < tile/2 || p.n < tile || p.k == 0 || p.groups*max(p.m, channels) > maxGridZ || max(p.k, p.k/p.places()*p.rows*p.columns*p.groups*channels/weightPiece, p.m*wholeSums(p.n)/4) >= maxLoop {
		return gathered
	}
	if p.inLines() {
		return lined
	}
	return lasting
}

// places is how many an image of results has.
func (p *convolution) places() int { return max(1, p.axis[0].Size*p.axis[1].Size) }

// inLines reports whether images and results have the same places, in lines without gaps, of which 16 bytes can be copied at a time.
func (p *convolution) inLines() bool {
	if !p.samePlaces() || p.rows*p.columns%weightPiece != 0 || p.left%16 != 0 || p.right%16 != 0 {
		return false
	}
	left, ok1 := line(p.rows, p.a[3], p.columns, p.a[4])
	right, ok2 := line(p.rows, p.b[3], p.columns, p.b[4])
	for _, step := range [6]int{p.a[0], p.a[1], p.a[2], p.b[0], p.b[1], p.b[2]} {
		if step%weightPiece != 0 {
			return false
		}
	}
	return ok1 && ok2 && left == 1 && right == 1
}

// lineSteps is the places of all images, each counted up to whole steps of the sum.
func (p *convolution) lineSteps() int {
	each := p.places()
	return p.k / each * blocksOf(each, lastChannels) * lastChannels
}

// cutWeight splits the sum of a gradient of a kernel. As in cut, it depends on sizes alone.
func (p *convolution) cutWeight(way weightWay) {
	k := p.k
	if way == lined {
		k = p.lineSteps()
	}
	// A block of 64 rows has two warps, of 128 four: 2*busy of the former are what a GPU computes at a time.
	n := max(1, min(2*busy/(p.groups*blocksOf(p.m, tile)*blocksOf(p.n, weightColumns)), k/weightDeep, maxGridZ/p.groups))
	p.part = ((k+n-1)/n + lastChannels - 1) &^ (lastChannels - 1)
	p.splits = (k + p.part - 1) / p.part
}

// wholeSums is the rows or columns that partial sums of so many have.
func wholeSums(n int) int { return blocksOf(n, weightWhole) * weightWhole }

// weightSpace is the bytes of copies of results and images, of spots, and of partial sums, each at a multiple of 16.
func (p *convolution) weightSpace(way weightWay, d dtype.DType) (left, right, spots, sums uint64) {
	if way == lasting {
		images := p.k / p.places()
		if from := p.resultPlaces(); !from.last(p.left) {
			left = uint64(p.k*p.groups*p.m*d.Size()+15) &^ 15
		}
		if from := p.sourcePlaces(); !from.last(p.right) {
			right = uint64(images*p.rows*p.columns*p.groups*p.channels(true)*d.Size()+15) &^ 15
		}
		spots = uint64(blocksOf(p.k, lastChannels) * lastChannels * weightSpot)
	}
	return left, right, spots, uint64(p.splits*p.groups*wholeSums(p.m)*wholeSums(p.n)) * 4
}

// resultPlaces are the results of a product whose steps are places, and sourcePlaces its images.
func (p *convolution) resultPlaces() places {
	all := p.groups * p.m
	return places{p.k / p.places(), p.axis[0].Size, p.axis[1].Size, all, all, [4]int{p.a[2], p.a[3], p.a[4], p.a[1]}}
}

func (p *convolution) sourcePlaces() places {
	all := p.groups * p.channels(true)
	return places{p.k / p.places(), p.rows, p.columns, all, all, [4]int{p.b[1], p.b[3], p.b[4], p.b[2]}}
}

// launchWeight enqueues the copies if there are any, the product, and the kernel that adds up its splits.
func (p *convolution) launchWeight(c *op.Call, k *convKernels, way weightWay) error {
	t := takeTask()
	defer tasks.Put(t)
	left, right, spots, _ := p.weightSpace(way, c.Out[0].DType)
	q, kernels := *p, &k.weight.lines
	at := c.Work.Ptr + device.Ptr(left+right)
	q.sums = at + device.Ptr(spots)
	if way == lasting {
		kernels = &k.weight.last
		q.left, q.right = c.Work.Ptr, c.Work.Ptr+device.Ptr(left)
		if err := p.turnWeight(t, c, k, &q, at); err != nil {
			return err
		}
	} else {
		q.k = p.lineSteps()
	}
	which := 1
	if blocksOf(p.m, side)*side > blocksOf(p.m, side/2)*(side/2) { // half of the last tile of 128 would be empty
		which = 0
	}
	rows := weightTiles[which]
	shape := device.LaunchShape{Block: device.Dim3{X: uint32(rows)}, Shared: uint32(weightShared(way, rows))}
	shape.Grid = device.Dim3{X: uint32(blocksOf(p.n, weightColumns)), Y: uint32(blocksOf(p.m, rows)), Z: uint32(p.groups * p.splits)}
	q.add(&t.params, 0)
	t.params.Ptr(q.left).Ptr(q.right).Ptr(at).Ptr(q.sums)
	if err := t.launchShape(c, kernels[which], shape); err != nil {
		return err
	}
	fours, channels := divisor(wholeSums(p.n)/4), divisor(p.channels(true))
	q.add(&t.params, 0)
	t.params.Words(pair(fours[0], fours[1]), pair(fours[2], channels[0]), pair(channels[1], channels[2])).Ptr(q.dst).Ptr(q.sums)
	grid := blocks(p.m*wholeSums(p.n)/4, threads)
	grid.Y = uint32(p.groups)
	return t.launch(c, k.weight.sum, grid)
}

// weightShared is the bytes of shared memory of a block: stages, in which rows have 16 bytes more than their elements, and Spots of four steps.
func weightShared(way weightWay, rows int) int {
	if way == lasting {
		return lastStages*lastChannels*(rows+weightColumns+16)*2 + 4*lastChannels*8
	}
	return lastStages * (rows + weightColumns) * (lastChannels + 8) * 2
}

// turnWeight enqueues the copies of results and images to q's operands, where they are needed, and the spots of all places, with distances of b in pieces.
func (p *convolution) turnWeight(t *task, c *op.Call, k *convKernels, q *convolution, spots device.Ptr) error {
	channels := p.channels(true)
	if from := p.resultPlaces(); from.last(p.left) {
		q.left = p.left
	} else if err := from.turn(t, c, k.last.turn, q.left, p.left); err != nil {
		return err
	}
	if from := p.sourcePlaces(); from.last(p.right) {
		q.right = p.right
	} else if err := from.turn(t, c, k.last.turn, q.right, p.right); err != nil {
		return err
	}
	pieces := p.groups * channels / weightPiece
	q.a = [5]int{p.m, 1, p.groups * p.m}
	q.b = [5]int{channels, p.rows * p.columns * pieces, 1, p.columns * pieces, pieces}
	q.add(&t.params, 0)
	t.params.Ptr(spots)
	return t.launch(c, k.weight.spots, blocks(blocksOf(p.k, lastChannels)*lastChannels, threads))
}
