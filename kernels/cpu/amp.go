package cpu

import (
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// The two kernels of a gradient scaler.

// unscaleJob is one call of AmpUnscale in work. It is a job over the elements of all gradients, as an optimizer's step.
type unscaleJob[T float] struct {
	access accessor[T]
	grads  []op.View
	inv    T
	found  atomic.Bool
}

// ampUnscale makes the Func of AmpUnscale.
func ampUnscale[T float](l accessor[T]) op.Func {
	pool := &sync.Pool{New: func() any { return &unscaleJob[T]{access: l} }}
	return func(c *op.Call) error {
		n := int(c.I[0])
		j := pool.Get().(*unscaleJob[T])
		j.grads, j.inv = c.Out[:n], T(slice[float32](c.In[0].Ptr, 1)[0])
		j.found.Store(false)
		total := 0
		for i := range j.grads {
			total += j.grads[i].Len()
		}
		split(total, stepGrain, j)
		if j.found.Load() {
			slice[float32](c.Out[n].Ptr, 1)[0] = 1
		}
		j.grads = nil
		pool.Put(j)
		return nil
	}
}

func (j *unscaleJob[T]) run(lo, hi int) {
	finite := true
	for i := 0; i < len(j.grads) && hi > 0; i++ {
		n := j.grads[i].Len()
		if lo < n && !j.gradient(&j.grads[i], max(lo, 0), min(hi, n)) {
			finite = false
		}
		lo -= n
		hi -= n
	}
	if !finite {
		j.found.Store(true)
	}
}

// gradient unscales elements lo..hi-1 of one gradient and reports whether all of them were finite.
func (j *unscaleJob[T]) gradient(g *op.View, lo, hi int) bool {
	if j.access.direct {
		return unscale(slice[T](offset(g.Ptr, lo, j.access.size), hi-lo), j.inv)
	}
	s := takeScratch()
	defer scratches.Put(s)
	finite := true
	for ; lo < hi; lo += chunk {
		p := offset(g.Ptr, lo, j.access.size)
		buf := scratchBuffer[T](s, 0, min(chunk, hi-lo))
		j.access.load(buf, p, 1)
		if !unscale(buf, j.inv) {
			finite = false
		}
		if j.inv != 1 {
			j.access.store(p, 1, buf)
		}
	}
	return finite
}

// unscale multiplies v by inv and reports whether all of v was finite before. It does both to a chunk at a time, which stays in the
// processor's cache.
func unscale[T float](v []T, inv T) bool {
	ok := true
	for len(v) > 0 {
		part := v[:min(chunk, len(v))]
		v = v[len(part):]
		ok = finite(part) && ok
		if inv == 1 {
			continue
		}
		for i, x := range part {
			part[i] = x * inv
		}
	}
	return ok
}

// finite reports whether all of v is finite. x - x is 0 for a finite number and NaN for any other, and a sum with a NaN in it is a
// NaN: so there is no branch for each element. Each addition waits for the one before in the same sum, therefore there are four.
func finite[T float](v []T) bool {
	var a, b, c, d T
	for ; len(v) >= 8; v = v[8:] {
		a += (v[0] - v[0]) + (v[1] - v[1])
		b += (v[2] - v[2]) + (v[3] - v[3])
		c += (v[4] - v[4]) + (v[5] - v[5])
		d += (v[6] - v[6]) + (v[7] - v[7])
	}
	for _, x := range v {
		a += x - x
	}
	return a+b+c+d == 0
}

// ampUpdateScale is AmpUpdateScale.
func ampUpdateScale(c *op.Call) error {
	scale, tracker := &slice[float32](c.Out[0].Ptr, 1)[0], &slice[int32](c.Out[1].Ptr, 1)[0]
	if found := slice[float32](c.In[0].Ptr, 1)[0]; found != 0 {
		*scale = float32(float64(*scale) * c.F[1])
		*tracker = 0
		return nil
	}
	if *tracker++; int64(*tracker) != c.I[0] {
		return nil
	}
	if grown := float32(float64(*scale) * c.F[0]); grown-grown == 0 { // finite
		*scale = grown
	}
	*tracker = 0
	return nil
}

func ampRows() []op.Row {
	update := op.Row{Op: op.AmpUpdateScale}
	update.Funcs[dtype.Float32] = ampUpdateScale
	return []op.Row{row(op.AmpUnscale, floats(ampUnscale[float32], ampUnscale[float64])), update}
}
