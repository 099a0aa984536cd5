// Package dense carries tensors to and from gorgonia.org/tensor, whose host tensors are of type *Dense. Programs that do not import
// it link nothing of gorgonia.
//
// Both ways the elements are copied, in row-major order: nothing is shared, and both sides may go on to change or release what they
// have. An Engine gives tensors of gorgonia memory from a caching allocator, so that those of a program written for gorgonia show in the
// statistics, snapshots and limits of package memory.
package dense

import (
	"fmt"

	// gorgonia.org/tensor refuses to start on a Go runtime newer than the version of this package that it was released with.
	// Naming it here keeps the newer version, which knows no such limit, in go.mod.
	_ "go4.org/unsafe/assume-no-moving-gc"
	gorgonia "gorgonia.org/tensor"

	"github.com/cistern-ml/cistern/tensor"
)

// What errors name.
const (
	toTensor   = "dense.ToTensor"
	fromTensor = "dense.FromTensor"
)

// ToTensor copies d to the device of e: float32, float64, int64, int32, uint8 and bool become the same types, int becomes int64.
// Views, transposes and column-major tensors are fine. A nil, empty or masked Dense is a *tensor.ValueError, a type without a
// counterpart a *tensor.DTypeError.
func ToTensor(e tensor.Exec, d *gorgonia.Dense) (*tensor.Tensor, error) {
	switch {
	case d == nil:
		return nil, &tensor.ValueError{Op: toTensor, Detail: "the Dense is nil"}
	case d.Dtype().Type == nil: // a zero Dense
		return nil, &tensor.ValueError{Op: toTensor, Detail: "the Dense has no elements"}
	case d.IsMasked():
		return nil, &tensor.ValueError{Op: toTensor, Detail: "the Dense is masked; tensors have no masks"}
	}
	switch d.Dtype() {
	case gorgonia.Float32:
		return upload[float32](e, d)
	case gorgonia.Float64:
		return upload[float64](e, d)
	case gorgonia.Int64:
		return upload[int64](e, d)
	case gorgonia.Int32:
		return upload[int32](e, d)
	case gorgonia.Uint8:
		return upload[uint8](e, d)
	case gorgonia.Bool:
		return upload[bool](e, d)
	case gorgonia.Int:
		data, err := elements[int](d)
		if err != nil {
			return nil, err
		}
		wide := make([]int64, len(data))
		for i, v := range data {
			wide[i] = int64(v)
		}
		return tensor.FromSlice(e, wide, shapeOf(d)...)
	}
	return nil, &tensor.DTypeError{Op: toTensor, Detail: fmt.Sprintf("a Dense of %v has no counterpart", d.Dtype())}
}

func upload[T tensor.Element](e tensor.Exec, d *gorgonia.Dense) (*tensor.Tensor, error) {
	data, err := elements[T](d)
	if err != nil {
		return nil, err
	}
	return tensor.FromSlice(e, data, shapeOf(d)...)
}

// shapeOf is not nil, which FromSlice would take for a vector.
func shapeOf(d *gorgonia.Dense) []int { return append([]int{}, d.Shape()...) }

// elements are those of d in row-major order: its own memory if they lie that way, else a copy.
func elements[T any](d *gorgonia.Dense) ([]T, error) {
	if v, ok := d.Data().(T); ok { // Data of a scalar is the value itself
		return []T{v}, nil
	}
	shape, strides := d.Shape(), d.Strides()
	if len(strides) != len(shape) {
		return nil, &tensor.ValueError{Op: toTensor, Detail: fmt.Sprintf("a Dense of shape %v with strides %v is not understood", shape, strides)}
	}
	backing := d.Data().([]T)
	n := tensor.Shape(shape).Len()
	if rowMajor(shape, strides) {
		return backing[:n], nil
	}
	data := make([]T, 0, n)
	walk(shape, strides, 0, func(at int) { data = append(data, backing[at]) })
	return data, nil
}

// rowMajor reports whether the elements lie one after another. The stride of a dimension of one element says nothing.
func rowMajor(shape, strides []int) bool {
	next := 1
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] != 1 && strides[i] != next {
			return false
		}
		next *= shape[i]
	}
	return true
}

// walk calls visit with the place of each element, in row-major order.
func walk(shape, strides []int, at int, visit func(at int)) {
	if len(shape) == 0 {
		visit(at)
		return
	}
	for i := range shape[0] {
		walk(shape[1:], strides[1:], at+i*strides[0], visit)
	}
}

// FromTensor copies t to the host. The types are the same but for float16 and bfloat16, which become float32. It waits like
// tensor.ToSlice. Gorgonia has no empty tensors: those are a *tensor.ShapeError.
func FromTensor(t *tensor.Tensor) (*gorgonia.Dense, error) {
	if !t.Released() && t.Len() == 0 {
		return nil, &tensor.ShapeError{Op: fromTensor, Shapes: []tensor.Shape{t.Shape().Clone()}, Detail: "gorgonia.org/tensor has no empty tensors"}
	}
	switch t.DType() {
	case tensor.Float64:
		return download[float64](t)
	case tensor.Int64:
		return download[int64](t)
	case tensor.Int32:
		return download[int32](t)
	case tensor.Uint8:
		return download[uint8](t)
	case tensor.Bool:
		return download[bool](t)
	case tensor.Float16, tensor.BFloat16:
		values, err := t.Float64s()
		if err != nil {
			return nil, err
		}
		single := make([]float32, len(values))
		for i, v := range values {
			single[i] = float32(v)
		}
		return build(t.Shape(), single), nil
	}
	return download[float32](t) // also what is released: the error is ToSlice's
}

func download[T tensor.Element](t *tensor.Tensor) (*gorgonia.Dense, error) {
	data, err := tensor.ToSlice[T](t)
	if err != nil {
		return nil, err
	}
	return build(t.Shape(), data), nil
}

func build[T any](shape tensor.Shape, data []T) *gorgonia.Dense {
	if len(shape) == 0 {
		return gorgonia.New(gorgonia.FromScalar(data[0]))
	}
	return gorgonia.New(gorgonia.WithShape(shape.Clone()...), gorgonia.WithBacking(data))
}
