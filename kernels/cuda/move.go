package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/x448/float16"
)

// Fill, Copy, Cast and Where.

// sized makes a row whose kernels only move bits: types of one size share them.
func sized(id op.ID, f func(suffix string) op.Func) op.Row {
	r := op.Row{Op: id}
	bySize := map[int]op.Func{}
	for _, d := range id.Types() {
		// Types of one size share kernels: fewer of them to be compiled, and to be carried.
		if bySize[d.Size()] == nil {
			bySize[d.Size()] = f(words[d.Size()])
		}
		r.Funcs[d] = bySize[d.Size()]
	}
	return r
}

// moveRows: what moves bits has kernels by size, what converts has kernels by both types.
func moveRows() []op.Row {
	return []op.Row{
		sized(op.Fill, func(suffix string) op.Func {
			return elementwise(variantsOf("move", "fill_"+suffix), fillScalar)
		}),
		sized(op.Copy, copier),
		sized(op.Where, func(suffix string) op.Func {
			return elementwise(variantsOf("move", "where_"+suffix), func(*device.Params, *op.Call) {})
		}),
		typedRow(op.Cast, castFrom),
	}
}

// fillScalar is the value as it lies in memory.
func fillScalar(p *device.Params, c *op.Call) {
	switch d := c.Out[0].DType; d {
	case dtype.Float32:
		p.Float32(float32(c.F[0]))
	case dtype.Float64:
		p.Float64(c.F[0])
	case dtype.Float16:
		// The parameter has as many bytes as the element, which the kernel takes from the lower end of the word.
		p.Int64(int64(float16.Fromfloat32(float32(c.F[0])).Bits()))
	case dtype.BFloat16:
		p.Int64(int64(brainBits(float32(c.F[0]))))
	default:
		p.Int64(c.I[0])
	}
}

// brainBits rounds to BFloat16, ties to even.
func brainBits(f float32) uint16 {
	b := math.Float32bits(f)
	if f != f {
		return uint16(b>>16) | 0x40 // a quiet NaN, whatever was cut off
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// castFrom makes the Cast from a type; the output's type chooses the kernel.
func castFrom(d dtype.DType) op.Func {
	module := "cast_integer"
	if d.IsFloat() {
		module = "cast_float"
	}
	var to [dtype.Count]op.Func
	for _, o := range dtype.All() {
		to[o] = elementwise(variantsOf(module, "cast_"+suffixes[d]+"_"+suffixes[o]), noScalars)
	}
	return func(c *op.Call) error { return to[c.Out[0].DType](c) }
}

// copier makes the Copy of one size of element: by tiles where the two sides have different inner dimensions, else as an
// element-wise operation.
func copier(suffix string) op.Func {
	plain := elementwise(variantsOf("move", "copy_"+suffix), noScalars)
	small := named("move", "transpose_"+suffix+"_32")
	large := small
	if suffix != "u64" { // of which more would not stay in registers
		large = named("move", "transpose_"+suffix+"_64")
	}
	return func(c *op.Call) error {
		t := takeTask()
		defer tasks.Put(t)
		l := &t.loop
		l.Set(&c.Out[0], c.In)
		d, ok := l.transposed() // to contiguous memory from a transposed view, mostly: what Contiguous of one does
		if !ok || l.Total >= maxLoop {
			return plain(c)
		}
		columns, rows := l.Shape[l.NDim-1], l.Shape[d]
		step, from := l.Stride[0][d], l.Stride[1][l.NDim-1]
		rest := l.without(d)
		rest.walk(&t.params)
		t.params.Ptr(l.Ptr[0]).Ptr(l.Ptr[1]).Int32(int32(rows)).Int32(int32(columns)).Int64(int64(step)).Int64(int64(from))
		// The kernel takes the two dimensions as they are, and walks the rest: a tile's rows are contiguous in the source, its columns in the
		// destination, so that both are read and written in whole sectors.
		// Blocks go over the slices, so that a grid of many small tiles is about what a GPU runs at a time.
		transpose, tile, wave := small, 32, 1024
		if min(rows, columns) > 48 && large != small {
			transpose, tile, wave = large, 64, 256
		}
		grid := blocks(rows, tile)
		grid.Y = blocks(columns, tile).X
		grid.Z = uint32(min(rest.Total, max(1, wave/int(grid.X*grid.Y)))) // a block goes on with each slice that is grid.Z further on
		return t.launch(c, transpose, grid)
	}
}

// transposed reports whether the copy is better done by tiles: both sides have a contiguous dimension, not the same one, and both
// of these are long. d is the input's.
func (l *loop) transposed() (d int, ok bool) {
	const long = 16 // elements, a sector of memory if they have two bytes: shorter runs are not worth the detour through shared memory
	last := l.NDim - 1
	// Tiles of columns are the grid's second dimension, of which 1<<20 columns take 32,768 at most.
	if l.NDim < 2 || l.Stride[0][last] != 1 || l.Stride[1][last] == 1 || l.Shape[last] < long || l.Shape[last] > 1<<20 {
		return 0, false
	}
	for d := range last {
		if l.Stride[1][d] == 1 && l.Shape[d] >= long {
			return d, true
		}
	}
	return 0, false
}

// without is the loop without dimension d and the innermost one.
func (l *loop) without(d int) loop {
	r := *l
	r.NDim = 0
	r.Total = 1
	for i := range l.NDim - 1 {
		if i == d {
			continue
		}
		r.Shape[r.NDim] = l.Shape[i]
		for k := range l.N {
			r.Stride[k][r.NDim] = l.Stride[k][i]
		}
		r.Total *= l.Shape[i]
		r.NDim++
	}
	return r
}
