package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// CumSum and CumProd. Rows lie along the last dimension. Floats accumulate in float64, integers in int64.

// scanJob is one call in work: T is the type of computation, A of the accumulator, D of the result. It is a job over rows,
// which takes neighbouring rows together if their elements are nearer to each other than those of one row.
type scanJob[T, A, D any] struct {
	loop loop // over the first elements of the rows: output, input
	in   accessor[T]
	out  accessor[D]
	running[T, A, D]
	columns int
	stride  [2]int // of the last dimension
}

// running is an operation: what its accumulators begin with, and its loops.
type running[T, A, D any] struct {
	start  A
	along  func(acc A, dst []D, v []T) A                // scans a row
	across func(acc []A, dst []D, v []T)                // takes the next element of each row in
	four   func(r0, r1, r2, r3 []D, v0, v1, v2, v3 []T) // scans four rows, whose results need not wait for each other; nil where one is as fast
}

// scan makes the Func of a running reduction.
func scan[T, A, D any](in accessor[T], out accessor[D], r running[T, A, D]) op.Func {
	pool := &sync.Pool{New: func() any { return &scanJob[T, A, D]{in: in, out: out, running: r} }}
	return func(c *op.Call) error {
		j := pool.Get().(*scanJob[T, A, D])
		dst, a := c.Out[0], [1]op.View{c.In[0]}
		last := dst.NDim - 1
		j.columns, j.stride = dst.Shape[last], [2]int{dst.Strides[last], a[0].Strides[last]}
		dst.Shape[last], a[0].Shape[last] = 1, 1
		j.loop.set(&dst, a[:])
		if j.columns > 0 {
			split(j.loop.Total, max(1, elementGrain/j.columns), j)
		}
		pool.Put(j)
		return nil
	}
}

func (j *scanJob[T, A, D]) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	var w walk
	w.seek(&j.loop, lo)
	for lo < hi {
		n := min(hi-lo, w.inner()-w.col, chunk)
		to, out := w.at(0)
		from, in := w.at(1)
		switch {
		case n >= 8 && absInt(in) < absInt(j.stride[1]):
			j.tile(n, to, out, from, in, s)
		case n >= 4 && j.four != nil && j.straight():
			n = 4
			j.rows(to, out, from, in)
		default:
			n = 1
			j.row(to, from, s)
		}
		w.skip(n)
		lo += n
	}
}

// straight reports whether rows lie in memory as they are computed with.
func (j *scanJob[T, A, D]) straight() bool {
	return j.in.direct && j.out.direct && j.stride == [2]int{1, 1}
}

// rows scans four rows whose elements lie side by side.
func (j *scanJob[T, A, D]) rows(to device.Ptr, out int, from device.Ptr, in int) {
	var dst [4][]D
	var src [4][]T
	for k := range dst {
		dst[k] = slice[D](offset(to, k*out, j.out.size), j.columns)
		src[k] = slice[T](offset(from, k*in, j.in.size), j.columns)
	}
	j.four(dst[0], dst[1], dst[2], dst[3], src[0], src[1], src[2], src[3])
}

// row scans one row, a chunk at a time.
func (j *scanJob[T, A, D]) row(to, from device.Ptr, s *scratch) {
	acc := j.start
	for i := 0; i < j.columns; i += chunk {
		n := min(chunk, j.columns-i)
		p, to := offset(from, i*j.stride[1], j.in.size), offset(to, i*j.stride[0], j.out.size)
		if j.straight() {
			acc = j.along(acc, slice[D](to, n), slice[T](p, n))
			continue
		}
		v, r := scratchBuffer[T](s, 0, n), scratchBuffer[D](s, 1, n)
		j.in.load(v, p, j.stride[1])
		acc = j.along(acc, r, v)
		j.out.store(to, j.stride[0], r)
	}
}

// tile scans n neighbouring rows together: in and out are the distances of their elements.
func (j *scanJob[T, A, D]) tile(n int, to device.Ptr, out int, from device.Ptr, in int, s *scratch) {
	v, r, acc := scratchBuffer[T](s, 0, n), scratchBuffer[D](s, 1, n), scratchBuffer[A](s, 2, n)
	fillSlice(acc, j.start)
	for i := range j.columns {
		j.in.load(v, offset(from, i*j.stride[1], j.in.size), in)
		j.across(acc, r, v)
		j.out.store(offset(to, i*j.stride[0], j.out.size), out, r)
	}
}

func cumSum[T float](l accessor[T]) op.Func {
	return scan(l, l, running[T, float64, T]{along: sumsAlong[T, float64, T], across: sumsAcross[T, float64, T], four: cumSumFour[T, float64, T]})
}

func intCumSum[T integer](l accessor[T]) op.Func {
	return scan(l, wordAccessor[int64](), running[T, int64, int64]{along: sumsAlong[T, int64, int64], across: sumsAcross[T, int64, int64], four: cumSumFour[T, int64, int64]})
}

func cumProd[T float](l accessor[T]) op.Func {
	return scan(l, l, running[T, float64, T]{start: 1, along: productsAlong[T, float64, T], across: productsAcross[T, float64, T], four: cumProdFour[T]})
}

func intCumProd[T integer](l accessor[T]) op.Func {
	return scan(l, wordAccessor[int64](), running[T, int64, int64]{start: 1, along: productsAlong[T, int64, int64], across: productsAcross[T, int64, int64]})
}

// The loops. Their results have another type than sums and products.

