package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Convolutions whose groups have next to no channels, as depthwise ones, or of few results: a product would be all packing.
// Results are computed line by line, from lines of the image that are kept as long as the next results need them
// (convwindow.go).

// isDirect reports whether directConv is the way to compute a convolution. It looks at shapes alone.
func isDirect(id op.ID, v *op.Convolution) bool {
	const few, fewer = 4, 3
	if !keepsFewLines(v) {
		return false
	}
	rows, channels := v.Outputs, v.Channels
	if id == op.Conv2DGradInput {
		rows, channels = channels, rows
	}
	if id == op.Conv2DGradWeight {
		return v.Groups > 1 && channels == 1 && rows <= few
	}
	return rows <= fewer || v.Groups > 1 && channels == 1 && rows <= few
}

// keepsFewLines reports whether the lines that a window keeps, and the gaps in them, are few: not for strides and dilations that are
// much larger than images.
func keepsFewLines(v *op.Convolution) bool {
	const most = 4096
	for d := range 2 {
		if v.Stride[d] > most || v.Dilation[d] > most || v.Dilation[d]*(v.Kernel.Shape[2+d]-1) > most {
			return false
		}
	}
	return true
}

// directConv is one convolution in work. It is a job over lines of the result, or, for the gradient of the kernel, over groups.
type directConv[T float] struct {
	access   accessor[T]
	gemv     *gemvKernels[T]
	conv     *op.Convolution
	id       op.ID
	bias     []T
	axes     [2]op.Axis
	from, to *op.View // image and result, in the sense of op.Axis
	rows     int      // results of one group
	channels int      // of the image, in one group
	lines    sync.Pool
}

// direct computes a call without a product.
func (j *convCall[T]) direct(pool *sync.Pool) {
	d := pool.Get().(*directConv[T])
	defer pool.Put(d)
	v := &j.conv
	d.conv, d.id, d.bias = v, j.call.Op, j.bias
	switch j.call.Op {
	case op.Conv2D:
		d.axes = [2]op.Axis{v.Forward(0), v.Forward(1)}
		d.from, d.to, d.rows, d.channels = v.Image, v.Result, v.Outputs, v.Channels
		d.split()
	case op.Conv2DGradInput:
		d.from, d.to, d.rows, d.channels = v.Result, v.Image, v.Channels, v.Outputs
		for y := range v.Phases(0) {
			for x := range v.Phases(1) {
				d.axes = [2]op.Axis{v.Backward(0, y), v.Backward(1, x)}
				d.split()
			}
		}
	default:
		d.axes = [2]op.Axis{v.Forward(0), v.Forward(1)}
		d.from, d.to, d.rows, d.channels = v.Image, v.Result, v.Outputs, v.Channels
		work := d.from.Shape[0] * d.axes[0].Size * d.axes[1].Size * v.Kernel.Shape[2] * v.Kernel.Shape[3]
		split(v.Groups, max(1, elementGrain/max(1, work)), (*directWeightJob[T])(d))
	}
	d.conv, d.from, d.to, d.bias = nil, nil, nil, nil
}

func (d *directConv[T]) split() {
	h, w := &d.axes[0], &d.axes[1]
	n := d.from.Shape[0] * d.conv.Groups * h.Size
	work := w.Size * d.rows * max(1, d.channels*h.Taps*w.Taps)
	split(n, max(1, 4*elementGrain/max(1, work)), d)
}

func (d *directConv[T]) run(lo, hi int) {
	if f, ok := d.bands(); ok {
		runBands(f, lo, hi)
		return
	}
	w := d.window()
	defer d.lines.Put(w)
	h := &d.axes[0]
	for ; lo < hi; lo++ {
		i, plane := lo%h.Size, lo/h.Size
		n, group := plane/d.conv.Groups, plane%d.conv.Groups
		for r := range d.rows {
			d.result(w, n, group, r, i)
		}
	}
}

