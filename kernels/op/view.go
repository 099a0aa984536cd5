package op

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
)

// MaxDims is the largest number of dimensions of a View.
const MaxDims = 8

// View is a tensor as a kernel sees it: where its first element is, what its elements are, and how to walk them.
// It owns nothing. The memory must stay allocated until the stream has passed the call.
type View struct {
	Ptr     device.Ptr // address of element [0, 0, ...]
	DType   dtype.DType
	NDim    int          // 0 is a scalar of one element
	Shape   [MaxDims]int // elements along each dimension; only the first NDim count
	Strides [MaxDims]int // distance of neighbours in elements; 0 broadcasts, negative walks backwards
}

// Len is the number of elements.
func (v *View) Len() int {
	n := 1
	for _, d := range v.Shape[:v.NDim] {
		n *= d
	}
	return n
}

// Contiguous reports whether the elements lie in row-major order without gaps. Dimensions of one element may have any
// stride; a view without elements is contiguous.
func (v *View) Contiguous() bool {
	expect, packed := 1, true
	for i := v.NDim - 1; i >= 0; i-- {
		if v.Shape[i] == 0 {
			return true
		}
		if v.Shape[i] != 1 {
			packed = packed && v.Strides[i] == expect
			expect *= v.Shape[i]
		}
	}
	return packed
}
