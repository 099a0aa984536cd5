package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Operations on images plane by plane: pooling (pool.go) and resampling (sample.go). A plane is the rows and columns of one
// channel of one image. A kernel sees planes as contiguous slices.

// planeKernel computes dst from src. m has the numbers of MaxPool2D, one for each result, and memory for a line.
type planeKernel[T float] func(j *planeJob[T], dst, src []T, m *planeMemory[T])

// planeJob is one call in work. It is a job over planes.
type planeJob[T float] struct {
	access        accessor[T]
	f             planeKernel[T]
	prepare       func(j *planeJob[T])
	call          *op.Call
	image, result [2]int // rows and columns of the larger and of the smaller side, in the sense of the forward operation
	from, to      *op.View
	numbers       *op.View
	empty         bool // from has no elements

	windows  [2][]window1 // of pooling, for each result along a dimension
	elements int          // of a window, and table where they lie, for the gradient of max pooling
	table    [256]int
	terms    poolTerms
	calls    int
	sources  [2][]source[T] // of resampling
	memory   sync.Pool
}

// planeMemory is what a worker needs for planes that are strided or converted, for numbers, and for a line.
type planeMemory[T float] struct {
	from, to, line []T
	numbers        []int32
	bytes          []uint8 // numbers that need not be converted, in their place
	phases         phases[T]
	sums           []float64
	padded         paddedResults
}

// planewise makes the Func of an operation on planes. prepare computes what is the same for all planes; backward says that the
// output is the image.
func planewise[T float](l accessor[T], backward bool, prepare func(j *planeJob[T]), f planeKernel[T]) op.Func {
	pool := &sync.Pool{New: func() any { return &planeJob[T]{access: l, f: f, prepare: prepare} }}
	return func(c *op.Call) error {
		if c.Out[0].Len() == 0 {
			return nil
		}
		j := pool.Get().(*planeJob[T])
		j.call, j.from, j.to, j.numbers = c, &c.In[0], &c.Out[0], nil
		image, result := j.from, j.to
		if backward {
			image, result = result, image
		}
		switch c.Op {
		case op.MaxPool2D:
			j.numbers = &c.Out[1]
		case op.MaxPool2DGrad:
			j.numbers = &c.In[1]
		}
		j.image, j.result = [2]int(image.Shape[2:4]), [2]int(result.Shape[2:4])
		if j.empty = j.from.Len() == 0; j.empty { // a gradient of no windows, however many there are one way
			j.result = [2]int{}
		}
		prepare(j)
		n := j.to.Shape[0] * j.to.Shape[1]
		split(n, max(1, elementGrain*n/max(c.Out[0].Len(), c.In[0].Len())), j)
		j.call, j.from, j.to, j.numbers = nil, nil, nil, nil
		pool.Put(j)
		return nil
	}
}

func (j *planeJob[T]) run(lo, hi int) {
	m, _ := j.memory.Get().(*planeMemory[T])
	if m == nil {
		m = new(planeMemory[T])
	}
	defer j.memory.Put(m)
	if j.call.Op == op.AvgPool2D && j.averages(lo, hi, m) {
		return
	}
	channels := j.to.Shape[1]
	for ; lo < hi; lo++ {
		n, c := lo/channels, lo%channels
		src := j.source(n, c, m)
		dst, ok := j.plane(j.to, n, c, &m.to)
		j.f(j, dst, src, m)
		if !ok {
			j.move(j.to, n, c, dst, func(row []T, p device.Ptr, stride int) { j.access.store(p, stride, row) })
		}
		if j.call.Op == op.MaxPool2D {
			eachNumbers(j.numbers, n, c, m.numbers, writeNumbers[uint8], writeNumbers[int32])
		}
	}
}

// source is the plane that is read, with its numbers in m.
func (j *planeJob[T]) source(n, c int, m *planeMemory[T]) []T {
	if j.empty {
		return nil
	}
	src, ok := j.plane(j.from, n, c, &m.from)
	if !ok {
		j.move(j.from, n, c, src, j.access.load)
	}
	j.takeNumbers(n, c, m)
	return src
}

// plane is a plane of a view, or memory for it, which ok tells.
func (j *planeJob[T]) plane(v *op.View, n, c int, buf *[]T) (plane []T, ok bool) {
	size := v.Shape[2] * v.Shape[3]
	if j.access.direct && (v.Strides[3] == 1 || v.Shape[3] == 1) && (v.Strides[2] == v.Shape[3] || v.Shape[2] == 1) {
		return slice[T](offset(v.Ptr, n*v.Strides[0]+c*v.Strides[1], j.access.size), size), true
	}
	*buf = sized(*buf, size)
	return *buf, false
}

// move calls f for the rows of a plane.
func (j *planeJob[T]) move(v *op.View, n, c int, plane []T, f func(row []T, p device.Ptr, stride int)) {
	for y := range v.Shape[2] {
		p := offset(v.Ptr, n*v.Strides[0]+c*v.Strides[1]+y*v.Strides[2], j.access.size)
		f(plane[y*v.Shape[3]:][:v.Shape[3]], p, v.Strides[3])
	}
}

// takeNumbers makes the memory of a plane of numbers, and reads those that there are.
func (j *planeJob[T]) takeNumbers(n, c int, m *planeMemory[T]) {
	v := j.numbers
	if v == nil {
		return
	}
	size := v.Shape[2] * v.Shape[3]
	if j.call.Op == op.MaxPool2DGrad && v.DType == dtype.Uint8 && v.Strides[3] == 1 && v.Strides[2] == v.Shape[3] {
		m.bytes = slice[uint8](offset(v.Ptr, n*v.Strides[0]+c*v.Strides[1], 1), size)
		return
	}
	m.bytes, m.numbers = nil, sized(m.numbers, size)
	if j.call.Op == op.MaxPool2DGrad {
		eachNumbers(v, n, c, m.numbers, readNumbers[uint8], readNumbers[int32])
	}
}

// eachNumbers calls the function of the type for the rows of a plane of numbers.
func eachNumbers(v *op.View, n, c int, numbers []int32, small, large func(row []int32, p device.Ptr, stride int)) {
	f, size, columns := small, v.DType.Size(), v.Shape[3]
	if v.DType == dtype.Int32 {
		f = large
	}
	if v.Strides[3] == 1 && v.Strides[2] == columns { // the plane is one row
		f(numbers[:v.Shape[2]*columns], offset(v.Ptr, n*v.Strides[0]+c*v.Strides[1], size), 1)
		return
	}
	for y := range v.Shape[2] {
		f(numbers[y*columns:][:columns], offset(v.Ptr, n*v.Strides[0]+c*v.Strides[1]+y*v.Strides[2], size), v.Strides[3])
	}
}

func readNumbers[N uint8 | int32](row []int32, p device.Ptr, stride int) {
	memory, at := span[N](p, stride, len(row))
	if stride == 1 {
		for i, v := range memory[:len(row)] {
			row[i] = int32(v)
		}
		return
	}
	for i := range row {
		row[i] = int32(memory[at])
		at += stride
	}
}

func writeNumbers[N uint8 | int32](row []int32, p device.Ptr, stride int) {
	memory, at := span[N](p, stride, len(row))
	if stride == 1 {
		memory = memory[:len(row)]
		for i, v := range row {
			memory[i] = N(v)
		}
		return
	}
	for _, v := range row {
		memory[at] = N(v)
		at += stride
	}
}
