package cpu

import (
	"math"
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// The softmax family: operations on rows, which lie along the last dimension.

// rowKernel computes one row; b is nil for operations of one input, and tmp has room for rowGroup elements.
type rowKernel[T float] func(dst, a, b, tmp []T)

// rowJob is one call in work. It is a job over rows.
type rowJob[T float] struct {
	loop                // over the first elements of the rows
	access  accessor[T] // all views have one type
	f       rowKernel[T]
	columns int
	stride  [3]int // of the last dimension: output and inputs
	memory  sync.Pool
}

// rowwise makes the Func of an operation on rows.
func rowwise[T float](l accessor[T], f rowKernel[T]) op.Func {
	pool := &sync.Pool{New: func() any { return &rowJob[T]{access: l, f: f} }}
	return func(c *op.Call) error {
		j := pool.Get().(*rowJob[T])
		j.set(&c.Out[0], c.In)
		if j.columns > 0 {
			split(j.Total, max(1, elementGrain/4/j.columns), j)
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
	s := takeScratch()
	defer scratches.Put(s)
	tmp := scratchBuffer[T](s, 0, rowGroup)
	for ; lo < hi; lo++ {
		var r [3][]T
		for k := range j.N {
			p, _ := w.at(k)
			if j.access.direct && j.stride[k] == 1 {
				r[k] = slice[T](p, j.columns)
				continue
			}
			r[k] = (*rows)[k*j.columns : (k+1)*j.columns]
			if k > 0 {
				j.access.load(r[k], p, j.stride[k])
			}
		}
		j.f(r[0], r[1], r[2], tmp)
		if p, _ := w.at(0); !j.access.direct || j.stride[0] != 1 {
			j.access.store(p, j.stride[0], r[0])
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
	if need := j.N * j.columns; cap(*rows) < need && !j.straight() {
		*rows = make([]T, need)
	}
	*rows = (*rows)[:cap(*rows)]
	return rows
}

func (j *rowJob[T]) straight() bool {
	for _, s := range j.stride[:j.N] {
		if s != 1 {
			return false
		}
	}
	return j.access.direct
}

func softmax[T float](dst, a, _, _ []T) {
	scale := 1 / expSum(dst, a, maxOf(a[0], a))
	for i := range dst {
		dst[i] = T(float64(dst[i]) * scale)
	}
}

func softmaxGrad[T float](dst, a, b, _ []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	dot := dotProduct(a, b)
	for i := range dst {
		dst[i] = T(float64(b[i]) * (float64(a[i]) - dot))
	}
}

// logSoftmax leaves dst alone in its first pass: it may be the memory of a.
func logSoftmax[T float](dst, a, _, tmp []T) {
	a = a[:len(dst)]
	m := maxOf(a[0], a)
	var sum float64
	for i := 0; i < len(a); i += rowGroup {
		n := min(rowGroup, len(a)-i)
		sum += expSumGroup(tmp[:n], a[i:i+n], float64(m))
	}
	most, shift := float64(m), math.Log(sum)
	for i := range dst {
		dst[i] = T((float64(a[i]) - most) - shift) // both may be large, and their difference small
	}
}

func logSoftmaxGrad[T float](dst, a, b, _ []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	sum := foldSum(0, a)
	for i := range dst {
		dst[i] = T(float64(a[i]) - expOf[T](float64(b[i]))*sum)
	}
}

// expSum sets dst to exp(a-m) and returns the sum, summed in groups. In a group it keeps four sums, as the vector loop does.
func expSum[T float](dst, a []T, m T) float64 {
	a = a[:len(dst)]
	var sum float64
	for i := 0; i < len(dst); i += rowGroup {
		n := min(rowGroup, len(dst)-i)
		sum += expSumGroup(dst[i:i+n], a[i:i+n], float64(m))
	}
	return sum
}

func expSumGroup[T float](dst, a []T, m float64) float64 {
	n := len(dst) &^ 3
	var sum float64
	if d, ok := any(dst).([]float32); ok && vector.expSum != nil && n > 0 {
		sum = vector.expSum(n, &d[0], &any(a).([]float32)[0], m)
	} else {
		var s [4]float64
		for k := range n {
			e := expOf[T](float64(a[k]) - m)
			dst[k] = T(e)
			s[k%4] += e
		}
		sum = (s[0] + s[2]) + (s[1] + s[3])
	}
	for k := n; k < len(dst); k++ {
		e := expOf[T](float64(a[k]) - m)
		dst[k] = T(e)
		sum += e
	}
	return sum
}

// dotProduct is the sum of a[i]*b[i], summed in groups.
func dotProduct[T float](a, b []T) float64 {
	b = b[:len(a)]
	var sum float64
	for i := 0; i < len(a); i += rowGroup {
		var s float64
		for k := i; k < min(i+rowGroup, len(a)); k++ {
			s += float64(a[k]) * float64(b[k])
		}
		sum += s
	}
	return sum
}

// expOf is exp(x) with the accuracy that results of type T need.
func expOf[T float](x float64) float64 {
	if sizeOf(T(0)) == 4 {
		return expNarrow(x)
	}
	return math.Exp(x)
}
