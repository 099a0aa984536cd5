package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Convolutions by the kernels of src/conv_last.cu, which read operands with their channels last. Those that lie so are read where they are; of others
// the workspace has copies, which read and write each element of image and kernel once more.

// lastKernels are those of a type, or nil.
type lastKernels struct {
	turn    *kernel // writes an operand with the channels last
	product [2]*kernel
}

// The tiles of lastKernels.product: rows by columns.
var lastTiles = [2][2]int{{64, 256}, {128, 128}}

const (
	lastChannels = 32 // a step of the sum, which lies within one tap
	lastPiece    = 8  // channels that are copied at a time
	lastLeast    = 24 // channels of which at most half are zeros
	lastTaps     = 32 // a bit each
	lastStages   = 3
	lastThreads  = 128
)

func lastKernelsOf(d dtype.DType) *lastKernels {
	if d != dtype.Float16 && d != dtype.BFloat16 {
		return nil
	}
	k := &lastKernels{turn: named("conv_last", "channels_last_"+suffixes[d])}
	k.product = [2]*kernel{roomy("conv_last", "conv_last_64_"+suffixes[d]), roomy("conv_last", "conv_last_128_"+suffixes[d])}
	return k
}

// lastShared is the bytes of shared memory of a block with such a tile: its stages, in which a row has 16 bytes more than its elements, and
// a Column for each column.
func lastShared(tile [2]int) int {
	const column = 24
	return lastStages*(tile[0]+tile[1])*(lastChannels+8)*2 + tile[1]*column
}

// channelsLast reports whether a product over places of half types can go that way. It depends on the call alone, as the workspace does.
func (p *convolution) channelsLast(d dtype.DType) bool {
	taps := p.axis[0].Taps * p.axis[1].Taps
	if d != dtype.Float16 && d != dtype.BFloat16 || p.m < tile/2 || p.n <= tile/2 || p.k == 0 || taps > lastTaps {
		return false
	}
	channels := p.channels(false)
	switch {
	case channels%lastChannels == 0:
	case p.groups > 1 || channels%lastPiece != 0 || channels < lastLeast: // groups lie together in the copies
		return false
	}
	return max(p.images()*p.rows*p.columns, p.groups*p.m*taps, p.groups*p.lastPitch()) < maxLoop && p.groups <= maxGridZ // groups of few tiles are split, and of 2*busy at most
}

// lastPitch is the channels of a group in the copies: zeros fill the last step.
func (p *convolution) lastPitch() int {
	return blocksOf(p.channels(false), lastChannels) * lastChannels
}

// images is how many images a product over places has.
func (p *convolution) images() int { return p.n / max(1, p.axis[0].Size*p.axis[1].Size) }

// lastSpace is the bytes of image, kernel and partial sums in the workspace, each at a multiple of 16. What is read where it is has none.
func (p *convolution) lastSpace(d dtype.DType) (image, kernel, sums uint64) {
	whole := func(n int) uint64 { return uint64(n*d.Size()+15) &^ 15 }
	pitch := p.groups * p.lastPitch()
	if from := p.imagePlaces(p.lastPitch()); !from.last(p.right) {
		image = whole(p.images() * p.rows * p.columns * pitch)
	}
	if !p.kernelLast() {
		kernel = whole(p.m * pitch * p.axis[0].Taps * p.axis[1].Taps)
	}
	return image, kernel, p.space(d)
}

// imagePlaces is the image of a product over places; a group has a pitch of channels in a copy.
func (p *convolution) imagePlaces(pitch int) places {
	return places{p.images(), p.rows, p.columns, p.groups * p.channels(false), p.groups * pitch, [4]int{p.b[1], p.b[3], p.b[4], p.b[2]}}
}

// evenRows reports whether the rows of all groups have one distance.
func (p *convolution) evenRows() bool { return p.groups == 1 || p.a[0] == p.m*p.a[1] }

// kernelLast reports whether the kernel is read where it is.
func (p *convolution) kernelLast() bool {
	from := p.kernelPlaces(p.lastPitch())
	return p.evenRows() && from.last(p.left)
}

// kernelPlaces is the kernel of all groups, if their rows have one distance, else that of one.
func (p *convolution) kernelPlaces(pitch int) places {
	rows := p.m
	if p.evenRows() {
		rows *= p.groups
	}
	return places{rows, p.axis[0].Taps, p.axis[1].Taps, p.channels(false), pitch, [4]int{p.a[1], p.a[3], p.a[4], p.a[2]}}
}

