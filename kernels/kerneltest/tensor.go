package kerneltest

import (
	"fmt"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// layout is how a tensor of a case lies in memory.
type layout uint8

const (
	contiguous layout = iota
	transposed        // dimensions in reverse order
	gapped            // two elements between neighbours, rows apart
	backwards         // contiguous, every other dimension walked from its end
	outer             // broadcast along all dimensions but the last: only for inputs
	inner             // broadcast along the last dimension: only for inputs
	constant          // one element for all: only for inputs
	layouts           // their number
)

func (l layout) String() string {
	return [...]string{"contiguous", "transposed", "gapped", "backwards", "outer", "inner", "constant"}[l]
}

// broadcasts reports whether several indices share an element.
func (l layout) broadcasts() bool { return l >= outer }

// tensor is a view of a case: its values in the order of its indices, the last one fastest, and its place in the image.
type tensor struct {
	dtype   dtype.DType
	shape   []int
	layout  layout
	strides []int
	first   int // where element [0, 0, ...] is, in elements from the lowest element
	span    int // elements from the lowest to the highest address
	values  []value
	place   int  // of the lowest element in the image, in bytes
	aligned bool // place is a multiple of alignment
	far     int  // one more than the dimension whose slices lie in banks of their own (banks.go), or 0
}

func newTensor(d dtype.DType, l layout, shape ...int) *tensor {
	t := &tensor{dtype: d, shape: shape, layout: l, strides: make([]int, len(shape))}
	t.values = make([]value, count(shape))
	order := make([]int, len(shape)) // dimensions from the innermost to the outermost
	for i := range order {
		order[i] = len(shape) - 1 - i
		if l == transposed {
			order[i] = i
		}
	}
	step := 1
	if l == gapped {
		step = 3
	}
	for i, d := range order {
		if !t.shared(d) {
			t.strides[d] = step
			step *= shape[d]
			if l == gapped && i == 0 {
				step += 5
			}
		}
		if l == backwards && d%2 == (len(shape)+1)%2 {
			t.strides[d] = -t.strides[d]
		}
	}
	t.measure()
	return t
}

// shared reports whether the layout broadcasts dimension d.
func (t *tensor) shared(d int) bool {
	last := d == len(t.shape)-1
	return t.layout == constant || t.layout == inner && last || t.layout == outer && !last
}

// nowhere are values for strides that lead nowhere: legal ones, of slices, expansions and transpositions.
var nowhere = []int{1<<33 + 7, 0, 3, -1, 1, 1<<20 + 1}

// misplace gives such values to the strides of dimensions of one element, and to all if there are no elements.
func (t *tensor) misplace(from int) {
	for d, n := range t.shape {
		if n == 1 || len(t.values) == 0 {
			t.strides[d] = nowhere[(from+d)%len(nowhere)]
		}
	}
}

// measure computes first and span from shape and strides.
func (t *tensor) measure() {
	t.first, t.span = 0, 0
	if len(t.values) == 0 {
		return
	}
	up := 0
	for d, s := range t.strides {
		if s < 0 {
			t.first -= s * (t.shape[d] - 1)
		} else {
			up += s * (t.shape[d] - 1)
		}
	}
	t.span = t.first + up + 1
}

func count(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// each calls f with every index of a shape, in order, and its position in values.
func each(shape []int, f func(position int, index []int)) {
	index := make([]int, len(shape))
	for p := range count(shape) {
		f(p, index)
		for d := len(shape) - 1; d >= 0; d-- {
			index[d]++
			if index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
	}
}

// position is the place in values of an index.
func (t *tensor) position(index ...int) int {
	p := 0
	for d, i := range index {
		p = p*t.shape[d] + i
	}
	return p
}

// at is the element at an index.
func (t *tensor) at(index ...int) value { return t.values[t.position(index...)] }

// element is where the element at an index lies, in elements from the lowest one.
func (t *tensor) element(index []int) int {
	e := t.first
	for d, i := range index {
		e += i * t.strides[d]
	}
	return e
}

// address is where the element at an index lies in the image.
func (t *tensor) address(index []int) int { return t.place + t.element(index)*t.dtype.Size() }

// fill sets the values with next. Indices that share an element get one value.
func (t *tensor) fill(next func() value) {
	if !t.layout.broadcasts() {
		for p := range t.values {
			t.values[p] = next()
		}
		return
	}
	memory, known := make([]value, t.span), make([]bool, t.span)
	each(t.shape, func(p int, index []int) {
		e := t.element(index)
		if !known[e] {
			memory[e], known[e] = next(), true
		}
		t.values[p] = memory[e]
	})
}

// view is the tensor in a device's memory, whose image starts at base.
func (t *tensor) view(base device.Ptr) op.View {
	v := op.View{DType: t.dtype, NDim: len(t.shape)}
	v.Ptr = base.Add(uint64(t.place + t.first*t.dtype.Size()))
	copy(v.Shape[:], t.shape)
	copy(v.Strides[:], t.strides)
	return v
}

func (t *tensor) String() string {
	return fmt.Sprintf("%s%v %s", t.dtype, t.shape, t.layout)
}
