package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Conv2D, Conv2DGradInput and Conv2DGradWeight: from a call to Convs of src/conv.h, one, or one for each phase of a transposed
// convolution (op.Axis). Nothing is unfolded: the workspace is partial sums alone, of products of few blocks. Those of one tap are plain
// products (convpoint.go), and half types go other ways where they can (convlast.go, convweight.go).

// convolution is a product of all groups, with the sides of a Conv in the same order.
type convolution struct {
	m, n, k, part, splits, groups int // rows by columns of the result, summed over k in splits of part each
	axis                          [2]op.Axis
	rows, columns                 int
	a                             [5]int // distances in elements: of groups, rows, and in steps of the sum
	b                             [5]int // of groups, images, channels, rows and columns
	d                             [5]int // of groups, rows, and in columns of the product
	bias                          int
	biased                        bool       // a bias may be of one element, with a distance of 0
	paired                        bool       // PAIRED of src/conv_last.cu
	dst, left, right, added, sums device.Ptr // sums: those of splits
}

// convKernels are those of one operation and type.
type convKernels struct {
	product, direct, join *kernel
	tensor, low           *kernel // for tensor cores, with tiles of 128 and of 64 rows, or nil
	last                  *lastKernels
	weight                *weightKernels // of gradients of kernels
}

func convRows() []op.Row {
	var rows []op.Row
	for _, id := range []op.ID{op.Conv2D, op.Conv2DGradInput, op.Conv2DGradWeight} {
		r := typedRow(id, convolve)
		r.Workspace = convSpace
		rows = append(rows, r)
	}
	return rows
}

// convKernelsOf has the kernels by type, for results and for gradients of kernels.
var convKernelsOf = func() (all [dtype.Count][2]convKernels) {
	for _, d := range op.Conv2D.Types() {
		last := lastKernelsOf(d)
		for i, name := range []string{"", "weight_"} {
			k := &all[d][i]
			k.product, k.direct = named("conv", "conv_"+name+suffixes[d]), named("conv", "conv_direct_"+name+suffixes[d])
			k.join = named("conv", "conv_"+name+"join_"+suffixes[d])
			if d == dtype.Float16 || d == dtype.BFloat16 {
				k.tensor = named("conv_tensor", "conv_tensor_"+name+suffixes[d])
				k.low = named("conv_tensor", "conv_tensor_"+name+"low_"+suffixes[d])
			}
			k.last = last
			if i == 1 {
				k.weight = weightKernelsOf(d)
			}
		}
	}
	return all
}()

// convolve makes the Func of a convolution.
func convolve(d dtype.DType) op.Func {
	return func(c *op.Call) error {
		if c.Out[0].Len() == 0 {
			return nil
		}
		v := op.ConvolutionOf(c)
		if c.Op == op.Conv2DGradWeight {
			p := weightProduct(c, &v)
			if done, err := p.launchPlain(c); done || err != nil {
				return err
			}
			if way := p.weightWay(d); way != gathered {
				return p.launchWeight(c, &convKernelsOf[d][1], way)
			}
			return p.launch(c, &convKernelsOf[d][1])
		}
		turned := false
		for i := range phases(c, &v) { // each writes places of its own; the workspace is theirs in turn, as the stream orders them
			p := placeProduct(c, &v, i)
			if p.n == 0 {
				continue
			}
			if done, err := p.launchPlain(c); err != nil {
				return err
			} else if done {
				continue
			}
			if p.channelsLast(d) {
				if err := p.launchLast(c, &convKernelsOf[d][0], turned); err != nil {
					return err
				}
				turned = true
				continue
			}
			if err := p.launch(c, &convKernelsOf[d][0]); err != nil {
				return err
			}
		}
		return nil
	}
}

// phases is the number of products whose columns are places: of a transposed convolution one for each phase of its stride.
func phases(c *op.Call, v *op.Convolution) int {
	if c.Op == op.Conv2D {
		return 1
	}
	return v.Phases(0) * v.Phases(1)
}

// placeProduct is the product of a phase.
func placeProduct(c *op.Call, v *op.Convolution, phase int) convolution {
	src, dst, k := v.Image, v.Result, v.Kernel.Strides
	rows, channels := v.Outputs, v.Channels
	row, channel := k[0], k[1]
	axis := [2]op.Axis{v.Forward(0), v.Forward(1)}
	if c.Op == op.Conv2DGradInput {
		// A result of a transposed convolution gets terms from those taps alone that hit its phase of the stride. The phases are products of their
		// own, of as many taps, so that no step of a sum is in vain.
		axis = [2]op.Axis{v.Backward(0, phase/v.Phases(1)), v.Backward(1, phase%v.Phases(1))}
		src, dst, rows, channels, row, channel = dst, src, channels, rows, channel, row
	}
	h, w := &axis[0], &axis[1]
	s, t, size := src.Strides, dst.Strides, dst.DType.Size()
	p := convolution{
		m: rows, n: v.N * h.Size * w.Size, k: channels * h.Taps * w.Taps, groups: v.Groups, axis: axis,
		rows: src.Shape[2], columns: src.Shape[3],
		a:   [5]int{v.Outputs * k[0], row, channel, h.TapStep * k[2], w.TapStep * k[3]},
		b:   [5]int{channels * s[1], s[0], s[1], s[2], s[3]},
		d:   [5]int{rows * t[1], t[1], t[0], h.Step * t[2], w.Step * t[3]},
		dst: dst.Ptr + device.Ptr((h.First*t[2]+w.First*t[3])*size), right: src.Ptr,
		left: v.Kernel.Ptr + device.Ptr((h.Tap0*k[2]+w.Tap0*k[3])*size),
	}
	if p.biased = len(c.In) == 3; p.biased {
		p.bias, p.added = c.In[2].Strides[0], c.In[2].Ptr
	}
	p.cut(dst.DType)
	return p
}