func sumsAlong[T, A, D number](acc A, dst []D, v []T) A {
	dst = dst[:len(v)]
	for i, x := range v {
		acc += A(x)
		dst[i] = D(acc)
	}
	return acc
}

func sumsAcross[T, A, D number](acc []A, dst []D, v []T) {
	dst, acc = dst[:len(v)], acc[:len(v)]
	for i, x := range v {
		a := acc[i] + A(x)
		acc[i], dst[i] = a, D(a)
	}
}

func productsAlong[T, A, D number](acc A, dst []D, v []T) A {
	dst = dst[:len(v)]
	for i, x := range v {
		acc *= A(x)
		dst[i] = D(acc)
	}
	return acc
}

func productsAcross[T, A, D number](acc []A, dst []D, v []T) {
	dst, acc = dst[:len(v)], acc[:len(v)]
	for i, x := range v {
		a := acc[i] * A(x)
		acc[i], dst[i] = a, D(a)
	}
}

func cumSumFour[T, A, D number](r0, r1, r2, r3 []D, v0, v1, v2, v3 []T) {
	n := len(v0)
	v1, v2, v3 = v1[:n], v2[:n], v3[:n]
	r0, r1, r2, r3 = r0[:n], r1[:n], r2[:n], r3[:n]
	var s0, s1, s2, s3 A
	for i, v := range v0 {
		s0 += A(v)
		s1 += A(v1[i])
		s2 += A(v2[i])
		s3 += A(v3[i])
		r0[i], r1[i], r2[i], r3[i] = D(s0), D(s1), D(s2), D(s3)
	}
}

func cumProdFour[T float](r0, r1, r2, r3, v0, v1, v2, v3 []T) {
	n := len(v0)
	v1, v2, v3 = v1[:n], v2[:n], v3[:n]
	r0, r1, r2, r3 = r0[:n], r1[:n], r2[:n], r3[:n]
	p0, p1, p2, p3 := 1.0, 1.0, 1.0, 1.0
	for i, v := range v0 {
		p0 *= float64(v)
		p1 *= float64(v1[i])
		p2 *= float64(v2[i])
		p3 *= float64(v3[i])
		r0[i], r1[i], r2[i], r3[i] = T(p0), T(p1), T(p2), T(p3)
	}
}

// scanGrad is one CumProdGrad in work. It is a job over rows, each of which it walks from its end.
type scanGrad[T float] struct {
	loop    loop // over the first elements of the rows: output, gradient, input and output of CumProd
	access  accessor[T]
	columns int
	stride  [4]int
}

func cumProdGrad[T float](l accessor[T]) op.Func {
	pool := &sync.Pool{New: func() any { return &scanGrad[T]{access: l} }}
	return func(c *op.Call) error {
		j := pool.Get().(*scanGrad[T])
		views := [4]op.View{c.Out[0], c.In[0], c.In[1], c.In[2]}
		last := views[0].NDim - 1
		j.columns = views[0].Shape[last]
		for k := range views {
			j.stride[k] = views[k].Strides[last]
			views[k].Shape[last] = 1
		}
		j.loop.set(&views[0], views[1:])
		if j.columns > 0 {
			split(j.loop.Total, max(1, elementGrain/j.columns), j)
		}
		pool.Put(j)
		return nil
	}
}

func (j *scanGrad[T]) run(lo, hi int) {
	s := takeScratch()
	defer scratches.Put(s)
	var w walk
	w.seek(&j.loop, lo)
	for ; lo < hi; lo++ {
		j.row(&w, s)
		w.skip(1)
	}
}

// row computes the recurrence s[i] = a[i] + b[i+1]*s[i+1] in float64, chunk by chunk.
func (j *scanGrad[T]) row(w *walk, s *scratch) {
	var sum, after float64 // s[i+1] and b[i+1]
	for hi := j.columns; hi > 0; {
		lo := max(0, hi-chunk)
		n := hi - lo
		var v [4][]T
		for k := range v {
			v[k] = scratchBuffer[T](s, k, n)
			if p, _ := w.at(k); k > 0 && k < 3 {
				j.access.load(v[k], offset(p, lo*j.stride[k], j.access.size), j.stride[k])
			}
		}
		j.before(w, v[3], lo)
		for i := n - 1; i >= 0; i-- {
			sum = float64(v[1][i]) + float64(after*sum)
			after = float64(v[2][i])
			v[0][i] = T(float64(v[3][i]) * sum)
		}
		p, _ := w.at(0)
		j.access.store(offset(p, lo*j.stride[0], j.access.size), j.stride[0], v[0])
		hi = lo
	}
}

// before loads the elements of the output of CumProd that stand before those from lo on; before the first stands 1.
func (j *scanGrad[T]) before(w *walk, v []T, lo int) {
	p, _ := w.at(3)
	if lo == 0 {
		v[0] = 1
		v, lo = v[1:], 1
	}
	if len(v) > 0 {
		j.access.load(v, offset(p, (lo-1)*j.stride[3], j.access.size), j.stride[3])
	}
}

func scanRows() []op.Row {
	return []op.Row{
		row(op.CumSum, floats(cumSum[float32], cumSum[float64]),
			integers(intCumSum[int64], intCumSum[int32], intCumSum[uint8]), boolean(intCumSum[uint8])),
		row(op.CumProd, floats(cumProd[float32], cumProd[float64]),
			integers(intCumProd[int64], intCumProd[int32], intCumProd[uint8]), boolean(intCumProd[uint8])),
		row(op.CumProdGrad, floats(cumProdGrad[float32], cumProdGrad[float64])),
	}
}
