package cuda

import (
	"math"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// variants are the two kernels of an element-wise operation: on contiguous memory by vectors, and on any strides.
type variants struct{ vector, strided *kernel }

func variantsOf(module, name string) variants {
	return variants{named(module, name+"_v"), named(module, name+"_s")}
}

// elementwise makes the Func of an operation. scalars appends the kernel's scalars.
func elementwise(k variants, scalars func(*device.Params, *op.Call)) op.Func {
	var f op.Func
	f = func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		l := &t.loop
		l.Set(&c.Out[0], c.In)
		if l.Total == 0 {
			return nil
		}
		if l.Total >= maxLoop { // 16 GiB of float32 are four launches: counting in 64 bits would slow down all of them
			return halves(c, f)
		}
		p, chosen, grid := &t.params, k.strided, blocks(l.Total, threads*steps)
		if width := l.vectors(); width > 0 {
			p.Int32(int32(l.Total)) // of elements: the last group of one dimension may be short, which the groups alone do not tell
			t.cut = l.grouped(width)
			l, chosen, grid = &t.cut, k.vector, blocks(t.cut.Total, threads*vectors)
			// Half as many dimensions as other walks have: they are parameters, which each launch copies, and few calls have more.
			var w [1 + vectorDims/2*3 + 4*vectorDims]uint64
			p.Words(w[:l.pack(w[:], vectorDims)]...)
		} else {
			l.walk(p)
		}
		for i := range l.N {
			p.Ptr(l.Ptr[i])
		}
		scalars(p, c)
		return t.launch(c, chosen, grid)
	}
	return f
}

// vectors and vectorDims are VECTORS and VDIMS in src/elementwise.h.
const (
	vectors    = 2
	vectorDims = 4
)

// vectors returns the number of elements of a vector, 16 bytes of the widest operand, or 0 if they cannot be used.
func (l *loop) vectors() int {
	// 16 bytes are the most that a thread loads at once. Operands of smaller elements, as a mask of bools, are read by as many elements, in fewer bytes.
	widest := 1
	for k := range l.N {
		widest = max(widest, l.Size[k])
	}
	if width := 16 / widest; l.NDim <= vectorDims && l.groups(width) {
		return width
	}
	return 0
}

// groups reports whether width neighbours along the innermost dimension may be taken as one: every operand has them as neighbours
// in memory, at a multiple of their size, or is one element for all of them. Of a loop of one dimension the last may be fewer.
func (l *loop) groups(width int) bool {
	inner, _ := l.inner(0)
	if l.NDim > 1 && inner%width != 0 {
		return false
	}
	for k := range l.N {
		_, step := l.inner(k)
		switch {
		case step == 0 && k > 0: // read as one element, which may lie anywhere
			continue
		case step != 1 || uint64(l.Ptr[k])%uint64(width*l.Size[k]) != 0: // a view may begin at any element; a vector there would end the context
			return false
		}
		for d := range l.NDim - 1 {
			if l.Stride[k][d]%width != 0 { // the same for each further row
				return false
			}
		}
	}
	return true
}

// grouped is the loop over groups of width neighbours; its strides are still in elements.
func (l *loop) grouped(width int) loop {
	g := *l
	if g.NDim == 0 {
		return g
	}
	last := g.NDim - 1
	g.Shape[last] = (g.Shape[last] + width - 1) / width // rounded up only where there is one dimension: see groups
	g.Total = 1
	for _, n := range g.Shape[:g.NDim] {
		g.Total *= n
	}
	for k := range g.N {
		g.Stride[k][last] *= width // of one element for all it is 0 and stays so, by which kernels know it
	}
	return g
}

// Scalars of kernels: two, of the type of computation or of double.

// narrowScalars are for float32 and for half types, which compute in it.
func narrowScalars(p *device.Params, c *op.Call) {
	p.Float32(float32(c.F[0])).Float32(float32(c.F[1]))
}

func wideScalars(p *device.Params, c *op.Call) { p.Float64(c.F[0]).Float64(c.F[1]) }

// wholeScalars are for all integer types: the kernel reads as many low bytes as it has, which wraps.
func wholeScalars(p *device.Params, c *op.Call) { p.Int64(c.I[0]).Int64(c.I[1]) }

// boundScalars replace an integer outside of the type by the nearest one inside.
func boundScalars(low, high int64) func(*device.Params, *op.Call) {
	return func(p *device.Params, c *op.Call) {
		p.Int64(min(max(c.I[0], low), high)).Int64(min(max(c.I[1], low), high))
	}
}

// noScalars are for kernels that ignore theirs.
func noScalars(p *device.Params, _ *op.Call) { p.Int64(0).Int64(0) }

// scalarsOf chooses for an operation and its key type.
func scalarsOf(id op.ID, d dtype.DType) func(*device.Params, *op.Call) {
	switch {
	case d == dtype.Float64, d.IsFloat() && slices.Contains(doubleScalars, id):
		return wideScalars
	case d.IsFloat():
		return narrowScalars
	case d == dtype.Int32 && slices.Contains(boundedScalars, id):
		return boundScalars(math.MinInt32, math.MaxInt32)
	case d == dtype.Uint8 && slices.Contains(boundedScalars, id):
		return boundScalars(0, math.MaxUint8)
	}
	return wholeScalars
}

// elementwiseRows are those of the table in internal/elementwise. A module for each type: a program in half precision unpacks no other.
func elementwiseRows() []op.Row {
	rows := make([]op.Row, 0, len(elementwiseIDs))
	for _, id := range elementwiseIDs {
		rows = append(rows, typedRow(id, func(d dtype.DType) op.Func {
			return elementwise(variantsOf("elementwise_"+suffixes[d], id.String()+"_"+suffixes[d]), scalarsOf(id, d))
		}))
	}
	return rows
}

// typedRow makes a row with a Func for each type of the specification.
func typedRow(id op.ID, f func(dtype.DType) op.Func) op.Row {
	r := op.Row{Op: id}
	for _, d := range id.Types() {
		r.Funcs[d] = f(d)
	}
	return r
}
