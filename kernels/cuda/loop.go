package cuda

import (
	"math/bits"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/internal/loops"
	"github.com/cistern-ml/cistern/kernels/op"
)

// maxLoop is one more than the most elements that a kernel counts: its divisions are for numbers below 2^31. Counts of 32 bits are
// cheaper than those of 64, which GPUs compose of them; addresses are of 64 bits all the same, as strides are.
const maxLoop = 1 << 31

// loop is a call's iteration over up to four operands. It is the host's side of Walk in src/base.h, where dimensions stand in
// reverse.
type loop struct{ loops.Nest } // the nest has no pointers to Go memory: a task that is pooled keeps nothing alive

// inner is the size of the innermost dimension, and its stride for operand k.
func (l *loop) inner(k int) (size, stride int) {
	if l.NDim == 0 {
		return 1, 1
	}
	return l.Shape[l.NDim-1], l.Stride[k][l.NDim-1]
}

// walk appends the loop as a Walk of its operands.
func (l *loop) walk(p *device.Params) {
	var w [1 + op.MaxDims/2*3 + loops.MaxOperands*op.MaxDims]uint64 // sizes, divisors of three half words each, strides
	p.Words(w[:l.pack(w[:], op.MaxDims)]...)
}

// pack writes the loop as a Walk of so many dimensions, an even number, and returns the number of words.
func (l *loop) pack(w []uint64, dims int) int {
	w[0] = uint64(uint32(l.Total)) | uint64(l.NDim)<<32
	// Divisors are of three half words and not aligned to words: an even number of them ends at one, where strides begin.
	at := 1
	for i := 0; i < dims; i += 2 { // two divisors are three words
		a, b := l.divisor(i), l.divisor(i+1)
		w[at], w[at+1], w[at+2] = pair(a[0], a[1]), pair(a[2], b[0]), pair(b[1], b[2])
		at += 3
	}
	for k := range l.N {
		for i := range l.NDim { // from the inside, as a kernel divides
			w[at+i] = uint64(l.Stride[k][l.NDim-1-i])
		}
		clear(w[at+l.NDim : at+dims]) // strides of dimensions that are not there; the kernel does not look at them, and launches of equal calls are equal
		at += dims
	}
	return at
}

// divisor is that of the dimension which is i from the inside.
func (l *loop) divisor(i int) [3]uint32 {
	if i >= l.NDim {
		return [3]uint32{1, 1, 0}
	}
	return divisor(max(l.Shape[l.NDim-1-i], 1)) // an empty loop divides by nothing
}

// put32 sets the ith half word.
func put32(w []uint64, i int, v uint32) {
	shift := 32 * (i % 2)
	w[i/2] = w[i/2]&^(0xffffffff<<shift) | uint64(v)<<shift
}

// divisor prepares division of numbers below 2^31 by size, in 1..2^31: the quotient is (hi(n*mul) + n) >> shift, where hi is
// the upper half of the product. (Granlund and Montgomery, "Division by invariant integers using multiplication".)
func divisor(size int) [3]uint32 {
	shift := bits.Len(uint(size - 1))
	mul := (uint64(1)<<32)*(uint64(1)<<shift-uint64(size))/uint64(size) + 1
	return [3]uint32{uint32(size), uint32(mul), uint32(shift)}
}

// halves cuts a call over views of one shape into two calls along the dimension of most elements, for the first of its
// callers whose loop would be too large.
func halves(c *op.Call, f op.Func) error {
	dst := &c.Out[0]
	dim := 0
	for d, size := range dst.Shape[:dst.NDim] {
		if size > dst.Shape[dim] {
			dim = d
		}
	}
	// f may find that a half is too large as well, and cut again.
	half := dst.Shape[dim] / 2 // at least 1: 2^31 elements in 8 dimensions make one of 15 or more
	low, high := c.Clone(), c.Clone()
	for _, views := range [][2][]op.View{{low.Out, high.Out}, {low.In, high.In}} {
		for k := range views[0] {
			a, b := &views[0][k], &views[1][k]
			a.Shape[dim] = half
			b.Shape[dim] -= half
			b.Ptr += device.Ptr(half * b.Strides[dim] * b.DType.Size())
		}
	}
	if err := f(low); err != nil {
		return err
	}
	return f(high)
}

// suffixes are what the names of kernels end in, by type; they are the types in src/base.h.
var suffixes = [dtype.Count]string{
	dtype.Float32: "f32", dtype.Float64: "f64", dtype.Float16: "f16", dtype.BFloat16: "bf16",
	dtype.Int64: "i64", dtype.Int32: "i32", dtype.Uint8: "u8", dtype.Bool: "b8",
}

// words are the suffixes of kernels that only move bits.
var words = map[int]string{1: "u8", 2: "u16", 4: "u32", 8: "u64"}
