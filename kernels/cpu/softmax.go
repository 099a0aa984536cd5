package cpu

import (
	"math"
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// The softmax family: operations on rows, which lie along the last dimension.

// rowKernel computes one row; b is nil for operations of one input.
type rowKernel[T float] func(dst, a, b []T)

// rowJob is one call in work. It is a job over rows.
type rowJob[T float] struct {
	loop            // over the first elements of the rows
	lane    lane[T] // all views have one type
	f       rowKernel[T]
	columns int
	stride  [3]int // of the last dimension: output and inputs
	memory  sync.Pool
}

// rowwise makes the Func of an operation on rows.
func rowwise[T float](l lane[T], f rowKernel[T]) op.Func {
	pool := &sync.Pool{New: func() any { return &rowJob[T]{lane: l, f: f} }}
	return func(c *op.Call) error {
		j := pool.Get().(*rowJob[T])
		j.set(&c.Out[0], c.In)
		if j.columns > 0 {
			split(j.total, max(1, elementGrain/4/j.columns), j)
		}
		pool.Put(j)
		return nil
	}
}

func (j *rowJob[T]) set(dst *op.View, in []op.View) {
	last := dst.NDim - 1
	j.columns = dst.Shape[last]
	var first [3]op.View
	first[0] = *dst
	copy(first[1:], in)
	for k := range 1 + len(in) {
		j.stride[k] = first[k].Strides[last]
		first[k].Shape[last] = 1
	}
	j.loop.set(&first[0], first[1:1+len(in)])
}

func (j *rowJob[T]) run(lo, hi int) {
	var w walk
	w.seek(&j.loop, lo)
	rows := j.rowMemory()
	defer j.memory.Put(rows)
	for ; lo < hi; lo++ {
		var r [3][]T
		for k := range j.n {
			p, _ := w.at(k)
			if j.lane.direct && j.stride[k] == 1 {
				r[k] = slice[T](p, j.columns)
				continue
			}
			r[k] = (*rows)[k*j.columns : (k+1)*j.columns]
			if k > 0 {
				j.lane.load(r[k], p, j.stride[k])
			}
		}
		j.f(r[0], r[1], r[2])
		if p, _ := w.at(0); !j.lane.direct || j.stride[0] != 1 {
			j.lane.store(p, j.stride[0], r[0])
		}
		w.skip(1)
	}
}

// rowMemory gives memory for the rows that must be gathered or converted.
func (j *rowJob[T]) rowMemory() *[]T {
	rows, _ := j.memory.Get().(*[]T)
	if rows == nil {
		rows = new([]T)
	}
	if need := j.n * j.columns; cap(*rows) < need && !j.straight() {
		*rows = make([]T, need)
	}
	*rows = (*rows)[:cap(*rows)]
	return rows
}

func (j *rowJob[T]) straight() bool {
	for _, s := range j.stride[:j.n] {
		if s != 1 {
			return false
		}
	}
	return j.lane.direct
}

func softmax[T float](dst, a, _ []T) {
	sum := expSum(dst, a, rowMax(a))
	for i := range dst {
		dst[i] = T(float64(dst[i]) / sum)
	}
}

func softmaxGrad[T float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	var dot float64
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
	}
	for i := range dst {
		dst[i] = T(float64(b[i]) * (float64(a[i]) - dot))
	}
}

// logSoftmax leaves dst alone in its first pass: it may be the memory of a.
func logSoftmax[T float](dst, a, _ []T) {
	a = a[:len(dst)]
	m := rowMax(a)
	var sum float64
	for _, v := range a {
		sum += expOf(v - m)
	}
	shift := float64(m) + math.Log(sum)
	for i := range dst {
		dst[i] = T(float64(a[i]) - shift)
	}
}

func logSoftmaxGrad[T float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	sum := foldSum(0, a)
	for i := range dst {
		dst[i] = T(float64(a[i]) - expOf(b[i])*sum)
	}
}

func rowMax[T float](a []T) T {
	m := a[0]
	for _, v := range a {
		m = max(m, v)
	}
	return m
}

// expSum sets dst to exp(a-m) and returns the sum.
func expSum[T float](dst, a []T, m T) float64 {
	a = a[:len(dst)]
	var sum float64
	for i := range dst {
		e := expOf(a[i] - m)
		dst[i] = T(e)
		sum += e
	}
	return sum
}

// expOf is exp(x) with the accuracy that results of type T need.
func expOf[T float](x T) float64 {
	if _, ok := any(x).(float32); ok {
		return expNarrow(float64(x))
	}
	return math.Exp(float64(x))
}
