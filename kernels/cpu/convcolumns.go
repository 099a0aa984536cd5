package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// The gradient of an image where kernels are large and places few: one product has what each element of the result's gradient adds to the image
// by each tap, and these are summed. The product reads kernels as they lie. A product of the image's places would need them in another order, and
// the copy of all of them takes as long as half of the product where each meets a hundred places.

// columnConv is the gradient of one group's channels in work. Images are the last dimension of what it keeps, so that sums are of vectors.
type columnConv[T float] struct {
	access   accessor[T]
	conv     *op.Convolution
	group    int
	bias     []T // of the image's channels, or nil
	axes     [2]op.Axis
	gradient []T // [output][row][column][image]
	columns  []T // [channel in work][tap][row][column][image]
	first    int // the first channel in work
	gemm     *matGemm[T]
	workers  sync.Pool
}

// columnWorker is the memory of a goroutine.
type columnWorker[T float] struct{ sums, row []T }

// columnElements is about the size of columns: what the caches of a processor hold.
const columnElements = 1 << 19

func newColumnConv[T float](l accessor[T]) *columnConv[T] {
	return &columnConv[T]{access: l, gemm: newMatGemm(l), workers: sync.Pool{New: func() any { return new(columnWorker[T]) }}}
}

// isColumns reports whether the gradient of an image is computed so.
func isColumns(v *op.Convolution) bool {
	s, n := v.Kernel.Strides, v.Kernel.Shape
	places := v.N * v.Result.Shape[2] * v.Result.Shape[3]
	if n[2]*n[3] == 1 || s[2] != n[3]*s[3] || s[1] != n[2]*s[2] { // taps of a channel must lie at one distance, as rows of a matrix
		return false
	}
	return v.Outputs >= leastColumnOutputs && places >= leastColumnPlaces && places <= columnPlaces*v.Outputs
}

// Measured with 3x3 kernels, with and without a stride.
const (
	leastColumnOutputs = 256
	leastColumnPlaces  = 24
	columnPlaces       = 2
)

// backwardByColumns computes the gradient of one group's channels.
func (j *convCall[T]) backwardByColumns(group int) {
	c := j.columns.Get().(*columnConv[T])
	v := &j.conv
	c.conv, c.group, c.bias = v, group, nil
	if j.bias != nil {
		c.bias = j.bias[group*v.Channels:]
	}
	c.axes = [2]op.Axis{v.Forward(0), v.Forward(1)}
	c.compute(j.serial)
	c.conv, c.bias = nil, nil
	j.columns.Put(c)
}

func (c *columnConv[T]) compute(serial bool) {
	v := c.conv
	c.gradient = sized(c.gradient, v.Outputs*c.places())
	c.split(serial, v.Outputs, max(1, elementGrain/c.places()), (*columnGatherJob[T])(c))
	channel := c.taps() * c.places()
	most := min(v.Channels, max(1, columnElements/channel))
	c.columns = sized(c.columns, most*channel)
	for c.first = 0; c.first < v.Channels; c.first += most {
		n := min(most, v.Channels-c.first)
		c.multiply(n*c.taps(), serial)
		c.split(serial, n, max(1, elementGrain/channel), (*columnSumJob[T])(c))
	}
}

func (c *columnConv[T]) split(serial bool, n, grain int, j job) {
	if serial {
		j.run(0, n)
	} else {
		split(n, grain, j)
	}
}

func (c *columnConv[T]) taps() int   { return c.axes[0].Taps * c.axes[1].Taps }
func (c *columnConv[T]) places() int { return c.axes[0].Size * c.axes[1].Size * c.conv.N }

// multiply computes rows of columns: of the channels in work.
func (c *columnConv[T]) multiply(rows int, serial bool) {
	v, s := c.conv, c.conv.Kernel.Strides
	kernels := matrix{offset(v.Kernel.Ptr, c.group*v.Outputs*s[0]+c.first*s[1], c.access.size), s[3], s[0]}
	c.gemm.multiply(&product[T]{
		m: rows, n: c.places(), k: v.Outputs, alpha: 1,
		dst: matrix{addressOf(c.columns), c.places(), 1}, a: kernels, b: matrix{addressOf(c.gradient), c.places(), 1},
	}, serial)
}

// columnGatherJob is a job over outputs.
type columnGatherJob[T float] columnConv[T]

