package tensor

import (
	"math"
	"runtime"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Empty makes a contiguous tensor with undefined content. The caller owns the result, here and in every function that
// makes a tensor, and releases it.
func Empty(e Exec, dt DType, shape ...int) (*Tensor, error) {
	const name = "Empty"
	l, err := newLayout(name, shape)
	if err != nil {
		return nil, err
	}
	return alloc(name, e, dt, &l)
}

// Zeros makes a tensor of zeros.
func Zeros(e Exec, dt DType, shape ...int) (*Tensor, error) {
	return filled("Zeros", e, 0, dt, shape)
}

// Ones makes a tensor of ones.
func Ones(e Exec, dt DType, shape ...int) (*Tensor, error) {
	return filled("Ones", e, 1, dt, shape)
}

// Full makes a tensor of copies of value. Integer types take the integral part of a value that lies between their least and their largest number, and uint8 counts
// integers from -255 to -1 back from 256, as PyTorch does; bool takes "not 0". Floating-point types refuse
// finite values beyond their largest number, as -1e9 of float16, and take infinities, here and in all that puts one number into tensors. As in PyTorch that goes for
// numbers too that would be rounded to the largest one, as 65519 of float16: FromSliceAs rounds them.
func Full(e Exec, value float64, dt DType, shape ...int) (*Tensor, error) {
	return filled("Full", e, value, dt, shape)
}

// Scalar makes a tensor without dimensions.
func Scalar(e Exec, value float64, dt DType) (*Tensor, error) {
	return full("Scalar", e, value, dt, &layout{})
}

func filled(name string, e Exec, value float64, dt DType, shape []int) (*Tensor, error) {
	l, err := newLayout(name, shape)
	if err != nil {
		return nil, err
	}
	return full(name, e, value, dt, &l)
}

func full(name string, e Exec, value float64, dt DType, l *layout) (*Tensor, error) {
	if err := fillable(name, dt, value); err != nil {
		return nil, err
	}
	return copies(name, e, value, dt, l)
}

// number is a number that is computed with, as a scalar of type dt: beyond the largest number of the type it is infinite, as in PyTorch.
func number(name string, e Exec, value float64, dt DType) (*Tensor, error) {
	if err := whole(name, dt, value); err != nil {
		return nil, err
	}
	return copies(name, e, value, dt, &layout{})
}

// copies makes a tensor of layout l, without gaps, of copies of value.
func copies(name string, e Exec, value float64, dt DType, l *layout) (*Tensor, error) {
	t, err := allocAs(name, e, dt, l)
	if err != nil {
		return nil, err
	}
	if err := t.fill(name, value, &t.layout); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// fillable refuses what whole refuses, integers that a type does not hold, and finite values that would be infinite in it.
func fillable(name string, dt DType, value float64) error {
	if err := whole(name, dt, value); err != nil {
		return err
	}
	if !holds(dt, value) && !(dt == Uint8 && countsBack(value)) {
		return cannotHold(name, dt, value)
	}
	return bounded(name, dt, dt, value)
}

// countsBack reports whether uint8 takes v as one that is counted back from 256, as PyTorch takes integers of Python: -1 is its largest number.
func countsBack(v float64) bool { return integral(v) && v >= -math.MaxUint8 && v < 0 }

func cannotHold(name string, dt DType, value float64) error {
	return valueErr(name, "value is %v; %s cannot hold it", value, dt)
}

// bounded refuses finite numbers beyond the largest one of type holds, beside tensors of type dt.
func bounded(name string, dt, holds DType, values ...float64) error {
	for _, v := range values {
		if most := largest(holds); dt.IsFloat() && math.Abs(v) > most && !infinite(v) {
			return valueErr(name, "value is %v; the largest number of %s is %v", v, holds, most)
		}
	}
	return nil
}

// factors refuses finite numbers that are infinite in the type in which operations on tensors of type dt compute.
func factors(name string, dt DType, values ...float64) error {
	if dt.Size() == 2 {
		return bounded(name, dt, Float32, values...)
	}
	return bounded(name, dt, dt, values...)
}

// whole refuses values of which integers can hold no part: NaN, infinities, and what is beyond int64.
func whole(name string, dt DType, value float64) error {
	if dt.IsInteger() && !integral(math.Trunc(value)) {
		return cannotHold(name, dt, value)
	}
	return nil
}

// fill sets the elements that l selects.
func (t *Tensor) fill(name string, value float64, l *layout) error {
	n := l.len()
	if n == 0 {
		return nil
	}
	if value == 0 && !math.Signbit(value) && (l.contiguous() || l.dense()) {
		if err := t.storage.usedOn(t.exec.stream.ID(), t.exec); err != nil {
			return wrap(name, err)
		}
		size := t.dtype.Size()
		p := t.storage.block.Ptr().Add(uint64(l.offset * size))
		err := t.exec.stream.Fill(p, 0, uint64(n*size))
		runtime.KeepAlive(t) // the work is on the stream now; see launch
		return wrap(name, err)
	}
	if t.dtype == Bool && value != 0 {
		value = 1
	}
	c := begin(op.Fill, t.exec)
	c.scalars(numbers(t.dtype, value))
	c.out(t, l)
	return c.run(name)
}

// Arange makes a tensor of one dimension: start, start+step, ... up to but not including end. For integer types all three
// are integers.
func Arange(e Exec, start, end, step float64, dt DType) (*Tensor, error) {
	const name = "Arange"
	n, err := arangeLen(name, start, end, step, dt)
	if err != nil {
		return nil, err
	}
	l, err := newLayout(name, []int{n})
	if err != nil {
		return nil, err
	}
	t, err := alloc(name, e, dt, &l)
	if err != nil || n == 0 {
		return t, err
	}
	c := begin(op.Arange, e)
	c.scalars(numbers(dt, start, step))
	c.out(t, &t.layout)
	if err := c.run(name); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

func arangeLen(name string, start, end, step float64, dt DType) (int, error) {
	if dt == Bool {
		return 0, dtypeErr(name, "not defined for bool", dt)
	}
	for _, v := range []float64{start, end, step} {
		if math.IsNaN(v) || math.IsInf(v, 0) || dt.IsInteger() && !integral(v) {
			return 0, valueErr(name, "start %v, end %v, step %v: not numbers of type %s", start, end, step, dt)
		}
	}
	if step == 0 || step > 0 && start > end || step < 0 && start < end {
		return 0, valueErr(name, "start %v, end %v: step is %v, which does not lead there", start, end, step)
	}
	n := math.Ceil((end - start) / step)
	if n > math.MaxInt32*1024 {
		return 0, valueErr(name, "start %v, end %v, step %v: too many elements", start, end, step)
	}
	return int(n), nil
}

// Eye makes the n by n identity matrix.
func Eye(e Exec, dt DType, n int) (*Tensor, error) {
	const name = "Eye"
	t, err := filled(name, e, 0, dt, []int{n, n})
	if err != nil || n == 0 {
		return t, err
	}
	diagonal := layout{ndim: 1}
	diagonal.shape[0], diagonal.strides[0] = n, n+1
	if err := t.fill(name, 1, &diagonal); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}