// weightProduct is the product whose steps are places.
func weightProduct(c *op.Call, v *op.Convolution) convolution {
	axis := [2]op.Axis{v.Forward(0), v.Forward(1)}
	g, s, k := v.Result.Strides, v.Image.Strides, v.Kernel.Strides
	p := convolution{
		m: v.Outputs, n: v.Channels * axis[0].Taps * axis[1].Taps, k: v.N * axis[0].Size * axis[1].Size, groups: v.Groups, axis: axis,
		rows: v.Image.Shape[2], columns: v.Image.Shape[3],
		a:   [5]int{v.Outputs * g[1], g[1], g[0], g[2], g[3]},
		b:   [5]int{v.Channels * s[1], s[0], s[1], s[2], s[3]},
		d:   [5]int{v.Outputs * k[0], k[0], k[1], k[2], k[3]},
		dst: v.Kernel.Ptr, left: v.Result.Ptr, right: v.Image.Ptr,
	}
	if way := p.weightWay(v.Kernel.DType); way != gathered {
		p.cutWeight(way)
	} else {
		p.cut(v.Kernel.DType) // the sum is over all places of all images, which is what is long here
	}
	return p
}

// maxDirectRows is the number of rows up to which a group of one channel has kernels of its own.
const maxDirectRows = 4

// channels is the number of channels that a row sums over, or, of a gradient of kernels, that its columns belong to.
func (p *convolution) channels(weight bool) int {
	n := p.k
	if weight {
		n = p.n
	}
	return n / max(1, p.axis[0].Taps*p.axis[1].Taps)
}

// direct reports whether tiles would be next to empty.
func (p *convolution) direct(weight bool) bool {
	// Depthwise convolutions: a group has one row, or few, of a tile's 64.
	return p.groups > 1 && p.m <= maxDirectRows && p.channels(weight) <= maxDirectRows && (!weight || p.channels(true) == 1)
}

// cut splits the sum of a product that would have few blocks. It depends on sizes alone, so that sums are cut alike on
// all GPUs. The workspace is then no more than 2*busy tiles.
func (p *convolution) cut(d dtype.DType) {
	const deep = 256 // steps that are worth a block
	columns := tile
	if d.Size() == 2 {
		columns = side // of tensor cores
	}
	count := p.groups * blocksOf(p.m, tile) * blocksOf(p.n, columns) // in tiles of 64 rows, also where the kernel takes 128
	k, last := p.k, p.channelsLast(d)
	if last {
		k = p.lastPitch() * p.axis[0].Taps * p.axis[1].Taps
	}
	p.part, p.splits = max(1, k), 1
	if count < busy && k > 2*deep {
		n := min((busy+count-1)/count, (k+deep-1)/deep)
		if last { // adding up splits costs these kernels as much as the products: only where half of a GPU would be idle, and sums are long
			n = max(1, min(busy/count, k/(2*deep)))
		}
		p.part = ((k+n-1)/n + 31) &^ 31 // whole tiles of steps
		p.splits = (k + p.part - 1) / p.part
	}
}

func blocksOf(n, each int) int { return (n + each - 1) / each }

// space is the workspace, in bytes.
func (p *convolution) space(d dtype.DType) uint64 {
	if p.splits == 1 || p.n == 0 {
		return 0
	}
	return uint64(p.splits*p.groups*p.m*p.n) * uint64(max(4, d.Size())) // sums of half types are float32
}

// convSpace is the workspace of a call: that of the phase that needs most.
func convSpace(c *op.Call) uint64 {
	if c.Out[0].Len() == 0 {
		return 0
	}
	v, d := op.ConvolutionOf(c), c.Out[0].DType
	if c.Op == op.Conv2DGradWeight {
		p := weightProduct(c, &v)
		bytes, enough := p.plainSpace(c)
		if enough {
			return bytes
		}
		if way := p.weightWay(d); way != gathered {
			left, right, spots, sums := p.weightSpace(way, d)
			return max(bytes, left+right+spots+sums)
		}
		return max(bytes, p.space(d))
	}
	most := uint64(0)
	for i := range phases(c, &v) {
		p := placeProduct(c, &v, i)
		most = max(most, p.placeSpace(c, d))
	}
	return most
}

// placeSpace is the workspace of a product whose columns are places.
func (p *convolution) placeSpace(c *op.Call, d dtype.DType) uint64 {
	bytes, enough := p.plainSpace(c)
	switch {
	case enough:
		return bytes
	case p.channelsLast(d):
		image, kernel, sums := p.lastSpace(d)
		return max(bytes, image+kernel+sums)
	case !p.direct(false):
		return max(bytes, p.space(d))
	}
	return bytes
}
