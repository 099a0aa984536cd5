package safetensors

import "github.com/cistern-ml/cistern/tensor"

// formatNames are the format's names of the element types.
var formatNames = map[tensor.DType]string{
	tensor.Float32: "F32", tensor.Float64: "F64", tensor.Float16: "F16", tensor.BFloat16: "BF16",
	tensor.Int64: "I64", tensor.Int32: "I32", tensor.Uint8: "U8", tensor.Bool: "BOOL",
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

// sizeOf is the bytes of a tensor, unless the shape is not one or the number does not fit.
func sizeOf(shape []int, dt tensor.DType) (int64, bool) {
	size := int64(dt.Size())
	if size == 0 || len(shape) > tensor.MaxDims {
		return 0, false
	}
	for _, d := range shape {
		if d < 0 || d > 0 && size > (1<<62)/int64(d) {
			return 0, false
		}
		size *= int64(d)
	}
	return size, true
}
