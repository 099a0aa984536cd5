package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// triangle is one Tril or Triu in work. It is a job over the rows of all matrices.
type triangle[T any] struct {
	loop          loop // over the first elements of the matrices: output, input
	rows, columns int
	stride        [2][2]int // of rows and columns, for output and input
	diagonal      int64
	upper         bool
}

// triangular makes Tril or Triu of elements that have the size of T; all zeros of a size have the same bits.
func triangular[T any](upper bool) op.Func {
	pool := &sync.Pool{New: func() any { return &triangle[T]{upper: upper} }}
	return func(c *op.Call) error {
		t := pool.Get().(*triangle[T])
		views := [2]op.View{c.Out[0], c.In[0]}
		n := views[0].NDim
		t.rows, t.columns, t.diagonal = views[0].Shape[n-2], views[0].Shape[n-1], c.I[0]
		for k := range views {
			t.stride[k] = [2]int{views[k].Strides[n-2], views[k].Strides[n-1]}
			views[k].NDim -= 2
		}
		t.loop.set(&views[0], views[1:])
		if t.columns > 0 {
			split(t.loop.Total*t.rows, max(1, elementGrain/t.columns), t)
		}
		pool.Put(t)
		return nil
	}
}

func (t *triangle[T]) run(lo, hi int) {
	for lo < hi {
		var w walk
		w.seek(&t.loop, lo/t.rows)
		to, _ := w.at(0)
		from, _ := w.at(1)
		for i := lo % t.rows; i < t.rows && lo < hi; i++ {
			t.row(i, to, from)
			lo++
		}
	}
}

// row writes row i of the matrix at to: elements first..end are kept.
func (t *triangle[T]) row(i int, to, from device.Ptr) {
	edge := int(min(max(int64(i)+min(max(t.diagonal, -1<<60), 1<<60), -1), int64(t.columns))) // the diagonal's column, brought near
	first, end := 0, min(edge+1, t.columns)
	if t.upper {
		first, end = max(edge, 0), t.columns
	}
	size := sizeOf(*new(T))
	dst, at := span[T](offset(to, i*t.stride[0][0], size), t.stride[0][1], t.columns)
	src, source := span[T](offset(from, i*t.stride[1][0], size), t.stride[1][1], t.columns)
	var zero T
	for j := range t.columns {
		v := zero
		if j >= first && j < end {
			v = src[source]
		}
		dst[at] = v
		at += t.stride[0][1]
		source += t.stride[1][1]
	}
}

func triangleRows() []op.Row {
	return []op.Row{
		{Op: op.Tril, Funcs: bySize(
			triangular[uint8](false), triangular[uint16](false), triangular[uint32](false), triangular[uint64](false))},
		{Op: op.Triu, Funcs: bySize(
			triangular[uint8](true), triangular[uint16](true), triangular[uint32](true), triangular[uint64](true))},
	}
}
