package tensor

import (
	"fmt"

	"github.com/pkg/errors"

	// gorgonia.org/tensor refuses to start on a Go runtime newer than the version of this package that it was released with.
	// Naming it here keeps the newer version, which knows no such limit, in go.mod.
	_ "go4.org/unsafe/assume-no-moving-gc"
	gorgonia "gorgonia.org/tensor"
)

// FromDense copies a host tensor of gorgonia.org/tensor, in row-major order: float32, float64, int64, int32, uint8 and bool
// become the same types, int becomes int64. Views, transposes and column-major tensors are fine; masked ones are refused.
func FromDense(e Exec, d *gorgonia.Dense) (*Tensor, error) {
	const name = "FromDense"
	if d == nil {
		return nil, valueErr(name, "the Dense is nil")
	}
	if d.Dtype().Type == nil { // a zero Dense
		return nil, valueErr(name, "the Dense has no elements")
	}
	if d.IsMasked() {
		return nil, valueErr(name, "the Dense is masked; tensors have no masks")
	}
	switch d.Dtype() {
	case gorgonia.Float32:
		return fromDense[float32](e, d)
	case gorgonia.Float64:
		return fromDense[float64](e, d)
	case gorgonia.Int64:
		return fromDense[int64](e, d)
	case gorgonia.Int32:
		return fromDense[int32](e, d)
	case gorgonia.Uint8:
		return fromDense[uint8](e, d)
	case gorgonia.Bool:
		return fromDense[bool](e, d)
	case gorgonia.Int:
		data, err := denseData[int](d)
		if err != nil {
			return nil, wrap(name, err)
		}
		wide := make([]int64, len(data))
		for i, v := range data {
			wide[i] = int64(v)
		}
		return fromHost(name, e, wide, d.Shape())
	}
	return nil, dtypeErr(name, fmt.Sprintf("a Dense of %v has no counterpart", d.Dtype()))
}

func fromDense[T Element](e Exec, d *gorgonia.Dense) (*Tensor, error) {
	const name = "FromDense"
	data, err := denseData[T](d)
	if err != nil {
		return nil, wrap(name, err)
	}
	return fromHost(name, e, data, d.Shape())
}

// denseData is the elements of d in row-major order: its own memory if they lie that way, else a copy.
func denseData[T any](d *gorgonia.Dense) ([]T, error) {
	if v, ok := d.Data().(T); ok { // Data of a scalar is the value itself
		return []T{v}, nil
	}
	shape, strides := d.Shape(), d.Strides()
	if len(strides) != len(shape) {
		return nil, errors.Errorf("a Dense of shape %v with strides %v is not understood", shape, strides)
	}
	l, err := newLayout("FromDense", shape)
	if err != nil {
		return nil, err
	}
	copy(l.strides[:], strides)
	backing := d.Data().([]T)
	if l.contiguous() {
		return backing[:l.len()], nil
	}
	data := make([]T, 0, l.len())
	l.walk(0, 0, func(at int) { data = append(data, backing[at]) })
	return data, nil
}

// walk calls visit with the place of each element, from dimension dim on, in row-major order.
func (l *layout) walk(dim, at int, visit func(at int)) {
	if dim == l.ndim {
		visit(at)
		return
	}
	for i := range l.shape[dim] {
		l.walk(dim+1, at+i*l.strides[dim], visit)
	}
}

// Dense copies t to the host as a tensor of gorgonia.org/tensor, which has the same types but for float16 and bfloat16: they
// become float32. It waits like ToSlice. Gorgonia has no empty tensors: those are a *ShapeError.
func (t *Tensor) Dense() (*gorgonia.Dense, error) {
	const name = "Dense"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if t.Len() == 0 {
		return nil, shapeErr(name, []Shape{t.Shape()}, "gorgonia.org/tensor has no empty tensors")
	}
	switch t.dtype {
	case Float32:
		return toDense[float32](t)
	case Float64:
		return toDense[float64](t)
	case Int64:
		return toDense[int64](t)
	case Int32:
		return toDense[int32](t)
	case Uint8:
		return toDense[uint8](t)
	case Bool:
		return toDense[bool](t)
	}
	values, err := t.Float64s()
	if err != nil {
		return nil, err
	}
	single := make([]float32, len(values))
	for i, v := range values {
		single[i] = float32(v)
	}
	return newDense(t.Shape(), single), nil
}

func toDense[T Element](t *Tensor) (*gorgonia.Dense, error) {
	data, err := ToSlice[T](t)
	if err != nil {
		return nil, err
	}
	return newDense(t.Shape(), data), nil
}

func newDense[T any](shape Shape, data []T) *gorgonia.Dense {
	if len(shape) == 0 {
		return gorgonia.New(gorgonia.FromScalar(data[0]))
	}
	return gorgonia.New(gorgonia.WithShape(shape.Clone()...), gorgonia.WithBacking(data))
}
