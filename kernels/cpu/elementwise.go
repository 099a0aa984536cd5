package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// The element-wise driver. A kernel is a function on slices of equal length, contiguous and in the type of computation; the
// driver cuts a call into such slices. Operands that lie straight in memory, in the type of computation, are passed as they
// are; all others (strided, broadcast, half precision) go through a chunk of scratch memory. The same driver serves
// operations of none, one, two and three inputs: what is not there has an empty accessor.

// elementGrain is the least number of elements that is worth another goroutine.
const elementGrain = 32 << 10

// shortRow is the row length below which a chunk takes several rows, so that kernels are not called for a few elements.
const shortRow = 64

type (
	kernel0[D any]          func(dst []D, c *op.Call)
	kernel1[D, A any]       func(dst []D, a []A, c *op.Call)
	kernel2[D, A, B any]    func(dst []D, a []A, b []B, c *op.Call)
	kernel3[D, A, B, C any] func(dst []D, a []A, b []B, c []C, call *op.Call)
)

// elements is one element-wise call in work. It is a job over the loop's elements.
type elements[D, A, B, C any] struct {
	over elementLoop
	dst  accessor[D]
	a    accessor[A]
	b    accessor[B]
	c    accessor[C]
	f    kernel3[D, A, B, C]
}

// elementLoop is what elements of all types have. It stands in a field with a name, for methods of an embedded field would be compiled for each of
// some fifty combinations of types.
type elementLoop struct {
	loop
	call *op.Call
	// plain: all operands are direct with rows that lie straight, so that no scratch memory is needed.
	plain bool
	// byNumber computes with one number for an operand that is broadcast along rows; nil for most operations. number is the operand.
	byNumber func(n int, dst, a *float32, v float32)
	number   int
}

// none stands for the type of an input that is not there.
type none = struct{}

// elementwise makes a Func of a kernel. The accessors carry the types in memory.
func elementwise[D, A, B, C any](dst accessor[D], a accessor[A], b accessor[B], c accessor[C], f kernel3[D, A, B, C]) op.Func {
	direct := dst.direct && a.direct && b.direct && c.direct
	inputs := 0
	for _, there := range []bool{a.load != nil, b.load != nil, c.load != nil} {
		if there {
			inputs++
		}
	}
	pool := &sync.Pool{New: func() any {
		return &elements[D, A, B, C]{dst: dst, a: a, b: b, c: c, f: f}
	}}
	return crosswise(inputs, func(call *op.Call) error {
		e := pool.Get().(*elements[D, A, B, C])
		e.over.begin(call, inputs, direct)
		if e.over.Total > 0 {
			split(e.over.Total, elementGrain, e)
		}
		e.over.call = nil
		pool.Put(e)
		return nil
	})
}

// begin takes a call of operands that are direct or not.
func (l *elementLoop) begin(call *op.Call, inputs int, direct bool) {
	l.set(&call.Out[0], call.In[:inputs])
	if l.Total == 0 {
		return
	}
	l.call = call
	l.plain = direct && l.rowsStraight()
	l.byNumber, l.number = nil, 0
	if !l.plain {
		l.byNumber, l.number = numberLoop(call, &l.loop)
	}
}

// rowsStraight reports whether all operands have rows without gaps that are long enough to be passed one by one.
func (l *loop) rowsStraight() bool {
	for k := range l.N {
		if l.Stride[k][l.NDim-1] != 1 {
			return false
		}
	}
	return l.NDim == 1 || l.inner() >= shortRow
}

func (e *elements[D, A, B, C]) run(lo, hi int) {
	var w walk
	w.seek(&e.over.loop, lo)
	var s *scratch
	if !e.over.plain {
		s = takeScratch()
		defer scratches.Put(s)
	}
	for lo < hi {
		if rows := e.over.wholeRows(&w, hi-lo); rows > 0 {
			e.rows(&w, rows)
			lo += rows * w.inner()
			continue
		}
		n := e.over.step(&w, hi-lo)
		if e.over.byNumber != nil && e.over.rowByNumber(&w, n) {
			w.skip(n)
			lo += n
			continue
		}
		a := read(&e.a, &w, 1, n, s)
		b := read(&e.b, &w, 2, n, s)
		c := read(&e.c, &w, 3, n, s)
		if e.dst.direct && w.straight(0, n) {
			p, _ := w.at(0)
			e.f(slice[D](p, n), a, b, c, e.over.call)
		} else {
			dst := scratchBuffer[D](s, 0, n)
			e.f(dst, a, b, c, e.over.call)
			write(&e.dst, &w, n, dst)
		}
		w.skip(n)
		lo += n
	}
}

// wholeRows is how many of the next rows, of n elements in all, are passed as they lie: none if the loop is one row.
func (l *elementLoop) wholeRows(w *walk, n int) int {
	if !l.plain || l.NDim == 1 || w.col > 0 || n < l.inner() {
		return 0
	}
	return w.rows(n / l.inner())
}

