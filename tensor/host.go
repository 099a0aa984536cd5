package tensor

import (
	"runtime"

	"github.com/cistern-ml/cistern/internal/rawbytes"
)

// Element lists the Go types that host data comes in, one for each DType, and int, which is int64 on all systems that are supported.
type Element interface {
	float32 | float64 | int | int64 | int32 | uint8 | bool | Float16Bits | BFloat16Bits
}

// dtypeOf is the DType of T.
func dtypeOf[T Element]() DType {
	var zero T
	switch any(zero).(type) {
	case float32:
		return Float32
	case float64:
		return Float64
	case int, int64:
		return Int64
	case int32:
		return Int32
	case uint8:
		return Uint8
	case bool:
		return Bool
	case Float16Bits:
		return Float16
	}
	return BFloat16
}

// bytesOf is the memory of data, or for bool a copy of it, one byte each.
func bytesOf[T Element](data []T) []byte {
	switch d := any(data).(type) {
	case []float32:
		return rawbytes.Of(d)
	case []float64:
		return rawbytes.Of(d)
	case []int:
		return rawbytes.Of(rawbytes.Int64s(d))
	case []int64:
		return rawbytes.Of(d)
	case []int32:
		return rawbytes.Of(d)
	case []uint8:
		return d
	case []Float16Bits:
		return rawbytes.Of(d)
	case []BFloat16Bits:
		return rawbytes.Of(d)
	case []bool:
		bytes := make([]byte, len(d))
		for i, v := range d {
			if v {
				bytes[i] = 1
			}
		}
		return bytes
	}
	return nil
}

// FromSlice makes a tensor of the given shape from host data in row-major order; without a shape it has one dimension (Scalar
// makes a tensor without any). The type is that of the elements. data may be changed when the call returns.
func FromSlice[T Element](e Exec, data []T, shape ...int) (*Tensor, error) {
	const name = "FromSlice"
	if shape == nil {
		shape = []int{len(data)}
	}
	return fromHost(name, e, data, shape)
}

func fromHost[T Element](name string, e Exec, data []T, shape []int) (*Tensor, error) {
	l, err := newLayout(name, shape)
	if err != nil {
		return nil, err
	}
	if l.len() != len(data) {
		return nil, shapeErr(name, []Shape{shape}, "%d elements do not make this shape", len(data))
	}
	t, err := alloc(name, e, dtypeOf[T](), &l)
	if err != nil {
		return nil, err
	}
	if err := t.upload(bytesOf(data)); err != nil {
		t.Release()
		return nil, wrap(name, err)
	}
	return t, nil
}

// upload puts bytes into t, which is contiguous and has room for exactly them.
func (t *Tensor) upload(bytes []byte) error {
	if len(bytes) == 0 {
		return nil
	}
	if err := t.uncaptured("copy from the host", noBytes); err != nil {
		return err
	}
	if err := t.storage.usedOn(t.exec.stream.ID(), t.exec); err != nil {
		return err
	}
	err := t.exec.stream.CopyToDevice(t.ptr(&t.layout), bytes)
	runtime.KeepAlive(t)
	return err
}

// download waits for the work before it on t's stream and fills bytes with the elements of t, which is contiguous.
func (t *Tensor) download(bytes []byte) error {
	if len(bytes) == 0 {
		return nil
	}
	if err := t.uncaptured("copy to the host", noValue); err != nil {
		return err
	}
	if err := t.storage.usedOn(t.exec.stream.ID(), t.exec); err != nil {
		return err
	}
	err := t.exec.stream.CopyToHost(bytes, t.ptr(&t.layout))
	runtime.KeepAlive(t)
	return err
}

// CopyFromSlice sets t to host data of its own type in row-major order. data may be changed when the call returns.
func CopyFromSlice[T Element](t *Tensor, data []T) error {
	const name = "CopyFromSlice"
	if err := usable(name, t); err != nil {
		return err
	}
	if dt := dtypeOf[T](); dt != t.dtype {
		return dtypeErr(name, "the elements are not of the tensor's type", t.dtype, dt)
	}
	if t.Len() != len(data) {
		return shapeErr(name, []Shape{t.Shape()}, "%d elements do not fill this shape", len(data))
	}
	if err := t.writable(name); err != nil {
		return err
	}
	t.storage.changed()
	if t.layout.contiguous() {
		return wrap(name, t.upload(bytesOf(data)))
	}
	packed, err := alloc(name, t.exec.Owned(), t.dtype, &t.layout)
	if err != nil {
		return err
	}
	defer packed.Release()
	if err := packed.upload(bytesOf(data)); err != nil {
		return wrap(name, err)
	}
	return t.write(name, &t.layout, packed, &packed.layout)
}

// ToSlice copies t, whose type must be T's, to the host in row-major order. It waits for the work before it on t's stream
// and returns the error of any of it.
func ToSlice[T Element](t *Tensor) ([]T, error) {
	const name = "ToSlice"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	if dt := dtypeOf[T](); dt != t.dtype {
		return nil, dtypeErr(name, "the slice is not of the tensor's type; convert with To", t.dtype, dt)
	}
	packed, err := t.packedCopy(name)
	if err != nil {
		return nil, err
	}
	defer drop(packed, t)
	data := make([]T, t.Len())
	if flags, ok := any(data).([]bool); ok {
		return data, wrap(name, packed.downloadBools(flags))
	}
	return data, wrap(name, packed.download(bytesOf(data)))
}

// downloadBools is download for bools: a byte that is not 0 is true, so that undefined content makes no invalid Go value.
func (t *Tensor) downloadBools(data []bool) error {
	bytes := make([]byte, len(data))
	err := t.download(bytes)
	for i, b := range bytes {
		data[i] = b != 0
	}
	return err
}

// Float64s copies t, of whatever type, to the host in row-major order. Integers beyond 2^53 lose their last digits.
func (t *Tensor) Float64s() ([]float64, error) {
	const name = "Float64s"
	if err := usable(name, t); err != nil {
		return nil, err
	}
	switch t.dtype {
	case Float32:
		return widened(t, func(v float32) float64 { return float64(v) })
	case Float64:
		return ToSlice[float64](t)
	case Float16:
		return widened(t, func(v Float16Bits) float64 { return float64(v.Float32()) })
	case BFloat16:
		return widened(t, func(v BFloat16Bits) float64 { return float64(v.Float32()) })
	case Int64:
		return widened(t, func(v int64) float64 { return float64(v) })
	case Int32:
		return widened(t, func(v int32) float64 { return float64(v) })
	case Uint8:
		return widened(t, func(v uint8) float64 { return float64(v) })
	}
	return widened(t, func(v bool) float64 {
		if v {
			return 1
		}
		return 0
	})
}

func widened[T Element](t *Tensor, f func(T) float64) ([]float64, error) {
	data, err := ToSlice[T](t)
	if err != nil {
		return nil, err
	}
	wide := make([]float64, len(data))
	for i, v := range data {
		wide[i] = f(v)
	}
	return wide, nil
}

// Item is the value of a tensor with one element. It waits like ToSlice.
func (t *Tensor) Item() (float64, error) {
	const name = "Item"
	if err := usable(name, t); err != nil {
		return 0, err
	}
	if t.Len() != 1 {
		return 0, shapeErr(name, []Shape{t.Shape()}, "%d elements; Item takes one", t.Len())
	}
	values, err := t.Float64s()
	if err != nil {
		return 0, err
	}
	return values[0], nil
}
