package safetensors

import "github.com/cistern-ml/cistern/tensor"

// formatNames are the format's names of the element types.
var formatNames = map[tensor.DType]string{
	tensor.Float32: "F32", tensor.Float64: "F64", tensor.Float16: "F16", tensor.BFloat16: "BF16",
	tensor.Int64: "I64", tensor.Int32: "I32", tensor.Uint8: "U8", tensor.Bool: "BOOL",
}

// foreignBits are the bits of an element of the types that the format has and the tensor package has not.
var foreignBits = map[string]int64{
	"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "C64": 64,
	"I8": 8, "I16": 16, "U16": 16, "U32": 32, "U64": 64,
}

// dtypeNamed is the type of a name, 0 for those that the tensor package does not have.
func dtypeNamed(name string) tensor.DType {
	for dt, n := range formatNames {
		if n == name {
			return dt
		}
	}
	return 0
}

// bitsOf are the bits of an element, 0 for a type that nobody here has heard of.
func bitsOf(name string) int64 {
	if dt := dtypeNamed(name); dt != 0 {
		return 8 * int64(dt.Size())
	}
	return foreignBits[name]
}

// sizeOf is the bytes of a tensor whose elements have so many bits, unless the shape is not one or the number does not fit.
func sizeOf(shape []int, bits int64) (int64, bool) {
	size := bits
	if size == 0 || len(shape) > tensor.MaxDims {
		return 0, false
	}
	for _, d := range shape {
		if d < 0 || d > 0 && size > (1<<62)/int64(d) {
			return 0, false
		}
		size *= int64(d)
	}
	return size / 8, size%8 == 0
}