// launchLast enqueues the product, and before it the copies of its operands; of the image only if an earlier phase has not made it.
func (p *convolution) launchLast(c *op.Call, k *convKernels, turned bool) error {
	t := takeTask()
	defer tasks.Put(t)
	image, kernel, _ := p.lastSpace(c.Out[0].DType)
	h, w, pitch := &p.axis[0], &p.axis[1], p.lastPitch()
	all := p.groups * pitch
	q := *p
	q.right, q.left, q.sums = c.Work.Ptr, c.Work.Ptr+device.Ptr(image), c.Work.Ptr+device.Ptr(image+kernel)
	switch from := p.imagePlaces(pitch); {
	case from.last(p.right):
		q.right = p.right
	case !turned:
		if err := from.turn(t, c, k.last.turn, q.right, p.right); err != nil {
			return err
		}
	}
	if p.kernelLast() {
		q.left = p.left
	} else if err := p.turnKernel(t, c, k.last.turn, q.left, pitch); err != nil {
		return err
	}
	q.k = pitch * h.Taps * w.Taps
	q.a = [5]int{p.m * q.k, q.k}
	q.b = [5]int{pitch, p.rows * p.columns * all, 1, p.columns * all, all}
	which := 1
	if blocksOf(p.m, side)*side > blocksOf(p.m, side/2)*(side/2) { // half of the last tile of 128 would be empty
		which = 0
	}
	cut := lastTiles[which]
	shape := device.LaunchShape{Block: device.Dim3{X: lastThreads}, Shared: uint32(lastShared(cut))}
	shape.Grid = device.Dim3{X: uint32(blocksOf(p.n, cut[1])), Y: uint32(blocksOf(p.m, cut[0])), Z: uint32(p.groups * p.splits)}
	q.paired = p.pairs()
	q.add(&t.params, 0)
	t.params.Ptr(q.dst).Ptr(q.left).Ptr(q.right).Ptr(q.added).Ptr(q.sums)
	if err := t.launchShape(c, k.last.product[which], shape); err != nil || p.splits == 1 {
		return err
	}
	return q.joinSums(t, c, k)
}

// pairs reports whether each two places from an even one on are one word of the result, in all rows, which sums of half types are then written by.
func (p *convolution) pairs() bool {
	step, ok := line(p.axis[0].Size, p.d[3], p.axis[1].Size, p.d[4])
	if !ok || step != 1 || p.splits > 1 || p.places()%2 != 0 || p.dst%4 != 0 {
		return false
	}
	return p.d[0]%2 == 0 && p.d[1]%2 == 0 && p.d[2]%2 == 0
}

// turnKernel writes the kernel to dst. Rows of all groups have one distance, or taps have, or each group is a launch of its own.
func (p *convolution) turnKernel(t *task, c *op.Call, k *kernel, dst device.Ptr, pitch int) error {
	h, w, channels := p.axis[0].Taps, p.axis[1].Taps, p.channels(false)
	step, ok := line(h, p.a[3], w, p.a[4])
	switch {
	case p.evenRows():
		from := p.kernelPlaces(pitch)
		return from.turn(t, c, k, dst, p.left)
	case ok:
		from := places{p.groups, p.m, h * w, channels, pitch, [4]int{p.a[0], p.a[1], step, p.a[2]}}
		return from.turn(t, c, k, dst, p.left)
	}
	from, size := p.kernelPlaces(pitch), c.Out[0].DType.Size()
	for g := range p.groups {
		if err := from.turn(t, c, k, dst+device.Ptr(g*p.m*h*w*pitch*size), p.left+device.Ptr(g*p.a[0]*size)); err != nil {
			return err
		}
	}
	return nil
}

// places are a tensor of three indices and channels, with the distances of these four.
type places struct {
	outer, middle, inner, channels, pitch int // a place of the copy has a pitch of elements
	steps                                 [4]int
}

// last reports whether it lies at src as the copy would, with pieces at multiples of 16 bytes.
func (p *places) last(src device.Ptr) bool {
	if p.channels != p.pitch || uint64(src)%16 != 0 {
		return false
	}
	expect := 1
	for _, d := range [4]struct{ n, step int }{{p.channels, p.steps[3]}, {p.inner, p.steps[2]}, {p.middle, p.steps[1]}, {p.outer, p.steps[0]}} {
		if d.n != 1 && d.step != expect {
			return false
		}
		expect *= d.n
	}
	return true
}

// width is how many places at src can be copied at a time, in pieces of 16 or 8 bytes: those of a line lie together, and all lines begin at
// multiples of a piece. Else it is 1.
func (p *places) width(src device.Ptr) int {
	if step, ok := line(p.middle, p.steps[1], p.inner, p.steps[2]); !ok || step != 1 {
		return 1
	}
	for _, n := range [2]int{8, 4} {
		if uint64(src)%uint64(2*n) == 0 && p.middle*p.inner%n == 0 && p.steps[0]%n == 0 && p.steps[3]%n == 0 {
			return n
		}
	}
	return 1
}

// turn writes it to dst with the channels last.
func (p *places) turn(t *task, c *op.Call, k *kernel, dst, src device.Ptr) error {
	const block, side = 256, 64 // PLACES and SIDE in src/conv_last.cu
	count, width := p.outer*p.middle*p.inner, p.width(src)
	inner, middle := divisor(p.inner), divisor(p.middle)
	if width > 1 {
		inner, middle = divisor(p.middle*p.inner), divisor(1) // the kernel divides by lines
	}
	t.params.Words(pair(uint32(count), uint32(p.channels)), pair(uint32(p.pitch), uint32(width)), pair(inner[0], inner[1]), pair(inner[2], middle[0]), pair(middle[1], middle[2]),
		uint64(p.steps[0]), uint64(p.steps[1]), uint64(p.steps[2]), uint64(p.steps[3])).Ptr(dst).Ptr(src)
	return t.launch(c, k, device.Dim3{X: uint32(blocksOf(count, block)), Y: uint32(blocksOf(p.pitch, side))})
}