// result computes line i of result r of a group.
func (d *directConv[T]) result(w *window[T], n, group, r, i int) {
	h, x, s := &d.axes[0], &d.axes[1], &d.to.Strides
	to := group*d.rows + r
	p := offset(d.to.Ptr, n*s[0]+to*s[1]+(h.First+i*h.Step)*s[2]+x.First*s[3], d.access.size)
	var start T
	if d.bias != nil {
		start = d.bias[to]
	}
	fillSlice(w.acc, start)
	d.add(w, n, group, r, i)
	d.access.store(p, x.Step*s[3], w.acc[:x.Size])
}

// add adds the terms of line i of result r, four at a time.
func (d *directConv[T]) add(w *window[T], n, group, r, i int) {
	h, x := &d.axes[0], &d.axes[1]
	elements := w.elements(d, group)[r*d.channels*h.Taps*x.Taps:]
	waiting := 0
	for c := range d.channels {
		for u := range h.Taps {
			y := h.At0 + u*h.AtTap + i*h.AtStep
			if y < 0 || y >= w.rows {
				continue
			}
			line := w.line(n, c, group*d.channels, y)
			for v := range x.Taps {
				w.terms[waiting], w.factors[waiting] = w.tap(line, v), elements[(c*h.Taps+u)*x.Taps+v]
				if waiting++; waiting == gemvGroup {
					d.gemv.axpy4(w.acc, w.factors[:], w.terms[0], w.terms[1], w.terms[2], w.terms[3])
					waiting = 0
				}
			}
		}
	}
	if waiting > 0 {
		for k := waiting; k < gemvGroup; k++ {
			w.terms[k], w.factors[k] = w.zeros, 0
		}
		d.gemv.axpy4(w.acc, w.factors[:], w.terms[0], w.terms[1], w.terms[2], w.terms[3])
	}
}

// directWeightJob computes the gradients of groups' kernels, of one channel each.
type directWeightJob[T float] directConv[T]

func (j *directWeightJob[T]) run(lo, hi int) {
	d := (*directConv[T])(j)
	w := d.window()
	defer d.lines.Put(w)
	high, wide := d.axes[0].Taps, d.axes[1].Taps
	w.sums = sized(w.sums, d.rows*high*wide)
	sums := w.sums
	for ; lo < hi; lo++ {
		clear(sums)
		for n := range d.from.Shape[0] {
			for r := range d.rows {
				if f, ok := d.bands(); ok {
					correlatePlane(f, any(w).(*window[float32]), sums[r*high*wide:][:high*wide], n, lo, r)
					continue
				}
				for i := range d.axes[0].Size {
					d.correlate(w, sums[r*high*wide:][:high*wide], n, lo, r, i)
				}
			}
		}
		s := &d.conv.Kernel.Strides
		for at, sum := range sums {
			r, u, v := at/(high*wide), at/wide%high, at%wide
			w.dots[0] = T(sum)
			d.access.store(offset(d.conv.Kernel.Ptr, (lo*d.rows+r)*s[0]+u*s[2]+v*s[3], d.access.size), 1, w.dots[:1])
		}
	}
}

// correlate adds to the sum of each tap what line i of a gradient gives.
func (d *directConv[T]) correlate(w *window[T], sums []float64, n, group, r, i int) {
	h, x, s := &d.axes[0], &d.axes[1], &d.to.Strides
	p := offset(d.to.Ptr, n*s[0]+(group*d.rows+r)*s[1]+i*s[2], d.access.size)
	grad := w.acc[:x.Size] // no longer: what lies beside a line's places may be infinite
	d.access.load(grad, p, s[3])
	for u := range h.Taps {
		y := h.At0 + u*h.AtTap + i*h.AtStep
		if y < 0 || y >= w.rows {
			continue
		}
		line := w.line(n, 0, group, y)
		for v := 0; v < x.Taps; {
			// The next taps are AtTap further on in the same line, if AtStep is 1; of four, those beyond the last are left out.
			count, computed := 1, 1
			if x.AtStep == 1 && x.Taps-v > 1 {
				count, computed = min(gemvGroup, x.Taps-v), gemvGroup
			}
			d.gemv.dots(&w.dots, computed, w.tap(line, v), x.AtTap, grad)
			for k := range count {
				sums[u*x.Taps+v+k] += float64(w.dots[k])
			}
			v += count
		}
	}
}
