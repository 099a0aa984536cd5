package data

import (
	"fmt"

	"github.com/cistern-ml/cistern/internal/rawbytes"
	"github.com/cistern-ml/cistern/tensor"
)

// Array is a tensor in host memory, in row-major order: a part of an example, or of a batch that was put together on the host. It is
// a small value that shares its elements with its copies. The zero Array is none, and refused.
type Array struct {
	dtype    tensor.DType
	shape    tensor.Shape
	elements any    // []T
	bytes    []byte // the same memory, of bools a copy
}

// Example is what a data set has under one number, as one array or several: an image and its class, say. A batch has as many.
type Example []Array

// NewArray makes an array of the given shape; without a shape it has one dimension. The slice is not copied, and must not change while
// the array is in use. It is a *tensor.ShapeError if the number of elements does not fit.
func NewArray[T tensor.Element](elements []T, shape ...int) (Array, error) {
	if shape == nil {
		shape = []int{len(elements)}
	}
	for _, n := range shape {
		if n < 0 {
			return Array{}, &tensor.ShapeError{Op: "NewArray", Shapes: []tensor.Shape{shape}, Detail: "a size is negative"}
		}
	}
	s := tensor.Shape(shape).Clone()
	if s.Len() != len(elements) {
		return Array{}, &tensor.ShapeError{Op: "NewArray", Shapes: []tensor.Shape{s}, Detail: fmt.Sprintf("%d elements do not make this shape", len(elements))}
	}
	dt, bytes := memoryOf(elements)
	return Array{dtype: dt, shape: s, elements: kept(elements), bytes: bytes}, nil
}

// Scalar makes an array without dimensions, such as the class of an example.
func Scalar[T tensor.Element](v T) Array {
	elements := []T{v}
	dt, bytes := memoryOf(elements)
	return Array{dtype: dt, shape: tensor.Shape{}, elements: kept(elements), bytes: bytes}
}

// Elements is the slice of which the array was made. It is a *tensor.DTypeError if the array has another type.
func Elements[T tensor.Element](a Array) ([]T, error) {
	s, ok := a.elements.([]T)
	if whole, also := a.elements.([]int64); !ok && also {
		s, ok = any(rawbytes.Ints(whole)).([]T)
	}
	if !ok {
		dt, _ := memoryOf([]T(nil))
		return nil, &tensor.DTypeError{Op: "Elements", DTypes: []tensor.DType{a.dtype, dt}, Detail: "the slice is not of the array's type"}
	}
	return s, nil
}

// DType is the type of the elements, 0 for the zero Array.
func (a Array) DType() tensor.DType { return a.dtype }

// Shape is the number of elements along each dimension. Read it, but do not change it.
func (a Array) Shape() tensor.Shape { return a.shape }

// Len is the number of elements.
func (a Array) Len() int {
	if a.dtype == 0 {
		return 0
	}
	return a.shape.Len()
}

// Tensor uploads the array. The caller owns the tensor.
func (a Array) Tensor(e tensor.Exec) (*tensor.Tensor, error) {
	if err := a.given(); err != nil {
		return nil, err
	}
	if e.Stream() == nil {
		return nil, &tensor.DeviceError{Op: "Array.Tensor", Detail: "zero Exec: make one with tensor.On"}
	}
	return upload(e, a.dtype, a.shape, false, func(to []byte) { copy(to, a.bytes) })
}

// String is type and shape, as in "uint8[3 32 32]".
func (a Array) String() string {
	if a.dtype == 0 {
		return "no array"
	}
	return fmt.Sprintf("%s%s", a.dtype, a.shape)
}

// given refuses the zero Array.
func (a Array) given() error {
	if a.dtype == 0 {
		return argumentErr("the zero Array has no elements; make one with NewArray or Scalar")
	}
	return nil
}

// kept is a slice as an Array has it: one Go type for each DType.
func kept[T tensor.Element](s []T) any {
	if ints, ok := any(s).([]int); ok {
		return rawbytes.Int64s(ints)
	}
	return s
}

// memoryOf is the type of the elements and their memory; of bools, which have bit patterns that are no values, a copy.
func memoryOf[T tensor.Element](s []T) (tensor.DType, []byte) {
	switch d := any(s).(type) {
	case []float32:
		return tensor.Float32, rawbytes.Of(d)
	case []float64:
		return tensor.Float64, rawbytes.Of(d)
	case []int:
		return tensor.Int64, rawbytes.Of(rawbytes.Int64s(d))
	case []int64:
		return tensor.Int64, rawbytes.Of(d)
	case []int32:
		return tensor.Int32, rawbytes.Of(d)
	case []uint8:
		return tensor.Uint8, d
	case []tensor.Float16Bits:
		return tensor.Float16, rawbytes.Of(d)
	case []tensor.BFloat16Bits:
		return tensor.BFloat16, rawbytes.Of(d)
	case []bool:
		bytes := make([]byte, len(d))
		for i, v := range d {
			if v {
				bytes[i] = 1
			}
		}
		return tensor.Bool, bytes
	}
	return 0, nil
}

// upload makes a tensor under e of what fill writes into its host memory.
func upload(e tensor.Exec, dt tensor.DType, shape tensor.Shape, pinned bool, fill func(to []byte)) (*tensor.Tensor, error) {
	h, err := tensor.NewHostCopy(e.Device(), dt, pinned, shape...)
	if err != nil {
		return nil, err
	}
	defer h.Release() // pinned memory is reused only after the copy
	fill(h.Data())
	return h.Tensor(e)
}