// rows computes the next rows. It goes from one to the next without asking anew how they lie, which takes longer than a short one.
func (e *elements[D, A, B, C]) rows(w *walk, rows int) {
	n, inner := w.inner(), w.NDim-1
	var at [4]device.Ptr
	for k := range w.N {
		at[k], _ = w.at(k)
	}
	for range rows {
		e.f(slice[D](at[0], n), rowAt[A](w, 1, at[1]), rowAt[B](w, 2, at[2]), rowAt[C](w, 3, at[3]), e.over.call)
		for k := range w.N {
			at[k] = offset(at[k], w.Stride[k][inner-1], w.Size[k])
		}
	}
	w.skipRows(rows)
}

// rowAt is the row of operand k at p; nil for one that is not there.
func rowAt[T any](w *walk, k int, p device.Ptr) []T {
	if k >= w.N {
		return nil
	}
	return slice[T](p, w.inner())
}

// numberLoop is the vector loop of an operation of float32 with a number in place of an operand that is broadcast along rows, and which
// operand that is.
func numberLoop(c *op.Call, l *loop) (f func(n int, dst, a *float32, v float32), operand int) {
	if l.N != 3 || l.NDim < 2 || l.inner() < shortRow || c.Out[0].DType != dtype.Float32 || c.In[0].DType != dtype.Float32 {
		return nil, 0
	}
	last := l.NDim - 1
	operand = 2
	if l.Stride[1][last] == 0 {
		operand = 1
	}
	if l.Stride[0][last] != 1 || l.Stride[3-operand][last] != 1 || l.Stride[operand][last] != 0 {
		return nil, 0
	}
	switch {
	case c.Op == op.Add && c.F[0] == 1:
		f = vector.addScalar
	case c.Op == op.Mul:
		f = vector.mulScalar
	case c.Op == op.Div && operand == 2:
		f = vector.divScalar
	}
	return f, operand
}

// rowByNumber computes as many of the next n elements, which lie in one row, as byNumber takes: all, or none.
func (l *elementLoop) rowByNumber(w *walk, n int) bool {
	if n%8 != 0 {
		return false
	}
	dst, _ := w.at(0)
	a, _ := w.at(3 - l.number)
	v, _ := w.at(l.number)
	l.byNumber(n, &slice[float32](dst, n)[0], &slice[float32](a, n)[0], slice[float32](v, 1)[0])
	return true
}

// step is how many of the next elements are processed at once.
func (l *elementLoop) step(w *walk, left int) int {
	if l.plain {
		return min(left, w.inner()-w.col)
	}
	if w.inner() < shortRow {
		return min(left, chunk)
	}
	return min(left, chunk, w.inner()-w.col)
}

// read gives the next n elements of input k: memory itself, or a copy in buffer k of the scratch.
func read[T any](l *accessor[T], w *walk, k, n int, s *scratch) []T {
	if k >= w.N {
		return nil
	}
	p, stride := w.at(k)
	if l.direct && w.straight(k, n) {
		return slice[T](p, n)
	}
	buf := scratchBuffer[T](s, k, n)
	switch {
	case w.straight(k, n):
		l.load(buf, p, 1)
	case w.col+n <= w.inner() && stride == 0:
		if c := &s.constant[k]; c.at != p || c.n < n {
			l.load(buf[:1], p, 0)
			repeat(buf)
			c.at, c.n = p, n
		}
		return buf
	case w.col+n <= w.inner():
		l.load(buf, p, stride)
	default:
		w.pieces(k, n, func(at, n int, p device.Ptr, stride int) { l.load(buf[at:at+n], p, stride) })
	}
	s.constant[k].n = 0
	return buf
}

// write puts the next n elements of the output into memory.
func write[T any](l *accessor[T], w *walk, n int, src []T) {
	p, stride := w.at(0)
	switch {
	case w.straight(0, n):
		l.store(p, 1, src)
	case w.col+n <= w.inner():
		l.store(p, stride, src)
	default:
		w.pieces(0, n, func(at, n int, p device.Ptr, stride int) { l.store(p, stride, src[at:at+n]) })
	}
}

// nullary, unary and binary make Funcs of kernels with fewer inputs.

func nullary[D any](d accessor[D], f kernel0[D]) op.Func {
	return elementwise(d, absent, absent, absent, func(dst []D, _, _, _ []none, c *op.Call) { f(dst, c) })
}

func unary[D, A any](d accessor[D], a accessor[A], f kernel1[D, A]) op.Func {
	return elementwise(d, a, absent, absent, func(dst []D, a []A, _, _ []none, c *op.Call) { f(dst, a, c) })
}

func binary[D, A, B any](d accessor[D], a accessor[A], b accessor[B], f kernel2[D, A, B]) op.Func {
	return elementwise(d, a, b, absent, func(dst []D, a []A, b []B, _ []none, c *op.Call) { f(dst, a, b, c) })
}

var absent = accessor[none]{direct: true}
