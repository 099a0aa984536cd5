package cpu

import (
	"math"
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Random numbers. philox.go has the layout: which words an element uses, and what becomes of them.

// randomizer is one call in work. It is a job over blocks of four elements.
type randomizer[T float] struct {
	call  *op.Call
	out   accessor[T]
	shape func(u []T, c *op.Call) // turns uniform numbers, whole blocks of them, into what the operation wants
}

// random makes the Func of an operation that turns uniform numbers into others.
func random[T float](out accessor[T], shape func(u []T, c *op.Call)) op.Func {
	pool := &sync.Pool{New: func() any { return &randomizer[T]{out: out, shape: shape} }}
	return func(c *op.Call) error {
		r := pool.Get().(*randomizer[T])
		r.call = c
		split((c.Out[0].Len()+3)/4, elementGrain/16, r)
		r.call = nil
		pool.Put(r)
		return nil
	}
}

func (r *randomizer[T]) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	dst := &r.call.Out[0]
	total := dst.Len()
	for lo < hi {
		n := min(hi-lo, chunk/4)
		u := scratchBuffer[T](s, 0, 4*n)
		uniforms(u, uint64(r.call.I[0]), uint64(r.call.I[1])+uint64(lo), s)
		r.shape(u, r.call)
		r.out.store(offset(dst.Ptr, 4*lo, r.out.size), 1, u[:min(4*n, total-4*lo)])
		lo += n
	}
}

// uniforms fills u, whole blocks of it, with the numbers u of the layout, beginning with block first. It uses buffers 1 and 2 of
// the scratch.
func uniforms[T float](u []T, key, first uint64, s *scratch) {
	w := scratchBuffer[uint32](s, 1, len(u))
	philoxBlocks(w, key, first, 0)
	if sizeOf(u[0]) == 4 {
		for i := range u {
			u[i] = T(uniform24(w[i]))
		}
		return
	}
	v := scratchBuffer[uint32](s, 2, len(u))
	philoxBlocks(v, key, first, 1)
	for i := range u {
		u[i] = T(uniform53(w[i], v[i]))
	}
}

func uniform[T float](u []T, c *op.Call) {
	from, width := T(c.F[0]), T(c.F[1]-c.F[0])
	for i := range u {
		u[i] = from + T(u[i]*width)
	}
}

// normal is the method of Box and Muller: 1-u is exact, and in (0, 1].
func normal[T float](u []T, c *op.Call) {
	for i := 0; i+2 <= len(u); i += 2 {
		r := math.Sqrt(-2 * math.Log(1-float64(u[i])))
		sin, cos := math.Sincos(2 * math.Pi * float64(u[i+1]))
		u[i] = T(c.F[0] + c.F[1]*r*cos)
		u[i+1] = T(c.F[0] + c.F[1]*r*sin)
	}
}

func bernoulli[T float](u []T, c *op.Call) {
	for i := range u {
		u[i] = T(truth(float64(u[i]) < c.F[0]))
	}
}

// boolAccessor stores the zeros and ones of Bernoulli as Bool.
func boolAccessor() accessor[float32] {
	return accessor[float32]{size: 1, store: func(p device.Ptr, _ int, src []float32) {
		dst := slice[uint8](p, len(src))
		for i, v := range src {
			dst[i] = uint8(v)
		}
	}}
}
