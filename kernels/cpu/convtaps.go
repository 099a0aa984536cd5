package cpu

import "github.com/cistern-ml/cistern/kernels/op"

// Direct convolutions of float32 where the processor has vectors: several lines of a result at once, from a band of the image that is packed once. In the band
// are the lines of all channels of a group, zeros where they lie outside of the image, and in each the columns that lie AtStep apart side by side: so each tap
// is one distance from the first element of a result's line, whatever padding, stride and dilation are.

// tapCall is a call of the loop over taps: result[y][x] = start + the sum of weights[t] * image[y][x] at offsets[t]. It computes four rows and eight columns at
// least. Assembly reads it by the places of its fields.
type tapCall struct {
	result, image *float32
	weights       *float32
	offsets       *int // in bytes
	taps          int
	rows, columns int // of the result; at least 4 and 8
	resultRow     int // distances of rows in bytes
	imageRow      int
	start         float32
}

// dotCall is a call of the loop over the places of some taps: sums[t] is the sum of grad[y][x] * image[y][x] at offsets[t].
type dotCall struct {
	grad, image *float32
	offsets     [mostTaps]int // in bytes
	rows        int
	columns     int // in whole sixteens
	gradRow     int // distances of rows in bytes
	imageRow    int
	masks       *[16]int32 // which of the next sixteen columns there are besides; nil for none
	sums        [mostTaps]float32
}

// mostTaps is how many taps a dotCall has at most; vector.tapsAtOnce is how many the loop takes.
const mostTaps = 9

// mostBand is how many elements a band has at most, if it has more than the lines of four rows of a result.
const mostBand = 1 << 13

// band is the memory of a worker.
type band struct {
	lines   []float32
	results []float32 // where they cannot be written in place
	calls   tapCall
	dots    dotCall
	masks   [16]int32

	planned       bool // for rows and columns of the convolution in work
	rows, columns int
	offsets       []int // of the taps, in bytes
	height        int   // lines of a channel
	line, long    int   // elements of a line, and of one phase of it
	framed        bool  // lines is one channel whose first line is top, and 0 beside it
	top           int
}

// bands returns d as a convolution of float32 if it goes by bands: where there are some lines to compute together, and none that only lie between those
// that taps meet.
func (d *directConv[T]) bands() (*directConv[float32], bool) {
	f, ok := any(d).(*directConv[float32])
	if !ok || vector.taps == nil || d.axes[0].Size < 3 && d.id != op.Conv2DGradWeight {
		return nil, false
	}
	for i := range d.axes {
		if a := &d.axes[i]; a.AtStep > 4 || a.AtStep > 1 && a.AtStep > a.Taps+1 || max(a.AtTap, -a.AtTap) > 4 {
			return nil, false
		}
	}
	return f, true
}

// plan sets what is the same for all planes that rows and columns of the result need.
func (b *band) plan(d *directConv[float32], rows, columns int) {
	h, x := &d.axes[0], &d.axes[1]
	down, right := max(0, h.Taps-1)*h.AtTap, max(0, x.Taps-1)*x.AtTap
	b.rows, b.columns, b.planned, b.framed = rows, columns, true, false
	b.height = max(down, -down) + (rows-1)*h.AtStep + 1
	b.long = (max(right, -right)+(columns-1)*x.AtStep)/x.AtStep + 1
	b.line = x.AtStep * b.long
	b.lines = sized(b.lines, d.channels*b.height*b.line)
	b.offsets = sized(b.offsets, d.channels*h.Taps*x.Taps)
	at := 0
	for c := range d.channels {
		for u := range h.Taps {
			row := (c*b.height + u*h.AtTap - min(0, down)) * b.line
			for v := range x.Taps {
				column := v*x.AtTap - min(0, right)
				b.offsets[at] = 4 * (row + column%x.AtStep*b.long + column/x.AtStep)
				at++
			}
		}
	}
	if at > 0 {
		b.setDots(0)
	}
}

// setDots sets the offsets of dots to those of the taps from t on, the last one again and again where there are no more.
func (b *band) setDots(t int) {
	for k := range vector.tapsAtOnce {
		b.dots.offsets[k] = b.offsets[min(t+k, len(b.offsets)-1)]
	}
}

// fill packs the lines that rows of the result need, from first on, and as many columns.
func (b *band) fill(d *directConv[float32], w *window[float32], n, group, first, rows, columns int) {
	if !b.planned || rows != b.rows || columns != b.columns {
		b.plan(d, rows, columns)
	}
	h, x := &d.axes[0], &d.axes[1]
	top := h.At0 + min(0, max(0, h.Taps-1)*h.AtTap) + first*h.AtStep
	to := b.lines
	for c := range d.channels {
		plane := n*w.image + (group*d.channels+c)*w.channel
		if b.move(d, w, to, plane, top) {
			to = to[b.height*b.line:]
			continue
		}
		b.framed = false
		for y := range b.height {
			for phase := range x.AtStep {
				w.patch.line(to[:b.long], plane, top+y, w.first+phase)
				to = to[b.long:]
			}
		}
	}
}

