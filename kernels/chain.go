package kernels

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/timeline"
	"github.com/cistern-ml/cistern/kernels/cpu"
	"github.com/cistern-ml/cistern/kernels/internal/loops"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Element-wise operations that wait on a queue behind each other run as one pass over memory: of each piece of their elements the first
// computes its results, then the second, and so on, before the next piece begins. What one writes and the next reads is still in the
// cache then, also if both are larger than that. Every operation calls the kernel that it would call alone, and writes what it would
// write: results are the same bits, and whoever kept a tensor from the middle of the chain, as gradients do, finds it.
//
// Two operations run together if they have the same number of elements and write them in the order of memory, and if memory that one
// writes and the other reads or writes is the same view for both: then an element needs nothing from another one of its chain. A
// result that was freed in between, and whose memory is the next one's, is such a case.

// chainBytes is how much memory the views of a piece take: half of a second-level cache of 512 KiB.
const chainBytes = 256 << 10

// largestUnit is the largest piece that a chain takes if it cannot be cut smaller, because an operand is broadcast.
const largestUnit = 4 * chainBytes

// chained is a call of an element-wise operation on a queue: a device.Joint, of which the queue makes no use when it has run.
type chained struct {
	call laid
	f    op.Func
	nest loops.Nest // over the output and the inputs
	unit int        // elements between two places where it can be cut, or 0 if it runs alone
}

// laid is a call with the memory for its views.
type laid struct {
	op.Call
	out [1]op.View
	in  [loops.MaxOperands - 1]op.View
}

// lay makes l a copy of c that shares nothing with it, if c has no more views than an element-wise operation.
func (l *laid) lay(c *op.Call) {
	l.Call = *c
	l.Out, l.In = append(l.out[:0], c.Out...), append(l.in[:0], c.In...)
}

// waiting has chained calls for the next that are launched, and layouts memory for the pieces of those that run.
var (
	waiting = sync.Pool{New: func() any { return new(chained) }}
	layouts = sync.Pool{New: func() any { return new([]laid) }}
)

func newChained(c *op.Call, f op.Func) *chained {
	w := waiting.Get().(*chained)
	w.call.lay(c)
	w.f, w.unit = f, 0
	if len(c.Out) != 1 || len(c.In) >= loops.MaxOperands || !c.Out[0].Contiguous() {
		return w
	}
	w.nest.Set(&c.Out[0], c.In)
	switch n := &w.nest; {
	case n.Total == 0:
	case n.NDim < 2:
		w.unit = 1
	default:
		w.unit = n.Total / n.Shape[0]
	}
	return w
}

// recycle is the last that is done with w.
func (w *chained) recycle() {
	w.call.Stream = nil
	waiting.Put(w)
}

// Joins counts the operations that follow, up to the first that does not fit to all before it.
func (w *chained) Joins(next []device.Joint) int {
	if w.unit == 0 {
		return 0
	}
	unit, bytes := w.unit, w.bytes()
	for i, j := range next {
		v, ok := j.(*chained)
		if !ok || v.unit == 0 || v.nest.Total != w.nest.Total || v.call.Stream != w.call.Stream {
			return i
		}
		unit, bytes = multiple(unit, v.unit), bytes+v.bytes()
		if unit*bytes > largestUnit || w.hinders(v) {
			return i
		}
		for _, k := range next[:i] {
			if k.(*chained).hinders(v) {
				return i
			}
		}
	}
	return len(next)
}

// bytes is what an element of each view takes.
func (w *chained) bytes() int {
	n := 0
	for k := range w.nest.N {
		n += w.nest.Size[k]
	}
	return n
}

// multiple is the greater of two units if it is a multiple of the other, else their product, which is one.
func multiple(a, b int) int {
	switch {
	case a%b == 0:
		return a
	case b%a == 0:
		return b
	}
	return a * b
}

// hinders reports whether later, which comes after w, reads or writes what w writes, or writes what w reads, elsewhere than w does.
func (w *chained) hinders(later *chained) bool {
	for k := range later.nest.N {
		if apart(w, 0, later, k) {
			return true
		}
	}
	for k := 1; k < w.nest.N; k++ {
		if apart(w, k, later, 0) {
			return true
		}
	}
	return false
}

