package cpu

import (
	"math"
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// The optimizers: many tensors in one call. Work is divided by elements, so that one large tensor and many small ones are
// both shared evenly.

// stepGrain is the least number of elements of an optimizer's work on one goroutine.
const stepGrain = 16 << 10

// stepKernel updates slices of one tensor in place: its parameter, its states and its gradient.
type stepKernel[T float] func(p, s1, s2, g []T, c *op.Call)

// stepJob is one call in work. It is a job over the elements of all tensors.
type stepJob[T float] struct {
	lane lane[T]
	f    stepKernel[T]
	call *op.Call
	n    int // tensors
}

// optimizer makes the Func of an optimizer's step.
func optimizer[T float](l lane[T], f stepKernel[T]) op.Func {
	pool := &sync.Pool{New: func() any { return &stepJob[T]{lane: l, f: f} }}
	return func(c *op.Call) error {
		j := pool.Get().(*stepJob[T])
		j.call, j.n = c, int(c.I[0])
		total := 0
		for i := range j.n {
			total += c.Out[i].Len()
		}
		split(total, stepGrain, j)
		j.call = nil
		pool.Put(j)
		return nil
	}
}

func (j *stepJob[T]) run(lo, hi int) {
	for i := 0; i < j.n && hi > 0; i++ {
		n := j.call.Out[i].Len()
		if lo < n {
			j.tensor(i, max(lo, 0), min(hi, n))
		}
		lo -= n
		hi -= n
	}
}

// tensor updates elements lo..hi-1 of tensor i.
func (j *stepJob[T]) tensor(i, lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	step := hi - lo
	if !j.lane.direct {
		step = chunk
	}
	for ; lo < hi; lo += step {
		n := min(step, hi-lo)
		var v [4][]T // parameter, states, gradient
		for k := range v {
			if m := j.view(i, k); m != nil {
				v[k] = j.open(m, k, lo, n, s)
			}
		}
		j.f(v[0], v[1], v[2], v[3], j.call)
		for k := 0; k < 3 && !j.lane.direct; k++ {
			if m := j.view(i, k); m != nil {
				j.lane.store(offset(m.Ptr, lo, j.lane.size), 1, v[k])
			}
		}
	}
}

// view is the parameter (k = 0), a state (1 and 2) or the gradient (3) of tensor i, or nil.
func (j *stepJob[T]) view(i, k int) *op.View {
	if k == 3 {
		return &j.call.In[i]
	}
	if k*j.n+i < len(j.call.Out) {
		return &j.call.Out[k*j.n+i]
	}
	return nil
}

func (j *stepJob[T]) open(m *op.View, k, lo, n int, s *scratch) []T {
	p := offset(m.Ptr, lo, j.lane.size)
	if j.lane.direct {
		return slice[T](p, n)
	}
	buf := laneBuffer[T](s, k, n)
	j.lane.load(buf, p, 1)
	return buf
}

// sgd is the step of SGDStep; buf is empty without momentum.
func sgd[T float](p, buf, _, g []T, c *op.Call) {
	lr, momentum, decay, keep := T(c.F[0]), T(c.F[1]), T(c.F[2]), T(1-c.F[3])
	first, maximize, nesterov := c.I[1] != 0, c.I[2] != 0, c.I[3] != 0
	g = g[:len(p)]
	for i := range p {
		d := g[i]
		if maximize {
			d = -d
		}
		if decay != 0 {
			d += T(decay * p[i])
		}
		if momentum != 0 {
			m := d
			if !first {
				m = T(momentum*buf[i]) + T(keep*d)
			}
			buf[i] = m
			if nesterov {
				d += T(momentum * m)
			} else {
				d = m
			}
		}
		p[i] -= T(lr * d)
	}
}

// adam is the step of AdamStep.
func adam[T float](p, m, v, g []T, c *op.Call) {
	lr, beta1, beta2, eps, decay, step := c.F[0], c.F[1], c.F[2], c.F[3], c.F[4], c.F[5]
	size := T(lr / (1 - math.Pow(beta1, step)))
	root := T(math.Sqrt(1 - math.Pow(beta2, step)))
	shrink, l2 := T(1-lr*decay), T(decay)
	if decoupled := c.I[1] != 0; decoupled {
		l2 = 0
	} else {
		shrink = 1
	}
	maximize := c.I[2] != 0
	b1, k1, b2, k2, e := T(beta1), T(1-beta1), T(beta2), T(1-beta2), T(eps)
	m, v, g = m[:len(p)], v[:len(p)], g[:len(p)]
	for i := range p {
		d := g[i]
		if maximize {
			d = -d
		}
		w := p[i] * shrink
		if l2 != 0 {
			d += T(l2 * w)
		}
		m[i] = T(b1*m[i]) + T(k1*d)
		v[i] = T(b2*v[i]) + T(T(k2*d)*d)
		p[i] = w - T(size*m[i])/(T(math.Sqrt(float64(v[i])))/root+e)
	}
}