// move packs a channel's lines in one call, if they lie as they are needed.
func (b *band) move(d *directConv[float32], w *window[float32], to []float32, plane, top int) bool {
	left := max(0, -w.first)
	from, count := w.first+left, min(b.line-left, w.columns-w.first-left)
	above := max(0, -top)
	lines := min(b.height-above, w.rows-top-above)
	if w.axis[1].AtStep != 1 || w.patch.column != 1 || !w.access.direct || count < 8 || vector.moveRows == nil {
		return false
	}
	// What is beside the image stays 0 from plane to plane, if they are packed alike.
	if !b.framed || top != b.top || d.channels > 1 {
		if lines < b.height || count < b.line {
			clear(to[:b.height*b.line])
		}
		b.framed, b.top = true, top
	}
	if lines > 0 {
		src := slice[byte](offset(w.patch.ptr, plane+(top+above)*w.row+from, 4), 1)
		vector.moveRows(lines, &bytesOf(to[above*b.line+left:])[0], 4*b.line, &src[0], 4*w.row, 4*count)
	}
	return true
}

// mostRows is how many rows of a result a band is for.
func (d *directConv[T]) mostRows(channels int) int {
	h, x := &d.axes[0], &d.axes[1]
	line := channels * max(1, (x.Size+max(x.Taps*x.AtTap, -x.Taps*x.AtTap))*x.AtStep*h.AtStep)
	return max(4, mostBand/line)
}

// runBands is run by bands.
func runBands(d *directConv[float32], lo, hi int) {
	w := d.window()
	defer d.lines.Put(w)
	h, most := &d.axes[0], d.mostRows(d.channels)
	for lo < hi {
		i, plane := lo%h.Size, lo/h.Size
		rows := min(hi-lo, h.Size-i, most)
		computeBand(d, w, plane/d.conv.Groups, plane%d.conv.Groups, i, rows)
		lo += rows
	}
	w.band.calls.result = nil // the pool of windows keeps no tensor's memory
}

// computeBand computes rows of the results of a group, from first on.
func computeBand(d *directConv[float32], w *window[float32], n, group, first, rows int) {
	h, x, s := &d.axes[0], &d.axes[1], &d.to.Strides
	b := &w.band
	c := &b.calls
	c.rows, c.columns = max(rows, 4), max(x.Size, 8)
	b.fill(d, w, n, group, first, c.rows, c.columns)
	c.image, c.imageRow = &b.lines[0], 4*h.AtStep*b.line
	c.taps = len(b.offsets)
	if c.taps > 0 {
		c.offsets = &b.offsets[0]
	}
	elements := w.elements(d, group)
	inPlace := d.access.direct && x.Step*s[3] == 1 && c.rows == rows && c.columns == x.Size
	for r := range d.rows {
		to := group*d.rows + r
		if c.start = 0; d.bias != nil {
			c.start = d.bias[to]
		}
		if c.taps > 0 {
			c.weights = &elements[r*c.taps]
		}
		p := offset(d.to.Ptr, n*s[0]+to*s[1]+(h.First+first*h.Step)*s[2]+x.First*s[3], d.access.size)
		switch {
		case c.taps == 0:
			b.results = sized(b.results, c.columns)
			fillSlice(b.results, c.start)
			for y := range rows {
				d.access.store(offset(p, y*h.Step*s[2], d.access.size), x.Step*s[3], b.results[:x.Size])
			}
		case inPlace:
			c.result, c.resultRow = &slice[float32](p, 1)[0], 4*h.Step*s[2]
			vector.taps(c)
		default:
			b.results = sized(b.results, c.rows*c.columns)
			c.result, c.resultRow = &b.results[0], 4*c.columns
			vector.taps(c)
			for y := range rows {
				d.access.store(offset(p, y*h.Step*s[2], d.access.size), x.Step*s[3], b.results[y*c.columns:][:x.Size])
			}
		}
	}
}

// correlatePlane adds to the sum of each tap what the gradients of a result give.
func correlatePlane(d *directConv[float32], w *window[float32], sums []float64, n, group, r int) {
	h, x, s := &d.axes[0], &d.axes[1], &d.to.Strides
	b := &w.band
	c := &b.dots
	most := d.mostRows(1)
	c.columns, c.masks = x.Size&^15, nil
	if x.Size > c.columns {
		c.masks = &b.masks
		for i := range c.masks {
			if c.masks[i] = 0; c.columns+i < x.Size {
				c.masks[i] = -1
			}
		}
	}
	for first := 0; first < h.Size; first += most {
		c.rows = min(most, h.Size-first)
		b.fill(d, w, n, group, first, c.rows, x.Size)
		p := offset(d.to.Ptr, n*s[0]+(group*d.rows+r)*s[1]+first*s[2], d.access.size)
		if d.access.direct && s[3] == 1 {
			c.grad, c.gradRow = &slice[float32](p, 1)[0], 4*s[2]
		} else {
			b.results = sized(b.results, c.rows*x.Size)
			for y := range c.rows {
				d.access.load(b.results[y*x.Size:][:x.Size], offset(p, y*s[2], d.access.size), s[3])
			}
			c.grad, c.gradRow = &b.results[0], 4*x.Size
		}
		c.image, c.imageRow = &b.lines[0], 4*h.AtStep*b.line
		n := vector.tapsAtOnce
		for t := 0; t < len(sums); t += n {
			if len(sums) > n {
				b.setDots(t)
			}
			vector.tapDots(c)
			for k, sum := range c.sums[:min(n, len(sums)-t)] {
				sums[t+k] += float64(sum)
			}
		}
	}
	c.grad = nil // the pool of windows keeps no tensor's memory
}
