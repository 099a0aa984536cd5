package tensor

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// DType is the type of a tensor's elements.
type DType = dtype.DType

// The element types.
const (
	Float32  = dtype.Float32
	Float64  = dtype.Float64
	Float16  = dtype.Float16
	BFloat16 = dtype.BFloat16
	Int64    = dtype.Int64
	Int32    = dtype.Int32
	Uint8    = dtype.Uint8
	Bool     = dtype.Bool
)

// MaxDims is the largest number of dimensions of a tensor.
const MaxDims = op.MaxDims

// Shape is the number of elements along each dimension. A shape without dimensions is a scalar's, of one element; a
// dimension of 0 makes an empty tensor.
type Shape []int

// Len is the number of elements of a tensor of this shape. Of shapes that no tensor has it is 0, if a dimension is negative, and
// math.MaxInt, if there are more elements than an int can count.
func (s Shape) Len() int {
	n, over := 1, false
	for _, d := range s {
		if d <= 0 {
			return 0
		}
		over = over || n > math.MaxInt/d
		n *= d
	}
	if over {
		return math.MaxInt
	}
	return n
}

// Equal reports whether both shapes have the same dimensions.
func (s Shape) Equal(t Shape) bool { return slices.Equal(s, t) }

// Clone returns a copy that may be kept and changed.
func (s Shape) Clone() Shape { return append(make(Shape, 0, len(s)), s...) }

// String is PyTorch's form, as in "[2, 3]".
func (s Shape) String() string {
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range s {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(d))
	}
	b.WriteByte(']')
	return b.String()
}
