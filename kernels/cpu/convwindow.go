package cpu

import "github.com/cistern-ml/cistern/kernels/op"

// window is the lines of an image that one result needs, each as the results of a line meet it: the columns that lie AtStep
// apart side by side, beginning with First, from the leftmost that a tap reads to the rightmost.
type window[T float] struct {
	patch[T]
	first, count int // the leftmost column, and the number of columns that lie AtStep apart
	long         int // elements of a line of these: behind the columns are zeros, as many as vector loops may read too much
	span         int // lines of a channel
	channels     int
	held         []int // row that is held, by channel and row modulo span, or nothing
	data         []T
	plane        [2]int // image and first channel of what is held
	acc          []T    // a line of results or of gradients, lengthened
	zeros        []T    // a line of nothing
	taps         []T    // the kernel's elements of one group, by result, channel and tap
	group        int    // whose elements these are
	sums         []float64

	// the terms of a result that are added together, or products of lines
	factors [gemvGroup]T
	terms   [gemvGroup][]T
	dots    [gemvGroup]T

	band band
}

const nothing = -1 << 62

// lengthen is what lines are lengthened to a multiple of, so that vector loops need no ends.
const lengthen = 32

func lengthened(n int) int { return (n + lengthen - 1) / lengthen * lengthen }

// window takes the memory for one worker.
func (d *directConv[T]) window() *window[T] {
	w, _ := d.lines.Get().(*window[T])
	if w == nil {
		w = new(window[T])
	}
	w.patch = patch[T]{
		access: d.access, image: d.from.Strides[0], channel: d.from.Strides[1], row: d.from.Strides[2], column: d.from.Strides[3],
		ptr: d.from.Ptr, rows: d.from.Shape[2], columns: d.from.Shape[3], axis: d.axes,
	}
	x := &w.axis[1]
	reach := max(0, x.Taps-1) * x.AtTap
	w.first = x.At0 + min(0, reach)
	w.count = (max(reach, -reach)+(x.Size-1)*x.AtStep)/x.AtStep + 1
	reach = max(0, w.axis[0].Taps-1) * w.axis[0].AtTap
	w.span, w.channels = max(reach, -reach)+1, d.channels
	w.held = sized(w.held, w.span*d.channels)
	w.long = w.count + lengthen + gemvGroup*max(x.AtTap, -x.AtTap)
	w.data = sized(w.data, len(w.held)*x.AtStep*w.long)
	w.acc = sized(w.acc, lengthened(x.Size))
	w.zeros = sized(w.zeros, lengthened(x.Size))
	clear(w.zeros)
	w.plane, w.group = [2]int{nothing, nothing}, nothing
	w.band.planned = false
	return w
}

// line is row y of a channel of an image.
func (w *window[T]) line(image, channel, first, y int) []T {
	if p := [2]int{image, first}; p != w.plane {
		w.plane = p
		fillSlice(w.held, nothing)
	}
	at := channel*w.span + (y%w.span+w.span)%w.span
	step := w.axis[1].AtStep
	line := w.data[at*step*w.long:][:step*w.long]
	if w.held[at] != y {
		w.held[at] = y
		plane := image*w.image + (first+channel)*w.channel
		for phase := range step {
			columns := line[phase*w.long:][:w.long]
			w.patch.line(columns[:w.count], plane, y, w.first+phase)
			clear(columns[w.count:])
		}
	}
	return line
}

// tap is what tap v of a line meets, and more.
func (w *window[T]) tap(line []T, v int) []T {
	x := &w.axis[1]
	at := x.At0 + v*x.AtTap - w.first
	return line[at%x.AtStep*w.long+at/x.AtStep:]
}

// elements are those of a group's kernels that the axes meet: by result, channel and tap.
func (w *window[T]) elements(d *directConv[T], group int) []T {
	if w.group == group {
		return w.taps
	}
	h, x, k := &d.axes[0], &d.axes[1], d.conv.Kernel
	w.group = group
	w.taps = sized(w.taps, d.rows*d.channels*h.Taps*x.Taps)
	s, to := k.Strides, w.taps
	base := group * d.conv.Outputs * s[0]
	if d.id == op.Conv2DGradInput {
		s[0], s[1] = s[1], s[0]
	}
	for r := range d.rows {
		for c := range d.channels {
			for u := range h.Taps {
				at := base + r*s[0] + c*s[1] + (h.Tap0+u*h.TapStep)*s[2] + x.Tap0*s[3]
				d.access.load(to[:x.Taps], offset(k.Ptr, at, d.access.size), x.TapStep*s[3])
				to = to[x.Taps:]
			}
		}
	}
	return w.taps
}
