package tensor

import (
	"cmp"
	"math"
	"math/bits"

	"github.com/cistern-ml/cistern/kernels/op"
)

// layout says where the elements of a tensor are in its storage. It is a value; its functions return new layouts and
// know nothing of memory. Element (i, j, ...) lies offset + i*strides[0] + j*strides[1] + ... elements from the start of
// the storage. Only the first ndim entries of shape and strides count. Strides are never negative.
type layout struct {
	ndim    int
	offset  int
	shape   [op.MaxDims]int
	strides [op.MaxDims]int
}

// newLayout is the row-major layout of a shape. It refuses more than MaxDims dimensions, negative ones, and shapes with
// more elements than an int64 of bytes can hold.
func newLayout(name string, shape []int) (layout, error) {
	var l layout
	if len(shape) > op.MaxDims {
		return l, shapeErr(name, []Shape{shape}, "%d dimensions, at most %d are allowed", len(shape), op.MaxDims)
	}
	total := uint64(1)
	for i, d := range shape {
		if d < 0 {
			return l, shapeErr(name, []Shape{shape}, "dimension %d is negative", i)
		}
		hi, lo := bits.Mul64(total, uint64(max(d, 1)))
		if hi != 0 || lo > math.MaxInt64/16 {
			return l, shapeErr(name, []Shape{shape}, "too many elements")
		}
		total = lo
		l.shape[i] = d
	}
	l.ndim = len(shape)
	l.pack()
	return l, nil
}

// pack makes the strides row-major and the offset 0. As in PyTorch, a dimension of 0 counts as 1 in the strides.
func (l *layout) pack() {
	l.offset = 0
	stride := 1
	for i := l.ndim - 1; i >= 0; i-- {
		l.strides[i] = stride
		stride *= max(l.shape[i], 1)
	}
}

// packed is the row-major layout of the same shape.
func (l *layout) packed() layout {
	p := *l
	p.pack()
	return p
}

// dims is the shape, as a slice into l.
func (l *layout) dims() Shape { return l.shape[:l.ndim:l.ndim] }

func (l *layout) len() int {
	n := 1
	for _, d := range l.shape[:l.ndim] {
		n *= d
	}
	return n
}

// contiguous reports whether the elements lie in row-major order without gaps; dimensions of one element may have any
// stride, and a layout without elements is contiguous.
func (l *layout) contiguous() bool {
	expect, packed := 1, true
	for i := l.ndim - 1; i >= 0; i-- {
		switch d := l.shape[i]; d {
		case 0:
			return true
		case 1:
		default:
			packed = packed && l.strides[i] == expect
			expect *= d
		}
	}
	return packed
}

// dense reports whether the elements fill a range of addresses, each of them once: some permutation of the dimensions is contiguous.
func (l *layout) dense() bool {
	p := *l
	for i := range p.ndim { // the largest strides first
		for j := i; j > 0 && p.strides[j-1] < p.strides[j]; j-- {
			p.swap(j-1, j)
		}
	}
	n := 0 // dimensions of one element have any stride
	for i := range p.ndim {
		if p.shape[i] != 1 {
			p.shape[n], p.strides[n] = p.shape[i], p.strides[i]
			n++
		}
	}
	p.ndim = n
	return p.contiguous()
}

// compact is a layout of l's shape without gaps, in which the dimensions lie in the order that they have in l. One that is expanded has no place in
// that order: as in PyTorch it stays where it is among the others, the last one innermost. Of dimensions with one stride the larger is the outer one.
func (l *layout) compact() layout { return compactOver(l, []layout{*l}) }

// compactOver is compact with the order that the dimensions have in several layouts of l's shape: the first that tells two of them apart decides.
func compactOver(l *layout, of []layout) layout {
	var order [op.MaxDims]int // the innermost dimension first
	for i := range l.ndim {
		order[i] = l.ndim - 1 - i
		for at, j := i, i-1; j >= 0; j-- {
			c := 0
			for k := 0; c == 0 && k < len(of); k++ {
				c = of[k].compareStrides(order[j], order[at])
			}
			if c < 0 {
				break
			}
			if c > 0 {
				order[j], order[at] = order[at], order[j]
				at = j
			}
		}
	}
	r, stride := *l, 1
	r.offset = 0
	for _, d := range order[:l.ndim] {
		r.strides[d] = stride
		stride *= max(l.shape[d], 1)
	}
	return r
}

