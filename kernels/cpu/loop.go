package cpu

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// loop is the iteration over all elements of up to four operands of one shape, after simplification: dimensions of one
// element are gone, the output's strides are positive and descend, and neighbouring dimensions that all operands walk as
// one are one. Operand 0 is the output. A loop has at least one dimension; total is its number of elements.
type loop struct {
	ndim  int
	total int
	shape [op.MaxDims]int
	n     int // operands
	ops   [4]operand
}

// operand is one operand's walk: the address of its first element in loop order and its strides in elements.
type operand struct {
	ptr    device.Ptr
	size   int // of an element in bytes
	stride [op.MaxDims]int
	full   bool // loop order is memory order without gaps
}

// set makes l the loop over dst and the inputs, whose shapes are equal.
func (l *loop) set(dst *op.View, in []op.View) {
	l.ndim, l.total, l.n = 0, 1, 1+len(in)
	l.ops[0].ptr, l.ops[0].size = dst.Ptr, dst.DType.Size()
	for k := range in {
		l.ops[k+1].ptr, l.ops[k+1].size = in[k].Ptr, in[k].DType.Size()
	}
	for d := range dst.NDim {
		l.total *= dst.Shape[d]
		if dst.Shape[d] == 1 {
			continue
		}
		l.shape[l.ndim] = dst.Shape[d]
		l.ops[0].stride[l.ndim] = dst.Strides[d]
		for k := range in {
			l.ops[k+1].stride[l.ndim] = in[k].Strides[d]
		}
		l.ndim++
	}
	if l.total == 0 {
		return
	}
	l.flip()
	l.sort()
	l.merge()
	if l.ndim == 0 {
		l.ndim, l.shape[0] = 1, 1
		for k := range l.n {
			l.ops[k].stride[0] = 1
		}
	}
	for k := range l.n {
		l.ops[k].full = l.isFull(k)
	}
}

// flip makes the output's strides positive by walking dimensions from their other end.
func (l *loop) flip() {
	for d := range l.ndim {
		if l.ops[0].stride[d] >= 0 {
			continue
		}
		for k := range l.n {
			o := &l.ops[k]
			o.ptr = offset(o.ptr, o.stride[d]*(l.shape[d]-1), o.size)
			o.stride[d] = -o.stride[d]
		}
	}
}

// sort orders dimensions by descending stride of the output, by insertion: it is stable, and there are few.
func (l *loop) sort() {
	for i := 1; i < l.ndim; i++ {
		for d := i; d > 0 && l.ops[0].stride[d-1] < l.ops[0].stride[d]; d-- {
			l.shape[d-1], l.shape[d] = l.shape[d], l.shape[d-1]
			for k := range l.n {
				s := &l.ops[k].stride
				s[d-1], s[d] = s[d], s[d-1]
			}
		}
	}
}

// merge joins neighbouring dimensions that every operand walks as one.
func (l *loop) merge() {
	kept := 0
	for d := 1; d < l.ndim; d++ {
		if l.oneWalk(kept, d) {
			l.shape[kept] *= l.shape[d]
		} else {
			kept++
			l.shape[kept] = l.shape[d]
		}
		for k := range l.n {
			l.ops[k].stride[kept] = l.ops[k].stride[d]
		}
	}
	l.ndim = min(l.ndim, kept+1)
}

func (l *loop) oneWalk(outer, inner int) bool {
	for k := range l.n {
		if l.ops[k].stride[outer] != l.ops[k].stride[inner]*l.shape[inner] {
			return false
		}
	}
	return true
}

func (l *loop) isFull(k int) bool {
	expect := 1
	for d := l.ndim - 1; d >= 0; d-- {
		if l.ops[k].stride[d] != expect {
			return false
		}
		expect *= l.shape[d]
	}
	return true
}

// inner is the length of the innermost dimension, called a row below.
func (l *loop) inner() int { return l.shape[l.ndim-1] }

// walk is a position in a loop: row idx, element col of it, and where each operand's row starts, in elements.
type walk struct {
	*loop
	idx   [op.MaxDims]int
	start [4]int
	col   int
}

// seek moves to element pos of the loop.
func (w *walk) seek(l *loop, pos int) {
	w.loop = l
	if l.total == 0 {
		return
	}
	w.col = pos % l.inner()
	row := pos / l.inner()
	for d := l.ndim - 2; d >= 0; d-- {
		w.idx[d] = row % l.shape[d]
		row /= l.shape[d]
		for k := range l.n {
			w.start[k] += w.idx[d] * l.ops[k].stride[d]
		}
	}
}

// skip moves on by n elements.
func (w *walk) skip(n int) {
	w.col += n
	for w.col >= w.inner() && w.ndim > 1 {
		w.col -= w.inner()
		w.nextRow()
	}
}

func (w *walk) nextRow() {
	for d := w.ndim - 2; d >= 0; d-- {
		w.idx[d]++
		if w.idx[d] < w.shape[d] {
			for k := range w.n {
				w.start[k] += w.ops[k].stride[d]
			}
			return
		}
		w.idx[d] = 0
		for k := range w.n {
			w.start[k] -= w.ops[k].stride[d] * (w.shape[d] - 1)
		}
	}
}

// at is the address of operand k's element here, and its stride along the row.
func (w *walk) at(k int) (device.Ptr, int) {
	o := &w.ops[k]
	s := o.stride[w.ndim-1]
	return offset(o.ptr, w.start[k]+w.col*s, o.size), s
}

// straight reports whether the next n elements of operand k lie side by side in memory.
func (w *walk) straight(k, n int) bool {
	o := &w.ops[k]
	return o.full || (o.stride[w.ndim-1] == 1 && w.col+n <= w.inner())
}

// pieces calls f for each run of operand k in the next n elements that lies in one row: its place among the n, its length,
// address and stride.
func (w *walk) pieces(k, n int, f func(at, n int, p device.Ptr, stride int)) {
	here := *w
	for at := 0; at < n; {
		m := min(here.inner()-here.col, n-at)
		p, s := here.at(k)
		f(at, m, p, s)
		here.skip(m)
		at += m
	}
}
