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

// operands are slices of one tensor: its parameter, its states in the order of the groups, and at gradient its gradient.
// States that the call does not have are nil.
type operands[T float] [5][]T

const gradient = 4

// stepKernel updates slices of one tensor in place. S are the call's scalars.
type stepKernel[T float, S any] func(v operands[T], s *S)

// stepJob is one call in work. It is a job over the elements of all tensors.
type stepJob[T float, S any] struct {
	access  accessor[T]
	f       stepKernel[T, S]
	call    *op.Call
	scalars S
	each    []S // of each tensor, if the steps are counted in memory
	n       int // tensors
	groups  int // of outputs of the accessor's type
	grads   bool
}

// tensors makes the Func of an operation that updates many tensors without gradients. An optimizer's step is in step.go.
func tensors[T float, S any](l accessor[T], prepare func(*op.Call) S, f stepKernel[T, S]) op.Func {
	pool := newStepJobs(l, f, false)
	return func(c *op.Call) error {
		j := pool.Get().(*stepJob[T, S])
		j.scalars = prepare(c)
		j.do(c, 1)
		pool.Put(j)
		return nil
	}
}

func newStepJobs[T float, S any](l accessor[T], f stepKernel[T, S], grads bool) *sync.Pool {
	return &sync.Pool{New: func() any { return &stepJob[T, S]{access: l, f: f, grads: grads} }}
}

// do runs the job on a call with so many groups of outputs.
func (j *stepJob[T, S]) do(c *op.Call, groups int) {
	j.call, j.n, j.groups = c, int(c.I[0]), groups
	total := 0
	for i := range j.n {
		total += c.Out[i].Len()
	}
	split(total, stepGrain, j)
	j.call, j.each = nil, j.each[:0]
}

