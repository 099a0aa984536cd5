package cpu

import (
	"math"
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// The softmax family: operations on rows, which lie along the last dimension.

// rowGroup is the number of elements of a row that are computed at a time, where what they come to is needed twice.
const rowGroup = 64

// rowKernel computes one row; b is nil for operations of one input, and tmp has room for rowGroup elements.
type rowKernel[T float] func(dst, a, b, tmp []T)

// rowJob is one call in work. It is a job over rows.
type rowJob[T float] struct {
	loop    loop        // over the first elements of the rows
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
			split(j.loop.Total, max(1, elementGrain/4/j.columns), j)
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
		for k := range j.loop.N {
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
	if need := j.loop.N * j.columns; cap(*rows) < need && !j.straight() {
		*rows = make([]T, need)
	}
	*rows = (*rows)[:cap(*rows)]
	return rows
}

func (j *rowJob[T]) straight() bool {
	for _, s := range j.stride[:j.loop.N] {
		if s != 1 {
			return false
		}
	}
	return j.access.direct
}

func softmax[T float](dst, a, _, _ []T) {
	scale := 1 / expSum(dst, a, maxOf(a[0], a))
	scaleSlice(dst, dst, T(scale))
}

func softmaxGrad[T float](dst, a, b, _ []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	dot := dotProduct(a, b)
	if applyRow(fnSoftmaxGrad, dst, a, b, dot, 0) {
		return
	}
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
		sum += expSumGroup(tmp[:n], a[i:i+n], m)
	}
	most, shift := float64(m), math.Log(sum)
	if applyRow(fnLogSoftmaxShift, dst, a, nil, most, shift) {
		return
	}
	for i := range dst {
		dst[i] = T((float64(a[i]) - most) - shift) // both may be large, and their difference small
	}
}

func logSoftmaxGrad[T float](dst, a, b, _ []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	sum := foldSum(0, a)
	if applyRow(fnLogSoftmaxGrad, dst, a, b, sum, 0) {
		return
	}
	for i := range dst {
		dst[i] = T(float64(a[i]) - float64(math.Exp(float64(b[i]))*sum))
	}
}

// applyRow computes a function with two scalars if the elements are of float32, and reports whether they are.
func applyRow[T float](f functionID, dst, a, b []T, first, second float64) bool {
	d, ok := any(dst).([]float32)
	if ok {
		var s functionScalars
		s.narrow[0], s.narrow[1] = float32(first), float32(second)
		apply(f, d, any(a).([]float32), any(b).([]float32), nil, &s)
	}
	return ok
}

// expSum sets dst to exp(a-m) and returns the sum, summed in groups.
func expSum[T float](dst, a []T, m T) float64 {
	a = a[:len(dst)]
	var sum float64
	for i := 0; i < len(dst); i += rowGroup {
		n := min(rowGroup, len(dst)-i)
		sum += expSumGroup(dst[i:i+n], a[i:i+n], m)
	}
	return sum
}

// expSumGroup keeps eight sums, by place, as the vector loop does.
func expSumGroup[T float](dst, a []T, m T) float64 {
	if d, ok := any(dst).([]float32); ok {
		return expSumGroup32(d, any(a).([]float32), float32(m))
	}
	shiftSlice(dst, a, -m)
	exponentials(dst)
	return sumGroup(dst)
}

// exponentials are those of v, in its place.
func exponentials[T float](v []T) {
	switch v := any(v).(type) {
	case []float32:
		apply(fnExp, v, v, nil, nil, nil)
	case []float64:
		applyWide(fnExpFloat64, v, v, nil, nil, nil)
	}
}

func expSumGroup32(dst, a []float32, m float32) float64 {
	var sum float64
	n := len(dst) &^ 7
	if vector.expSum != nil && n > 0 {
		sum = vector.expSum(n, &dst[0], &a[0], m)
	} else {
		n = 0
	}
	var s functionScalars
	s.narrow[0] = m
	if n < len(dst) {
		apply(fnExpShifted, dst[n:], a[n:], nil, nil, &s)
	}
	if n == 0 {
		n = len(dst) &^ 7
		sum = eightSums(dst[:n])
	}
	for _, e := range dst[n:] {
		sum += float64(e)
	}
	return sum
}

// eightSums is the sum of v, a multiple of eight elements, in the order of the vector loop.
func eightSums(v []float32) float64 {
	var s [8]float64
	for ; len(v) >= 8; v = v[8:] {
		for k, x := range v[:8] {
			s[k] += float64(x)
		}
	}
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

// dotProduct is the sum of a[i]*b[i], of eight parts by place, as the vector loop does it.
func dotProduct[T float](a, b []T) float64 {
	b = b[:len(a)]
	n := len(a) &^ 7
	var sum float64
	if x, ok := any(a).([]float32); ok && vector.dot != nil && n > 0 {
		sum = vector.dot(n, &x[0], &any(b).([]float32)[0])
	} else {
		var s [8]float64
		for i := 0; i < n; i += 8 {
			for k := range s {
				s[k] = math.FMA(float64(a[i+k]), float64(b[i+k]), s[k])
			}
		}
		sum = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
	}
	for i := n; i < len(a); i++ {
		sum += float64(float64(a[i]) * float64(b[i]))
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
