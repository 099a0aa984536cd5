package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Element-wise calls with an input that lies across, like x + y of a transposed y: along a row of the output its elements are far apart, each in a line of
// its own, and those beside them are wanted only by the next rows. Such calls go band by band, and each band begins with a copy of these inputs that
// exchanges the dimensions.

const (
	bandElements = 16 << 10 // of a band: the copies, and what is read and written beside them, stay in the second-level cache
	bandRows     = 64
	bandGap      = 16      // elements between the rows of a copy, so that these do not share few sets of the cache
	bandLeast    = 4 << 10 // elements of a call that is worth it
)

// crosswiseCall is a call in work. It is a job over bands.
type crosswiseCall struct {
	loop          loop
	call          *op.Call
	f             op.Func // computes a band
	lies          [4]bool // operands that lie across
	across        int     // the dimension along which the elements of these lie side by side
	rows, columns int     // of a band
	down, right   int     // bands of a plane
	planes        loop    // over the first elements of all planes
}

var crosswiseCalls = sync.Pool{New: func() any { return new(crosswiseCall) }}

// moves are the Copies of elements by sizeClass.
var moves = [sizeClasses]op.Func{move[uint8](), move[uint16](), move[uint32](), move[uint64]()}

// crosswise is f, which has so many inputs, for calls whose inputs may lie across.
func crosswise(inputs int, f op.Func) op.Func {
	return func(c *op.Call) error {
		if !mayCross(c, inputs) {
			return f(c)
		}
		j := crosswiseCalls.Get().(*crosswiseCall)
		defer crosswiseCalls.Put(j)
		if !j.begin(c, inputs) {
			return f(c)
		}
		j.call, j.f = c, f
		split(j.planes.Total*j.down*j.right, max(1, elementGrain/bandElements), j)
		j.call, j.f = nil, nil
		return nil
	}
}

// mayCross tells calls of which an input may lie across from the many others.
func mayCross(c *op.Call, inputs int) bool {
	if c.Out[0].NDim < 2 || c.Out[0].Len() < bandLeast {
		return false
	}
	packed := c.Out[0].Contiguous()
	for k := range inputs {
		packed = packed && c.In[k].Contiguous()
	}
	return !packed
}

// begin takes a call, and reports whether an input lies across.
func (j *crosswiseCall) begin(c *op.Call, inputs int) bool {
	l := &j.loop
	l.set(&c.Out[0], c.In[:inputs])
	last := l.NDim - 1
	j.across = -1
	for k := 1; k < l.N; k++ {
		j.lies[k] = false
		if s := l.Stride[k][last]; s == 0 || s == 1 {
			continue
		}
		for d := range last {
			if l.Stride[k][d] == 1 && l.Shape[d] >= crossRows && (j.across < 0 || j.across == d) {
				j.lies[k], j.across = true, d
			}
		}
	}
	if j.across < 0 || l.inner() < crossRows {
		return false
	}
	height, width := l.Shape[j.across], l.inner()
	j.columns = min(width, bandElements/min(height, bandRows))
	j.rows = min(height, bandElements/j.columns)
	j.down, j.right = panels(height, j.rows), panels(width, j.columns)
	l.planes(j.across, &j.planes)
	return true
}

// crossBand is what a goroutine needs for one: the calls, and memory for the copies.
type crossBand struct {
	call, copy op.Call
	views      [5]op.View // the operands, and what is copied
	memory     [4][]uint64
}

var crossBands = sync.Pool{New: func() any { return new(crossBand) }}

func (j *crosswiseCall) run(lo, hi int) {
	b := crossBands.Get().(*crossBand)
	defer crossBands.Put(b)
	b.call = op.Call{Op: j.call.Op, Stream: j.call.Stream, Out: b.views[:1], In: b.views[1:j.loop.N], F: j.call.F, I: j.call.I}
	b.copy = op.Call{Op: op.Copy, Stream: j.call.Stream, In: b.views[4:]}
	for ; lo < hi; lo++ {
		var w walk
		w.seek(&j.planes, lo/(j.down*j.right))
		at := lo % (j.down * j.right)
		j.band(b, &w, at/j.right*j.rows, at%j.right*j.columns)
	}
	b.call, b.copy = op.Call{}, op.Call{} // they hold nothing of their caller's
}

// band computes the band of w's plane that begins at place y along across, and at place x along the last dimension.
func (j *crosswiseCall) band(b *crossBand, w *walk, y, x int) {
	l := &j.loop
	height, width := min(j.rows, l.Shape[j.across]-y), min(j.columns, l.inner()-x)
	for k := range l.N {
		v := &b.views[k]
		v.DType = j.call.Out[0].DType
		if k > 0 {
			v.DType = j.call.In[k-1].DType
		}
		first, _ := w.at(k)
		down, right := l.Stride[k][j.across], l.Stride[k][l.NDim-1]
		setGrid(v, offset(first, y*down+x*right, l.Size[k]), height, width, down, right)
		if j.lies[k] {
			b.straighten(k)
		}
	}
	_ = j.f(&b.call) // element-wise kernels do not fail
}

// straighten copies operand k of the band to memory where its rows lie straight, and puts that in its place.
func (b *crossBand) straighten(k int) {
	v := &b.views[k]
	b.views[4] = *v
	size, pitch := v.DType.Size(), v.Shape[1]+bandGap
	b.memory[k] = sized(b.memory[k], (v.Shape[0]*pitch*size+7)/8)
	setGrid(v, addressAt(&b.memory[k][0]), v.Shape[0], v.Shape[1], pitch, 1)
	b.copy.Out = b.views[k : k+1]
	_ = moves[sizeClass(size)](&b.copy)
}

// setGrid makes v a view of two dimensions.
func setGrid(v *op.View, p device.Ptr, height, width, down, right int) {
	v.Ptr, v.NDim = p, 2
	v.Shape[0], v.Shape[1], v.Strides[0], v.Strides[1] = height, width, down, right
}