func (j *stepJob[T, S]) run(lo, hi int) {
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
func (j *stepJob[T, S]) tensor(i, lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	step, scalars := hi-lo, &j.scalars
	if len(j.each) > 0 {
		scalars = &j.each[i]
	}
	if !j.access.direct {
		step = chunk
	}
	for ; lo < hi; lo += step {
		n := min(step, hi-lo)
		var v operands[T]
		for k := range v {
			if m := j.view(i, k); m != nil {
				v[k] = j.open(m, k, lo, n, s)
			}
		}
		j.f(v, scalars)
		for k := 0; k < gradient && !j.access.direct; k++ {
			if m := j.view(i, k); m != nil {
				j.access.store(offset(m.Ptr, lo, j.access.size), 1, v[k])
			}
		}
	}
}

// view is the parameter (k = 0), a state or the gradient of tensor i, or nil.
func (j *stepJob[T, S]) view(i, k int) *op.View {
	if k == gradient {
		if !j.grads {
			return nil
		}
		return &j.call.In[i]
	}
	if k < j.groups {
		return &j.call.Out[k*j.n+i]
	}
	return nil
}

func (j *stepJob[T, S]) open(m *op.View, k, lo, n int, s *scratch) []T {
	p := offset(m.Ptr, lo, j.access.size)
	if j.access.direct {
		return slice[T](p, n)
	}
	buf := scratchBuffer[T](s, k, n)
	j.access.load(buf, p, 1)
	return buf
}

// sgdScalars are the scalars of SGDStep as T. The order is known to optimize_avx2_amd64.s.
type sgdScalars[T float] struct {
	sign                      T // what the gradient is multiplied by: see signOf
	lr, momentum, decay, keep T
	first, nesterov           bool
}

func sgdScalarsOf[T float](c *op.Call, at stepStart) sgdScalars[T] {
	return sgdScalars[T]{signOf[T](c.I[2], at), T(c.F[0]), T(c.F[1]), T(c.F[2]), T(1 - c.F[3]), at.step == 1, c.I[3] != 0}
}

// sgdStep is SGDStep.
func sgdStep[T float](v operands[T], s *sgdScalars[T]) { sgd(v[0], v[1], nil, v[gradient], s) }

// sgd is the step of SGDStep; buf is empty without momentum.
func sgd[T float](p, buf, _, g []T, s *sgdScalars[T]) {
	if s.momentum == 0 {
		buf = nil
	}
	n := sgdVector(p, buf, g, s)
	g = g[:len(p)]
	for i := n; i < len(p); i++ {
		d := T(s.sign * g[i])
		if s.decay != 0 {
			d += T(s.decay * p[i])
		}
		if buf != nil {
			m := d
			if !s.first {
				m = T(s.momentum*buf[i]) + T(s.keep*d)
			}
			buf[i] = m
			if s.nesterov {
				d += T(s.momentum * m)
			} else {
				d = m
			}
		}
		p[i] -= T(s.lr * d)
	}
}

// adamScalars are the scalars of AdamStep as T. The order is known to optimize_avx2_amd64.s.
type adamScalars[T float] struct {
	sign, shrink, decay T // of the gradient (see signOf); of the parameter, if decoupled; else the weight decay
	beta1, keep1        T
	beta2, keep2        T
	size, root, eps     T // lr/(1-beta1^t) and sqrt(1-beta2^t)
	amsgrad             bool
}

func adamScalarsOf[T float](c *op.Call, at stepStart) adamScalars[T] {
	lr, beta1, beta2, eps, decay, step := c.F[0], c.F[1], c.F[2], c.F[3], c.F[4], at.step
	s := adamScalars[T]{
		sign: signOf[T](c.I[2], at), shrink: 1, decay: T(decay),
		beta1: T(beta1), keep1: T(1 - beta1), beta2: T(beta2), keep2: T(1 - beta2),
		size: T(lr / (1 - math.Pow(beta1, step))), root: T(math.Sqrt(1 - math.Pow(beta2, step))), eps: T(eps),
	}
	if decoupled := c.I[1] != 0; decoupled {
		s.shrink, s.decay = T(1-float64(lr*decay)), 0
	}
	s.amsgrad = c.I[3] != 0
	return s
}

// adamStep is AdamStep with either denominator.
func adamStep[T float](v operands[T], s *adamScalars[T]) {
	if s.amsgrad {
		amsgrad(v[0], v[1], v[2], v[3], v[gradient], s)
	} else {
		adam(v[0], v[1], v[2], v[gradient], s)
	}
}

// adam is the step of AdamStep.
func adam[T float](p, m, v, g []T, s *adamScalars[T]) {
	n := adamVector(p, m, v, g, s)
	m, v, g = m[:len(p)], v[:len(p)], g[:len(p)]
	for i := n; i < len(p); i++ {
		d, w := T(s.sign*g[i]), T(s.shrink*p[i])
		if s.decay != 0 {
			d += T(s.decay * w)
		}
		m[i] = T(s.beta1*m[i]) + T(s.keep1*d)
		v[i] = T(s.beta2*v[i]) + T(T(s.keep2*d)*d)
		p[i] = w - T(s.size*m[i])/(T(math.Sqrt(float64(v[i])))/s.root+s.eps)
	}
}

// sgdVector and adamVector do as many elements as the processor's vector loops can, and return how many.

func sgdVector[T float](p, buf, g []T, s *sgdScalars[T]) int {
	n := len(p) &^ 7
	c, ok := any(s).(*sgdScalars[float32])
	if !ok || vector.sgd == nil || n == 0 {
		return 0
	}
	x, b, y := any(p).([]float32), any(buf).([]float32), any(g).([]float32)
	var first *float32
	if b != nil {
		first = &b[:n][0]
	}
	vector.sgd(n, &x[0], first, &y[:n][0], c)
	return n
}

func adamVector[T float](p, m, v, g []T, s *adamScalars[T]) int {
	n := len(p) &^ 7
	c, ok := any(s).(*adamScalars[float32])
	if !ok || vector.adam == nil || n == 0 {
		return 0
	}
	x, y := any(p).([]float32), any(g).([]float32)
	vector.adam(n, &x[0], &any(m).([]float32)[:n][0], &any(v).([]float32)[:n][0], &y[:n][0], c)
	return n
}
