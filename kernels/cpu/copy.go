package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Fill, Arange and Copy. Copy only moves bits, so there is one for each element size.

func fill[T number](dst []T, c *op.Call) {
	fillSlice(dst, scalar[T](c.F[0], c.I[0]))
}

// arange fills one dimension; it is not an element-wise kernel, because the value depends on the place.
func arange[T number](l accessor[T]) op.Func {
	return func(c *op.Call) error {
		dst := &c.Out[0]
		s := takeScratch()
		defer scratches.Put(s)
		for i := 0; i < dst.Shape[0]; i += chunk {
			buf := scratchBuffer[T](s, 0, min(chunk, dst.Shape[0]-i))
			progression(buf, i, c)
			l.store(offset(dst.Ptr, i*dst.Strides[0], l.size), dst.Strides[0], buf)
		}
		return nil
	}
}

// progression fills buf with the elements first, first+1, ... of the Arange; for floats in float64, rounded once.
func progression[T number](buf []T, first int, c *op.Call) {
	if isFloat[T]() {
		for i := range buf {
			buf[i] = T(c.F[0] + float64(first+i)*c.F[1])
		}
		return
	}
	for i := range buf {
		buf[i] = T(c.I[0] + int64(first+i)*c.I[1])
	}
}

// mover is one Copy in work. It is a job over the loop's elements.
type mover[T any] struct{ loop }

// move makes the Copy of elements that have the size of T.
func move[T any]() op.Func {
	pool := &sync.Pool{New: func() any { return new(mover[T]) }}
	return func(c *op.Call) error {
		m := pool.Get().(*mover[T])
		m.set(&c.Out[0], c.In)
		split(m.Total, elementGrain, m)
		pool.Put(m)
		return nil
	}
}

func (m *mover[T]) run(lo, hi int) { moveRange[T](&m.loop, lo, hi) }

// moveRange copies elements lo..hi-1 of a loop over an output and an input.
func moveRange[T any](l *loop, lo, hi int) {
	var w walk
	w.seek(l, lo)
	for lo < hi {
		n := min(hi-lo, w.inner()-w.col)
		dst, to := w.at(0)
		src, from := w.at(1)
		moveRow[T](dst, to, src, from, n)
		w.skip(n)
		lo += n
	}
}

func moveRow[T any](dst device.Ptr, to int, src device.Ptr, from, n int) {
	if to == 1 {
		loadStrided(slice[T](dst, n), src, from)
		return
	}
	in, j := span[T](src, from, n)
	out, i := span[T](dst, to, n)
	for range n {
		out[i] = in[j]
		i += to
		j += from
	}
}

func fillRows() []op.Row {
	zeroTo := func(f kernel0[float32]) func(accessor[float32]) op.Func {
		return func(l accessor[float32]) op.Func { return nullary(l, f) }
	}
	wide := func(l accessor[float64]) op.Func { return nullary(l, fill[float64]) }
	filler := row(op.Fill, floats(zeroTo(fill[float32]), wide),
		integers(
			func(l accessor[int64]) op.Func { return nullary(l, fill[int64]) },
			func(l accessor[int32]) op.Func { return nullary(l, fill[int32]) },
			func(l accessor[uint8]) op.Func { return nullary(l, fill[uint8]) }),
		boolean(func(l accessor[uint8]) op.Func { return nullary(l, fill[uint8]) }))
	return []op.Row{
		filler,
		{Op: op.Copy, Funcs: bySize(move[uint8](), move[uint16](), move[uint32](), move[uint64]())},
		row(op.Cast,
			floats(castFrom[float32], castFrom[float64]),
			integers(castFrom[int64], castFrom[int32], castFrom[uint8]),
			boolean(castFrom[uint8])),
		row(op.Arange,
			floats(arange[float32], arange[float64]),
			integers(arange[int64], arange[int32], arange[uint8])),
		row(op.Uniform, floats(
			func(l accessor[float32]) op.Func { return random(l, uniform[float32], uniformWords) },
			func(l accessor[float64]) op.Func { return random(l, uniform[float64], nil) })),
		row(op.Normal, floats(
			func(l accessor[float32]) op.Func { return random(l, normal[float32], normalWords) },
			func(l accessor[float64]) op.Func { return random(l, normal[float64], nil) })),
		row(op.Bernoulli, floats(
			func(l accessor[float32]) op.Func { return random(l, bernoulli[float32], nil) },
			func(l accessor[float64]) op.Func { return random(l, bernoulli[float64], nil) }),
			boolean(func(accessor[uint8]) op.Func { return random(boolAccessor(), bernoulli[float32], nil) })),
		row(op.Dropout, floats(droppedOut[float32], droppedOut[float64])),
		{Op: op.Where, Funcs: bySize(choose[uint8](), choose[uint16](), choose[uint32](), choose[uint64]())},
	}
}
