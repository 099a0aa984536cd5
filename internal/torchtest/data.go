package torchtest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/tensor"
)

var dtypes = map[string]tensor.DType{"float32": tensor.Float32, "float64": tensor.Float64, "float16": tensor.Float16,
	"bfloat16": tensor.BFloat16, "int64": tensor.Int64, "int32": tensor.Int32, "uint8": tensor.Uint8, "bool": tensor.Bool}

// parse makes a contiguous tensor of elements in text.
func parse(e tensor.Exec, dtype, text string, shape []int) (*tensor.Tensor, error) {
	words := strings.Fields(text)
	if shape == nil {
		shape = []int{}
	}
	switch dtype {
	case "float32":
		return tensor.FromSlice(e, floats(words, func(f float64) float32 { return float32(f) }), shape...)
	case "float64":
		return tensor.FromSlice(e, floats(words, func(f float64) float64 { return f }), shape...)
	case "float16":
		return tensor.FromSlice(e, floats(words, func(f float64) tensor.Float16Bits { return tensor.Float16Of(float32(f)) }), shape...)
	case "bfloat16":
		return tensor.FromSlice(e, floats(words, func(f float64) tensor.BFloat16Bits { return tensor.BFloat16Of(float32(f)) }), shape...)
	case "int64":
		return tensor.FromSlice(e, ints(words, func(i int64) int64 { return i }), shape...)
	case "int32":
		return tensor.FromSlice(e, ints(words, func(i int64) int32 { return int32(i) }), shape...)
	case "uint8":
		return tensor.FromSlice(e, ints(words, func(i int64) uint8 { return uint8(i) }), shape...)
	case "bool":
		return tensor.FromSlice(e, ints(words, func(i int64) bool { return i != 0 }), shape...)
	}
	return nil, fmt.Errorf("no type %q", dtype)
}

func floats[T any](words []string, convert func(float64) T) []T {
	r := make([]T, len(words))
	for i, w := range words {
		f, err := strconv.ParseFloat(w, 64)
		if err != nil {
			panic(fmt.Sprintf("torchtest: element %q: %v", w, err))
		}
		r[i] = convert(f)
	}
	return r
}

func ints[T any](words []string, convert func(int64) T) []T {
	r := make([]T, len(words))
	for i, w := range words {
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			panic(fmt.Sprintf("torchtest: element %q: %v", w, err))
		}
		r[i] = convert(n)
	}
	return r
}

// format reads a tensor.
func format(t *tensor.Tensor) (Value, error) {
	v := Value{DType: t.DType().String(), Shape: t.Shape()}
	if n := t.NDim(); n >= 2 {
		v.Order = slices.Clone(t.Strides())
		for d, size := range t.Shape() {
			if size == 1 {
				v.Order[d] = 0
			}
		}
	}
	words := make([]string, 0, t.Len())
	if t.DType() == tensor.Int64 { // beyond what float64 holds
		c, err := t.Contiguous()
		if err != nil {
			return v, err
		}
		defer c.Release()
		list, err := tensor.ToSlice[int64](c)
		if err != nil {
			return v, err
		}
		for _, n := range list {
			words = append(words, strconv.FormatInt(n, 10))
		}
	} else {
		list, err := t.Float64s()
		if err != nil {
			return v, err
		}
		for _, f := range list {
			words = append(words, number(f))
		}
	}
	v.Data = strings.Join(words, " ")
	return v, nil
}

// number writes f so that it is read as the same number, by Go and by Python.
func number(f float64) string {
	if math.IsNaN(f) {
		return "nan"
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