// preserved is the layout of a copy of l that keeps the order of memory, whatever it is: l's strides, if its elements lie side by side.
func (l *layout) preserved() layout {
	r := *l
	if !l.dense() {
		r = l.compact()
	}
	r.offset = 0
	return r
}

// compareStrides compares the strides of two dimensions, or, if these are equal, their sizes. A stride of 0 compares as equal to any.
func (l *layout) compareStrides(i, j int) int {
	if l.strides[i] == 0 || l.strides[j] == 0 {
		return 0
	}
	if l.strides[i] == l.strides[j] {
		return max(cmp.Compare(l.shape[i], l.shape[j]), 0)
	}
	return cmp.Compare(l.strides[i], l.strides[j])
}

// extent is the range of elements of the storage that l can reach: first and one past the last. Empty layouts reach none.
func (l *layout) extent() (first, end int) {
	last := l.offset
	for i := 0; i < l.ndim; i++ {
		if l.shape[i] == 0 {
			return l.offset, l.offset
		}
		last += (l.shape[i] - 1) * l.strides[i]
	}
	return l.offset, last + 1
}

// repeats reports whether several elements share an address, as after Expand: such a tensor cannot be written to.
func (l *layout) repeats() bool {
	found := false
	for i := 0; i < l.ndim; i++ {
		if l.shape[i] == 0 {
			return false
		}
		found = found || l.shape[i] > 1 && l.strides[i] == 0
	}
	return found
}

// sameAs reports whether both describe the same elements in the same order; strides of single elements do not matter.
func (l *layout) sameAs(m *layout) bool {
	if l.ndim != m.ndim || l.offset != m.offset {
		return false
	}
	for i := 0; i < l.ndim; i++ {
		if l.shape[i] != m.shape[i] || l.shape[i] != 1 && l.strides[i] != m.strides[i] {
			return false
		}
	}
	return true
}

// axis turns a dimension that may count from the end into an index. A scalar has dimensions 0 and -1, as in PyTorch.
func (l *layout) axis(name string, dim int) (int, error) {
	n := max(l.ndim, 1)
	if dim < -n || dim >= n {
		return 0, shapeErr(name, []Shape{l.dims()}, "dimension %d is not in %d..%d", dim, -n, n-1)
	}
	if dim < 0 {
		dim += n
	}
	return dim, nil
}

// newAxis resolves the place of a dimension that is to be put in, which may count from the end of the result.
func (l *layout) newAxis(name string, dim int) (int, error) {
	if l.ndim == op.MaxDims {
		return 0, shapeErr(name, []Shape{l.dims()}, "at most %d dimensions are allowed", op.MaxDims)
	}
	n := l.ndim + 1
	if dim < -n || dim >= n {
		return 0, shapeErr(name, []Shape{l.dims()}, "dimension %d is not in %d..%d", dim, -n, n-1)
	}
	if dim < 0 {
		dim += n
	}
	return dim, nil
}

// drop removes dimension i, which the caller has reduced to one element. A scalar stays as it is.
func (l *layout) drop(i int) {
	if l.ndim == 0 {
		return
	}
	copy(l.shape[i:l.ndim], l.shape[i+1:l.ndim])
	copy(l.strides[i:l.ndim], l.strides[i+1:l.ndim])
	l.ndim--
	l.shape[l.ndim], l.strides[l.ndim] = 0, 0
}

// insert puts a dimension of d elements before dimension i. The caller has checked that there is room.
func (l *layout) insert(i, d, stride int) {
	copy(l.shape[i+1:l.ndim+1], l.shape[i:l.ndim])
	copy(l.strides[i+1:l.ndim+1], l.strides[i:l.ndim])
	l.ndim++
	l.shape[i], l.strides[i] = d, stride
}

// swap exchanges two dimensions.
func (l *layout) swap(i, j int) {
	l.shape[i], l.shape[j] = l.shape[j], l.shape[i]
	l.strides[i], l.strides[j] = l.strides[j], l.strides[i]
}