// apart reports whether two operands share memory without being the same elements in the same order.
func apart(a *chained, k int, b *chained, l int) bool {
	aFrom, aTo := a.span(k)
	bFrom, bTo := b.span(l)
	if aTo <= bFrom || bTo <= aFrom {
		return false
	}
	return aFrom != bFrom || a.nest.Size[k] != b.nest.Size[l] || !a.nest.Contiguous(k) || !b.nest.Contiguous(l)
}

// span is the memory in which operand k lies: from its first byte to behind its last.
func (w *chained) span(k int) (from, to device.Ptr) {
	n := &w.nest
	from, to = n.Ptr[k], n.Ptr[k]
	for d := range n.NDim {
		reach := n.Stride[k][d] * (n.Shape[d] - 1) * n.Size[k]
		if reach < 0 {
			from += device.Ptr(reach)
		} else {
			to += device.Ptr(reach)
		}
	}
	return from, to + device.Ptr(n.Size[k])
}

// Run runs w and what follows it.
func (w *chained) Run(next []device.Joint) error {
	if len(next) == 0 {
		defer w.recycle()
		return timed(&w.call.Call, w.f)
	}
	c := &chain{calls: make([]*chained, 0, 1+len(next)), total: w.nest.Total}
	c.calls = append(c.calls, w)
	for _, j := range next {
		c.calls = append(c.calls, j.(*chained))
	}
	defer func() {
		for _, w := range c.calls {
			w.recycle()
		}
	}()
	return c.run()
}

// chain is calls that run together.
type chain struct {
	calls []*chained
	total int // elements
	piece int // elements of all calls that follow each other
}

func (c *chain) run() error {
	unit, bytes := 1, 0
	for _, w := range c.calls {
		unit, bytes = multiple(unit, w.unit), bytes+w.bytes()
	}
	c.piece = max(1, chainBytes/(unit*bytes)) * unit
	r := timeline.Active()
	begin := time.Now()
	err := cpu.InPieces(c.total, c.piece, c.part)
	if r != nil {
		s := c.calls[0].call.Stream
		id := s.Device().ID()
		r.Operation(uint8(id.Kind), id.Index, uint64(s.ID()), c.name(), begin, time.Since(begin))
	}
	return err
}

// name is that of the operations, as in "mul+add+tanh".
func (c *chain) name() string {
	names := make([]string, len(c.calls))
	for i, w := range c.calls {
		names[i] = w.call.Op.String()
	}
	return strings.Join(names, "+")
}

// part runs all calls on elements lo..hi-1, one piece after the other.
func (c *chain) part(lo, hi int) error {
	pooled := layouts.Get().(*[]laid)
	defer layouts.Put(pooled)
	*pooled = slices.Grow((*pooled)[:0], len(c.calls))[:len(c.calls)]
	pieces := *pooled
	for i, w := range c.calls {
		w.layPiece(&pieces[i])
	}
	for ; lo < hi; lo += c.piece {
		for i, w := range c.calls {
			w.place(&pieces[i], lo, min(lo+c.piece, hi))
			if err := w.f(&pieces[i].Call); err != nil {
				return err
			}
		}
	}
	return nil
}

// layPiece makes l the call of w on some of its elements: place says which.
func (w *chained) layPiece(l *laid) {
	l.lay(&w.call.Call)
	n := &w.nest
	for k := range n.N {
		v := l.view(k)
		v.NDim, v.Shape, v.Strides = max(n.NDim, 1), n.Shape, n.Stride[k]
		if n.NDim == 0 { // one element
			v.Strides[0] = 1
		}
	}
}

// place moves l, which layPiece has made, to elements lo..hi-1.
func (w *chained) place(l *laid, lo, hi int) {
	row, rows := lo/w.unit, (hi-lo)/w.unit
	for k := range w.nest.N {
		v := l.view(k)
		v.Ptr = w.nest.Ptr[k] + device.Ptr(row*v.Strides[0]*w.nest.Size[k])
		v.Shape[0] = rows
	}
}

// view is operand k: the output, and then the inputs.
func (l *laid) view(k int) *op.View {
	if k == 0 {
		return &l.out[0]
	}
	return &l.in[k-1]
}
