// Package loops prepares the loops of kernels: the iteration over all elements of a call's views, with as few dimensions as it
// takes. How the elements are then visited is the kernels' own affair: package cpu walks them in rows, and CUDA threads divide
// their number by the shape.
package loops

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// MaxOperands is the most operands that a nest has.
const MaxOperands = 4

// Nest is the iteration over all elements of up to four operands of one shape, after simplification: dimensions of one element
// are gone, the first operand's strides are not negative and descend, and neighbouring dimensions that all operands walk as one
// are one. The first operand is the output, so that it is written in the order of memory. A nest over one element has no
// dimensions; one over no elements is not simplified.
type Nest struct {
	NDim  int
	Total int // elements
	Shape [op.MaxDims]int

	N      int // operands
	Ptr    [MaxOperands]device.Ptr
	Size   [MaxOperands]int // of an element in bytes
	Stride [MaxOperands][op.MaxDims]int
}

// Set makes l the nest over dst and the inputs, whose shapes are equal.
func (l *Nest) Set(dst *op.View, in []op.View) {
	l.Begin(dst)
	for k := range in {
		l.Add(&in[k])
	}
	l.Finish()
}

// Begin, Add and Finish are Set in pieces, for operands that are not in one slice. Before Finish, NDim may be lowered to leave out
// the last dimensions.
func (l *Nest) Begin(dst *op.View) {
	l.N, l.NDim, l.Shape = 0, dst.NDim, dst.Shape
	l.Add(dst)
}

// Add appends an operand.
func (l *Nest) Add(v *op.View) {
	l.Ptr[l.N], l.Size[l.N], l.Stride[l.N] = v.Ptr, v.DType.Size(), v.Strides
	l.N++
}

// Finish simplifies.
func (l *Nest) Finish() {
	dims := l.NDim
	l.NDim, l.Total = 0, 1
	for d := range dims {
		size := l.Shape[d]
		l.Total *= size
		if size == 1 {
			continue
		}
		if l.NDim < d {
			l.move(l.NDim, d)
		}
		l.NDim++
	}
	if l.Total > 0 {
		l.flip()
		l.sort()
		l.merge()
	}
}

// flip makes the output's strides positive by walking dimensions from their other end.
func (l *Nest) flip() {
	for d := range l.NDim {
		if l.Stride[0][d] >= 0 {
			continue
		}
		for k := range l.N {
			l.Ptr[k] += device.Ptr(l.Stride[k][d] * (l.Shape[d] - 1) * l.Size[k])
			l.Stride[k][d] = -l.Stride[k][d]
		}
	}
}

// sort orders dimensions by descending stride of the output, by insertion: it is stable, and there are few.
func (l *Nest) sort() {
	for i := 1; i < l.NDim; i++ {
		for d := i; d > 0 && l.Stride[0][d-1] < l.Stride[0][d]; d-- {
			l.Shape[d-1], l.Shape[d] = l.Shape[d], l.Shape[d-1]
			for k := range l.N {
				s := &l.Stride[k]
				s[d-1], s[d] = s[d], s[d-1]
			}
		}
	}
}

// merge joins neighbouring dimensions that every operand walks as one.
func (l *Nest) merge() {
	kept := 0
	for d := 1; d < l.NDim; d++ {
		size := l.Shape[d]
		if l.oneWalk(kept, d) {
			size *= l.Shape[kept]
		} else {
			kept++
		}
		l.move(kept, d)
		l.Shape[kept] = size
	}
	l.NDim = min(l.NDim, kept+1)
}

// move makes dimension d that in place to.
func (l *Nest) move(to, d int) {
	l.Shape[to] = l.Shape[d]
	for k := range l.N {
		s := &l.Stride[k]
		s[to] = s[d]
	}
}

// oneWalk reports whether every operand's step along outer is the one that follows the last along inner.
func (l *Nest) oneWalk(outer, inner int) bool {
	for k := range l.N {
		if l.Stride[k][outer] != l.Stride[k][inner]*l.Shape[inner] {
			return false
		}
	}
	return true
}

// Contiguous reports whether operand k lies in memory in the order of the nest, without gaps.
func (l *Nest) Contiguous(k int) bool {
	expect := 1
	for d := l.NDim - 1; d >= 0; d-- {
		if l.Stride[k][d] != expect {
			return false
		}
		expect *= l.Shape[d]
	}
	return true
}
