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
	words wordsKernel             // in its place for float32; may be nil
}

// random makes the Func of an operation that turns uniform numbers into others.
func random[T float](out accessor[T], shape func(u []T, c *op.Call), words wordsKernel) op.Func {
	pool := &sync.Pool{New: func() any { return &randomizer[T]{out: out, shape: shape, words: words} }}
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
		key, first := seedOf(r.call)
		first += uint64(lo)
		if narrow, ok := any(u).([]float32); ok && r.words != nil {
			words := scratchBuffer[float32](s, 1, len(u)) // the bits of which are the words
			philoxBlocks(scratchBuffer[uint32](s, 1, len(u)), key, first, 0)
			r.words(narrow, words, r.call)
		} else {
			uniforms(u, key, first, s)
			r.shape(u, r.call)
		}
		r.out.store(offset(dst.Ptr, 4*lo, r.out.size), 1, u[:min(4*n, total-4*lo)])
		lo += n
	}
}

// seedOf is the key of a call, and its counter offset.
func seedOf(c *op.Call) (key, first uint64) {
	key, first = uint64(c.I[0]), uint64(c.I[1])
	if v := op.RandomOperand(c); v != nil {
		at := slice[int64](v.Ptr, 2)
		return uint64(at[0]), first + uint64(at[1])
	}
	return key, first
}

// wordsKernel turns random words, whole blocks of them, into what an operation of float32 wants. They are the bits of w.
type wordsKernel func(dst, w []float32, c *op.Call)

func uniformWords(dst, w []float32, c *op.Call) {
	var s functionScalars
	s.narrow[0], s.narrow[1] = float32(c.F[0]), float32(c.F[1]-c.F[0])
	apply(fnUniform, dst, w, nil, nil, &s)
	most := float32(c.F[2])
	if last := float64(s.narrow[0]) + float64((1-0x1p-24)*float64(s.narrow[1])); last <= float64(most) { // of the largest word
		return
	}
	for i, v := range dst {
		dst[i] = min(v, most)
	}
}

func normalWords(dst, w []float32, c *op.Call) {
	var s functionScalars
	s.narrow[0], s.narrow[1] = float32(c.F[0]), float32(c.F[1])
	if !vector.functions {
		plainFunction(fnNormals, dst, w, nil, nil, &s)
		return
	}
	if vector.masked {
		if len(dst) > 0 {
			maskedFunction(fnNormals, len(dst), &dst[0], &w[0], nil, nil, &s)
		}
		return
	}
	n := len(dst) &^ 15
	if n > 0 {
		vectorFunction(fnNormals, n, &dst[0], &w[0], nil, nil, &s)
	}
	if n < len(dst) {
		var rest, out [16]float32
		copy(rest[:], w[n:])
		vectorFunction(fnNormals, 16, &out[0], &rest[0], nil, nil, &s)
		copy(dst[n:], out[:])
	}
}

func bernoulliWords(dst, w []float32, c *op.Call) {
	applyKept(fnKept, dst, w, nil, keptLimit(c.F[0]), 1)
}

// keptLimit is the limit below which the upper 24 bits of a word are with a probability: exactly where the uniform number is below that.
func keptLimit(probability float64) uint32 { return uint32(math.Ceil(probability * (1 << 24))) }

// keptFactors are a factor for words whose upper 24 bits are below a limit, and 0 for the others.
func keptFactors[T float](dst []T, words []uint32, limit uint32, factor T) {
	if narrow, ok := any(dst).([]float32); ok {
		applyKept(fnKept, narrow, asFloats(words), nil, limit, float32(factor))
		return
	}
	factors := [2]T{0, factor}
	for i, w := range words {
		dst[i] = factors[truth(w>>8 < limit)]
	}
}

// applyKept calls a function of words and that limit.
func applyKept(f functionID, dst, a, b []float32, limit uint32, factor float32) {
	var s functionScalars
	s.narrow[0], s.narrow[1] = float32(limit), factor
	apply(f, dst, a, b, nil, &s)
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
	from, width, most := T(c.F[0]), T(c.F[1]-c.F[0]), T(c.F[2])
	for i := range u {
		u[i] = min(from+T(u[i]*width), most)
	}
}

// normal is the method of Box and Muller: 1-u is exact, and in (0, 1].
func normal[T float](u []T, c *op.Call) {
	for i := 0; i+2 <= len(u); i += 2 {
		r := math.Sqrt(-2 * math.Log(1-float64(u[i])))
		sin, cos := math.Sincos(2 * math.Pi * float64(u[i+1]))
		u[i] = T(c.F[0] + float64(c.F[1]*r*cos))
		u[i+1] = T(c.F[0] + float64(c.F[1]*r*sin))
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
