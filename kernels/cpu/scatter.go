package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Scatter and ScatterAdd.

// lineGroup is the number of lines that scattering works on at a time, side by side.
const lineGroup = 64

// scattering is one Scatter or ScatterAdd in work. It is a job over lines: what is left of a call when all dimensions but the
// indexed one are fixed. Each line belongs to one worker, which goes along it, side by side with its neighbours.
type scattering[T any] struct {
	loop    loop   // output, source and indices, at the first elements of the lines
	n, size int    // elements of a line of the source, and of the output
	step    [3]int // along the lines: output, source and indices
	lines   func(j *scattering[T], at []lineAt)
}

// lineAt is where a line of the output begins, and where the next elements of source and indices are.
type lineAt struct{ dst, src, index device.Ptr }

// lineGroups have the memory for a group of lines.
var lineGroups = sync.Pool{New: func() any { return new([lineGroup]lineAt) }}

func newScattering[T any](c *op.Call, pool *sync.Pool) *scattering[T] {
	dim := int(c.I[0])
	j := pool.Get().(*scattering[T])
	j.n, j.size = c.In[0].Shape[dim], c.Out[0].Shape[dim]
	dst, in := c.Out[0], [2]op.View{c.In[0], c.In[1]}
	j.step = [3]int{dst.Strides[dim], in[0].Strides[dim], in[1].Strides[dim]}
	dst.Shape = in[0].Shape
	for _, v := range []*op.View{&dst, &in[0], &in[1]} {
		v.Shape[dim] = 1
	}
	j.loop.set(&dst, in[:])
	return j
}

// scattered makes the Func of jobs from pool.
func scattered[T any](pool *sync.Pool) op.Func {
	return func(c *op.Call) error {
		if err := checkAllIndices(c, c.Out[0].Shape[c.I[0]]); err != nil {
			return err
		}
		j := newScattering[T](c, pool)
		if j.n > 0 {
			split(j.loop.Total, max(16, elementGrain/4/j.n), j) // neighbouring lines share lines of the cache
		}
		pool.Put(j)
		return nil
	}
}

// scatter makes the Scatter of elements that have the size of T.
func scatter[T any]() op.Func {
	return scattered[T](&sync.Pool{New: func() any { return &scattering[T]{lines: setLines[T]} }})
}

// scatterAdd makes the Func of ScatterAdd. Half precision needs a line in float32, to be rounded once.
func scatterAdd[T float](l accessor[T]) op.Func {
	return scattered[T](&sync.Pool{New: func() any {
		j := &scattering[T]{lines: addLines[T]}
		if !l.direct {
			w := &wideLines[T]{access: l}
			j.lines = w.add
		}
		return j
	}})
}

func (j *scattering[T]) run(lo, hi int) {
	var w walk
	w.seek(&j.loop, lo)
	group := lineGroups.Get().(*[lineGroup]lineAt)
	defer lineGroups.Put(group)
	for lo < hi {
		n := min(lineGroup, hi-lo)
		for k := range n {
			l := &group[k]
			l.dst, _ = w.at(0)
			l.src, _ = w.at(1)
			l.index, _ = w.at(2)
			w.skip(1)
		}
		j.lines(j, group[:n])
		lo += n
	}
}

// setLines and addLines go along lines.

func setLines[T any](j *scattering[T], at []lineAt) {
	for range j.n {
		for k := range at {
			dst, src := j.next(&at[k])
			*dst = *src
		}
	}
}

func addLines[T float](j *scattering[T], at []lineAt) {
	for range j.n {
		for k := range at {
			dst, src := j.next(&at[k])
			*dst += *src
		}
	}
}

// next is the next element of a source's line, and where it goes.
func (j *scattering[T]) next(l *lineAt) (dst, src *T) {
	var e T
	size := sizeOf(e)
	x := int(elementAt[int64](l.index))
	dst, src = pointerTo[T](offset(l.dst, x*j.step[0], size)), pointerTo[T](l.src)
	l.src, l.index = offset(l.src, j.step[1], size), offset(l.index, j.step[2], 8)
	return dst, src
}

// pointerTo is the element at address p, and elementAt its value.
func pointerTo[T any](p device.Ptr) *T { return &slice[T](p, 1)[0] }

func elementAt[T any](p device.Ptr) T { return *pointerTo[T](p) }

// wideLines adds to lines of half precision in float32.
type wideLines[T float] struct {
	access  accessor[T]
	buffers sync.Pool
}

func (w *wideLines[T]) add(j *scattering[T], at []lineAt) {
	buf, _ := w.buffers.Get().(*[]T)
	if buf == nil {
		buf = new([]T)
	}
	defer w.buffers.Put(buf)
	if cap(*buf) < j.size+j.n {
		*buf = make([]T, j.size+j.n)
	}
	sums, v := (*buf)[:j.size], (*buf)[j.size:j.size+j.n]
	for _, l := range at {
		w.access.load(sums, l.dst, j.step[0])
		w.access.load(v, l.src, j.step[1])
		for i := range v {
			sums[elementAt[int64](offset(l.index, i*j.step[2], 8))] += v[i]
		}
		w.access.store(l.dst, j.step[0], sums)
	}
}
