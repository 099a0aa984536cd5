package cpu

import (
	"math"
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Fill, Arange and Copy. Copy only moves bits, so there is one for each element size.

func fill[T number](dst []T, c *op.Call) {
	v := scalar[T](c.F[0], c.I[0])
	if v == 0 && !math.Signbit(float64(v)) {
		clear(dst)
	} else if len(dst) > 0 {
		dst[0] = v
		repeat(dst)
	}
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
			buf[i] = T(c.F[0] + float64(float64(first+i)*c.F[1]))
		}
		return
	}
	for i := range buf {
		buf[i] = T(c.I[0] + int64(first+i)*c.I[1])
	}
}

// mover is one Copy in work. It is a job over the loop's elements, or over tiles if it exchanges dimensions.
type mover[T any] struct {
	loop     loop
	crossing crossing[T]
}

// move makes the Copy of elements that have the size of T.
func move[T any]() op.Func {
	pool := &sync.Pool{New: func() any { return new(mover[T]) }}
	return func(c *op.Call) error {
		m := pool.Get().(*mover[T])
		m.loop.set(&c.Out[0], c.In)
		if m.loop.Total > 0 && m.crossing.crosses(&m.loop) {
			split(m.crossing.tileCount(), elementGrain/(crossTile*crossTile), &m.crossing)
		} else {
			split(m.loop.Total, elementGrain, m)
		}
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
		if to == 1 && from == 1 && hi-lo >= 2*n && n == w.inner() && w.NDim > 1 {
			rows := w.rows((hi - lo) / n)
			d := w.NDim - 2
			moveRows[T](dst, w.Stride[0][d], src, w.Stride[1][d], rows, n)
			w.skipRows(rows)
			lo += rows * n
			continue
		}
		if to == 1 && from == 1 {
			moveLine(slice[T](dst, n), slice[T](src, n), l.Total)
		} else {
			moveRow[T](dst, to, src, from, n)
		}
		w.skip(n)
		lo += n
	}
}

const (
	cachedCopy = 8 << 20   // bytes of a Copy that stay in the cache, for whoever comes next
	copyPiece  = 512 << 10 // bytes; copy itself writes past the cache from 1 MiB on
)

// moveLine copies elements that lie side by side, of a Copy of total elements.
func moveLine[T any](dst, src []T, total int) {
	var e T
	if piece := copyPiece / sizeOf(e); total*sizeOf(e) <= cachedCopy {
		for ; len(dst) > piece; dst, src = dst[piece:], src[piece:] {
			copy(dst[:piece], src)
		}
	}
	copy(dst, src)
}

// shortMove is the length of rows, in bytes, beyond which a call of copy for each is as fast as a loop over all.
const shortMove = 4 << 10

// moveRows copies rows of n elements that lie side by side; to and from are the distances of rows.
func moveRows[T any](dst device.Ptr, to int, src device.Ptr, from, rows, n int) {
	var e T
	size := sizeOf(e)
	if vector.moveRows != nil && n*size >= 32 && n*size <= shortMove {
		for part := max(1, elementGrain/n); rows > 0; rows -= part {
			vector.moveRows(min(rows, part), &slice[byte](dst, 1)[0], to*size, &slice[byte](src, 1)[0], from*size, n*size)
			dst, src = offset(dst, part*to, size), offset(src, part*from, size)
		}
		return
	}
	for range rows {
		copy(slice[T](dst, n), slice[T](src, n))
		dst, src = offset(dst, to, size), offset(src, from, size)
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
			func(l accessor[float32]) op.Func { return random(l, bernoulli[float32], bernoulliWords) },
			func(l accessor[float64]) op.Func { return random(l, bernoulli[float64], nil) }),
			boolean(func(accessor[uint8]) op.Func { return random(boolAccessor(), bernoulli[float32], bernoulliWords) })),
		row(op.Dropout, floats(droppedOut[float32], droppedOut[float64])),
		{Op: op.Where, Funcs: bySize(choose[uint8](), choose[uint16](), choose[uint32](), choose[uint64]())},
	}
}