func (c *columnGatherJob[T]) run(lo, hi int) {
	w := c.workers.Get().(*columnWorker[T])
	defer c.workers.Put(w)
	v, images := c.conv.Result, c.conv.N
	rows, width := joined(v)
	w.row = sized(w.row, width)
	for to := c.gradient[lo*(*columnConv[T])(c).places():]; lo < hi; lo++ {
		for y := range rows {
			if v.Strides[3] == 1 {
				from := offset(v.Ptr, (c.group*c.conv.Outputs+lo)*v.Strides[1]+y*v.Strides[2], c.access.size)
				crossCopy[T](addressOf(to), images, from, v.Strides[0], width, images)
				to = to[width*images:]
				continue
			}
			for n := range images {
				for x, g := range rowOf(&c.access, v, w.row, n, c.group*c.conv.Outputs+lo, y) {
					to[x*images+n] = g
				}
			}
			to = to[width*images:]
		}
	}
}

// joined is the rows of the planes of v and their width: of each one row if they lie one after the other.
func joined(v *op.View) (rows, width int) {
	rows, width = v.Shape[2], v.Shape[3]
	if v.Strides[2] == width*v.Strides[3] {
		return 1, rows * width
	}
	return rows, width
}

// rowOf is row y of a plane of v: where it lies, or in memory for it if its elements lie apart.
func rowOf[T float](l *accessor[T], v *op.View, row []T, n, channel, y int) []T {
	p := offset(v.Ptr, n*v.Strides[0]+channel*v.Strides[1]+y*v.Strides[2], l.size)
	if v.Strides[3] == 1 {
		return slice[T](p, len(row))
	}
	l.load(row, p, v.Strides[3])
	return row
}

// columnSumJob is a job over the channels in work.
type columnSumJob[T float] columnConv[T]

func (c *columnSumJob[T]) run(lo, hi int) {
	w := c.workers.Get().(*columnWorker[T])
	defer c.workers.Put(w)
	v := c.conv.Image
	_, width := joined(v)
	w.sums, w.row = sized(w.sums, v.Shape[2]*v.Shape[3]*c.conv.N), sized(w.row, width)
	size := (*columnConv[T])(c).taps() * (*columnConv[T])(c).places()
	for ; lo < hi; lo++ {
		c.sum(w.sums, lo, c.columns[lo*size:(lo+1)*size])
		c.store(lo, w.sums, w.row)
	}
}

// sum adds what all taps say of channel i of those in work.
func (c *columnSumJob[T]) sum(sums []T, i int, columns []T) {
	var begin T
	if c.bias != nil {
		begin = c.bias[c.first+i]
	}
	for k := range sums {
		sums[k] = begin
	}
	h, w := &c.axes[0], &c.axes[1]
	high, wide := c.conv.Image.Shape[2], c.conv.Image.Shape[3]
	line := w.Size * c.conv.N
	for u := range h.Taps {
		for v := range w.Taps {
			left := w.At0 + v*w.AtTap
			lo, hi := within(left, w.AtStep, w.Size, wide)
			for p := range h.Size {
				if y := h.At0 + u*h.AtTap + p*h.AtStep; y >= 0 && y < high && lo < hi {
					c.addLine(sums[y*wide*c.conv.N:], columns[p*line:], left, lo, hi)
				}
			}
			columns = columns[h.Size*line:]
		}
	}
}

// addLine adds places lo..hi-1 of a line to where a tap puts them: place 0 at left.
func (c *columnSumJob[T]) addLine(to, line []T, left, lo, hi int) {
	images, step := c.conv.N, c.axes[1].AtStep
	if step == 1 {
		to = to[(left+lo)*images : (left+hi)*images]
		addSlices(to, to, line[lo*images:hi*images])
		return
	}
	for ; lo < hi; lo++ {
		at := (left + lo*step) * images
		addSlices(to[at:at+images], to[at:at+images], line[lo*images:(lo+1)*images])
	}
}

// within is the range of those of n places, step apart from first on, that lie in 0..size-1.
func within(first, step, n, size int) (lo, hi int) {
	if first < 0 {
		lo = (step - 1 - first) / step
	}
	if first < size {
		hi = min(n, (size-1-first)/step+1)
	}
	return lo, hi
}

// store writes channel i of those in work.
func (c *columnSumJob[T]) store(i int, sums, row []T) {
	v, images := c.conv.Image, c.conv.N
	rows, width := joined(v)
	channel := c.group*c.conv.Channels + c.first + i
	for y := range rows {
		to := offset(v.Ptr, channel*v.Strides[1]+y*v.Strides[2], c.access.size)
		line := sums[y*width*images:]
		if v.Strides[3] == 1 {
			crossCopy[T](to, v.Strides[0], addressOf(line), images, images, width)
			continue
		}
		for n := range images {
			for x := range row {
				row[x] = line[n+x*images]
			}
			c.access.store(offset(to, n*v.Strides[0], c.access.size), v.Strides[3], row)
		}
	}
}
