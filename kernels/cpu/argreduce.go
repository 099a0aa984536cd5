package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// ArgMax and ArgMin: the place, along one dimension, of the first of the largest (smallest) elements. NaN wins over all
// numbers, and the first NaN over the others.

// argReduction is one call in work. It is a job over outputs.
type argReduction[T number] struct {
	in     accessor[T]
	kept   loop // operands: output, input
	count  int  // elements along the reduced dimension, and their distance
	stride int
	least  bool // ArgMin
}

func argReduce[T number](in accessor[T], least bool) op.Func {
	pool := &sync.Pool{New: func() any { return &argReduction[T]{in: in, least: least} }}
	return func(c *op.Call) error {
		r := pool.Get().(*argReduction[T])
		r.set(&c.Out[0], &c.In[0], int(c.I[0]))
		split(r.kept.Total, max(1, elementGrain/max(1, r.count)), r)
		pool.Put(r)
		return nil
	}
}

func (r *argReduction[T]) set(dst, a *op.View, dim int) {
	r.count, r.stride = a.Shape[dim], a.Strides[dim]
	in := [1]op.View{*a}
	in[0].Shape[dim] = 1
	r.kept.set(dst, in[:])
}

func (r *argReduction[T]) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	var w walk
	w.seek(&r.kept, lo)
	for lo < hi {
		n := min(hi-lo, w.inner()-w.col, chunk)
		if _, near := w.at(1); n >= 8 && absInt(near) < absInt(r.stride) {
			r.columns(&w, n, s)
		} else {
			n = 1
			r.single(&w, s)
		}
		w.skip(n)
		lo += n
	}
}

// argGroup is the number of elements whose extreme is found at once, by vectors where there are any.
const argGroup = 256

// straight finds one output of elements that lie side by side: which group has it, and then where it is in that.
func (r *argReduction[T]) straight(v []T, s *scratch) int {
	groups := min(len(v)/argGroup, chunk)
	most, begin := scratchBuffer[T](s, 0, groups), 0
	if groups > 0 && mostOfWholes(r.least, most, v, argGroup, argGroup) > 0 {
		begin = groups * argGroup
	}
	best, at := v[0], 0
	take := func(m T, i int) {
		if m != best && best == best {
			best, at = m, i
		}
	}
	for g := range begin / argGroup {
		take(r.most(best, most[g]), g*argGroup)
	}
	for i := begin; i < len(v); i += argGroup {
		take(r.mostOf(best, v[i:min(i+argGroup, len(v))]), i)
	}
	for i, x := range v[at:] {
		if x == best || x != x {
			return at + i
		}
	}
	return at
}

func (r *argReduction[T]) most(a, b T) T {
	if r.least {
		return min(a, b)
	}
	return max(a, b)
}

func (r *argReduction[T]) mostOf(m T, v []T) T {
	if r.least {
		return minOf(m, v)
	}
	return maxOf(m, v)
}

// single finds one output by scanning its elements.
func (r *argReduction[T]) single(w *walk, s *scratch) {
	p, _ := w.at(1)
	if r.in.direct && r.stride == 1 {
		out, _ := w.at(0)
		slice[int64](out, 1)[0] = int64(r.straight(slice[T](p, r.count), s))
		return
	}
	var best T
	var at int64
	for i := 0; i < r.count; i += chunk {
		buf := scratchBuffer[T](s, 0, min(chunk, r.count-i))
		r.in.load(buf, offset(p, i*r.stride, r.in.size), r.stride)
		if i == 0 {
			best = buf[0]
		}
		best, at = r.scan(buf, int64(i), best, at)
	}
	out, _ := w.at(0)
	slice[int64](out, 1)[0] = at
}

// scan looks for something better than best among v, whose first element has index base.
func (r *argReduction[T]) scan(v []T, base int64, best T, at int64) (T, int64) {
	if best != best {
		return best, at
	}
	if r.least {
		for i, x := range v {
			if !(x >= best) { // less, or NaN
				best, at = x, base+int64(i)
				if x != x {
					break
				}
			}
		}
		return best, at
	}
	for i, x := range v {
		if !(x <= best) {
			best, at = x, base+int64(i)
			if x != x {
				break
			}
		}
	}
	return best, at
}

// columns finds n neighbouring outputs together, row by row.
func (r *argReduction[T]) columns(w *walk, n int, s *scratch) {
	p, stride := w.at(1)
	row, best, at := scratchBuffer[T](s, 0, n), scratchBuffer[T](s, 1, n), scratchBuffer[int64](s, 2, n)
	r.in.load(best, p, stride)
	clear(at)
	for i := 1; i < r.count; i++ {
		r.in.load(row, offset(p, i*r.stride, r.in.size), stride)
		for j, x := range row {
			better := !(x <= best[j])
			if r.least {
				better = !(x >= best[j])
			}
			if better && best[j] == best[j] {
				best[j], at[j] = x, int64(i)
			}
		}
	}
	out, step := w.at(0)
	storeStrided(out, step, at)
}
