package cpu

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/internal/loops"
	"github.com/cistern-ml/cistern/kernels/op"
)

// loop is a call's iteration over up to four operands, of at least one dimension.
type loop struct {
	loops.Nest
	full [loops.MaxOperands]bool // operands that lie in memory in the order of the loop, without gaps
}

// set makes l the loop over dst and the inputs, whose shapes are equal.
func (l *loop) set(dst *op.View, in []op.View) {
	l.Set(dst, in)
	if l.Total == 0 {
		return
	}
	if l.NDim == 0 { // one element is a row, too
		l.NDim, l.Shape[0] = 1, 1
		for k := range l.N {
			l.Stride[k][0] = 1
		}
	}
	for k := range l.N {
		l.full[k] = l.Contiguous(k)
	}
}

// inner is the length of the innermost dimension, called a row below.
func (l *loop) inner() int { return l.Shape[l.NDim-1] }

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
	if l.Total == 0 {
		return
	}
	w.col = pos % l.inner()
	row := pos / l.inner()
	for d := l.NDim - 2; d >= 0; d-- {
		w.idx[d] = row % l.Shape[d]
		row /= l.Shape[d]
		for k := range l.N {
			w.start[k] += w.idx[d] * l.Stride[k][d]
		}
	}
}

// skip moves on by n elements.
func (w *walk) skip(n int) {
	w.col += n
	for w.col >= w.inner() && w.NDim > 1 {
		w.col -= w.inner()
		w.nextRow()
	}
}

func (w *walk) nextRow() {
	for d := w.NDim - 2; d >= 0; d-- {
		w.idx[d]++
		if w.idx[d] < w.Shape[d] {
			for k := range w.N {
				w.start[k] += w.Stride[k][d]
			}
			return
		}
		w.idx[d] = 0
		for k := range w.N {
			w.start[k] -= w.Stride[k][d] * (w.Shape[d] - 1)
		}
	}
}

// rows is how many of the next rows, at most n, the dimension outside of rows has.
func (w *walk) rows(n int) int { return min(n, w.Shape[w.NDim-2]-w.idx[w.NDim-2]) }

// skipRows moves on by n rows, of those that rows says.
func (w *walk) skipRows(n int) {
	d := w.NDim - 2
	w.idx[d] += n - 1
	for k := range w.N {
		w.start[k] += (n - 1) * w.Stride[k][d]
	}
	w.nextRow()
}

// at is the address of operand k's element here, and its stride along the row.
func (w *walk) at(k int) (device.Ptr, int) {
	s := w.Stride[k][w.NDim-1]
	return offset(w.Ptr[k], w.start[k]+w.col*s, w.Size[k]), s
}

// straight reports whether the next n elements of operand k lie side by side in memory.
func (w *walk) straight(k, n int) bool {
	return w.full[k] || (w.Stride[k][w.NDim-1] == 1 && w.col+n <= w.inner())
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
