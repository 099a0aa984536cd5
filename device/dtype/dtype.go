// Package dtype names the element types of tensors. It is a leaf: kernels and tensor both build on it.
package dtype

import "fmt"

// DType is the type of a tensor's elements.
type DType uint8

// The element types. The zero DType is no type.
const (
	Invalid DType = iota
	Float32
	Float64
	Float16
	BFloat16
	Int64
	Int32
	Uint8
	Bool // one byte, 0 or 1
	count
)

// Count is one more than the largest DType: the length of tables indexed by DType.
const Count = int(count)

var table = [Count]struct {
	name string
	size int
}{
	Invalid:  {"invalid", 0},
	Float32:  {"float32", 4},
	Float64:  {"float64", 8},
	Float16:  {"float16", 2},
	BFloat16: {"bfloat16", 2},
	Int64:    {"int64", 8},
	Int32:    {"int32", 4},
	Uint8:    {"uint8", 1},
	Bool:     {"bool", 1},
}

// All lists the element types.
func All() []DType {
	return []DType{Float32, Float64, Float16, BFloat16, Int64, Int32, Uint8, Bool}
}

// Size is the size of one element in bytes.
func (d DType) Size() int {
	if int(d) >= Count {
		return 0
	}
	return table[d].size
}

// String is PyTorch's name of the type without its prefix.
func (d DType) String() string {
	if int(d) >= Count {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return table[d].name
}

// Valid reports whether d is one of the types above.
func (d DType) Valid() bool { return d != Invalid && int(d) < Count }

// IsFloat reports whether d is a floating-point type.
func (d DType) IsFloat() bool { return d >= Float32 && d <= BFloat16 }

// IsInteger reports whether d is an integer type; Bool is not.
func (d DType) IsInteger() bool { return d >= Int64 && d <= Uint8 }
