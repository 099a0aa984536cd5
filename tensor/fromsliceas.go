package tensor

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/internal/rawbytes"
)

// FromSliceAs is FromSlice with elements of type dt (torch.tensor(data, dtype=dt)). Each number is rounded to dt once, to nearest even; to int64, int32 and uint8
// towards 0. Of bool, what is not 0 is true, NaN too. A number that dt cannot hold is a ValueError that names it and its place, and no tensor is made: for integers NaN,
// infinities and what is beyond the type's range, which is checked before the fraction is cut off, so that 255.5 and -0.5 are no uint8; for a floating-point type finite
// numbers that would be rounded to an infinity, as 65520 in float16, where 65519 is 65504.
// Data of dt's own type is taken as it is. Numbers are converted on the host, before the copy.
func FromSliceAs[T Element](e Exec, dt DType, data []T, shape ...int) (*Tensor, error) {
	const name = "FromSliceAs"
	if shape == nil {
		shape = []int{len(data)}
	}
	if dt == dtypeOf[T]() {
		return fromHost(name, e, data, shape)
	}
	l, err := newLayout(name, shape)
	if err != nil {
		return nil, err
	}
	if l.len() != len(data) {
		return nil, shapeErr(name, []Shape{shape}, "%d elements do not make this shape", len(data))
	}
	if !dt.Valid() {
		return nil, dtypeErr(name, "not an element type", dt)
	}
	bytes, err := convertedBytes(name, dt, data)
	if err != nil {
		return nil, err
	}
	t, err := alloc(name, e, dt, &l)
	if err != nil {
		return nil, err
	}
	if err := t.upload(bytes); err != nil {
		t.Release()
		return nil, wrap(name, err)
	}
	return t, nil
}

// convertedBytes is the memory of data in type dt.
func convertedBytes[T Element](name string, dt DType, data []T) ([]byte, error) {
	switch dt {
	case Float64:
		return recast(name, dt, data, exactly, func(n int64) float64 { return float64(n) })
	case Float32:
		return recast(name, dt, data, func(v float64) float32 { return float32(v) }, func(n int64) float32 { return float32(n) })
	case Float16:
		return recast(name, dt, data, roundedHalf, func(n int64) Float16Bits { return roundedHalf(oddFloat64(n)) })
	case BFloat16:
		return recast(name, dt, data, roundedBrain, func(n int64) BFloat16Bits { return roundedBrain(oddFloat64(n)) })
	case Int64:
		return recast(name, dt, data, func(v float64) int64 { return int64(v) }, func(n int64) int64 { return n })
	case Int32:
		return recast(name, dt, data, func(v float64) int32 { return int32(v) }, func(n int64) int32 { return int32(n) })
	case Uint8:
		return recast(name, dt, data, func(v float64) uint8 { return uint8(v) }, func(n int64) uint8 { return uint8(n) })
	}
	return recast(name, dt, data, func(v float64) uint8 { return truth(v != 0) }, func(n int64) uint8 { return truth(n != 0) })
}

// recast is the memory of data as numbers of type R, which dt is: those with fractions by real, integers and bools by whole.
func recast[R rawbytes.Number, T Element](name string, dt DType, data []T, real func(float64) R, whole func(int64) R) ([]byte, error) {
	out := make([]R, len(data))
	var bad int
	switch d := any(data).(type) {
	case []float64:
		bad = convertReals(dt, out, d, exactly, real)
	case []float32:
		bad = convertReals(dt, out, d, func(v float32) float64 { return float64(v) }, real)
	case []Float16Bits:
		bad = convertReals(dt, out, d, func(v Float16Bits) float64 { return float64(v.Float32()) }, real)
	case []BFloat16Bits:
		bad = convertReals(dt, out, d, func(v BFloat16Bits) float64 { return float64(v.Float32()) }, real)
	case []int:
		bad = convertIntegers(dt, out, rawbytes.Int64s(d), func(v int64) int64 { return v }, whole)
	case []int64:
		bad = convertIntegers(dt, out, d, func(v int64) int64 { return v }, whole)
	case []int32:
		bad = convertIntegers(dt, out, d, func(v int32) int64 { return int64(v) }, whole)
	case []uint8:
		bad = convertIntegers(dt, out, d, func(v uint8) int64 { return int64(v) }, whole)
	case []bool:
		bad = convertIntegers(dt, out, d, func(v bool) int64 { return int64(truth(v)) }, whole)
	}
	if bad < 0 {
		return rawbytes.Of(out), nil
	}
	return nil, valueErr(name, "element %d is %v; %s", bad, shown(data[bad]), rangeOf(dt))
}

// convertReals fills out, and gives the first place of a number that dt cannot hold, or -1.
func convertReals[R rawbytes.Number, T Element](dt DType, out []R, data []T, widen func(T) float64, convert func(float64) R) int {
	lo, end := bounds(dt)
	for i, x := range data {
		v := widen(x)
		if !(v >= lo && v < end) && (dt.IsInteger() || dt.IsFloat() && !math.IsNaN(v) && !infinite(v)) {
			return i
		}
		out[i] = convert(v)
	}
	return -1
}

func convertIntegers[R rawbytes.Number, T Element](dt DType, out []R, data []T, widen func(T) int64, convert func(int64) R) int {
	for i, x := range data {
		n := widen(x)
		if dt != Int64 && dt.IsInteger() && !holds(dt, float64(n)) || dt == Float16 && (n >= 65520 || n <= -65520) {
			return i
		}
		out[i] = convert(n)
	}
	return -1
}

// bounds are what numbers that a type holds are at least, and less than. Integers have none with a fraction beyond the last; of floating-point types
// the end is halfway to what would be the number after the largest, and is rounded to an infinity.
func bounds(dt DType) (lo, end float64) {
	after := func(v float64) float64 { return math.Nextafter(v, math.Inf(1)) }
	switch dt {
	case Int64:
		return math.MinInt64, 1 << 63
	case Int32:
		return math.MinInt32, after(math.MaxInt32)
	case Uint8:
		return 0, after(math.MaxUint8)
	}
	switch dt {
	case Float16:
		end = 65520
	case BFloat16:
		end = 0x1.ffp127
	case Float32:
		end = 0x1.ffffffp127
	default:
		end = math.Inf(1)
	}
	return -math.Nextafter(end, 0), end
}

// rangeOf says in words what numbers a type takes.
func rangeOf(dt DType) string {
	switch dt {
	case Int64:
		return fmt.Sprintf("int64 holds %d to %d", int64(math.MinInt64), int64(math.MaxInt64))
	case Int32:
		return fmt.Sprintf("int32 holds %d to %d", math.MinInt32, math.MaxInt32)
	case Uint8:
		return "uint8 holds 0 to 255"
	}
	return fmt.Sprintf("the largest number of %s is %v", dt, largest(dt))
}

// shown is v as a number that can be read.
func shown[T Element](v T) any {
	switch x := any(v).(type) {
	case Float16Bits:
		return x.Float32()
	case BFloat16Bits:
		return x.Float32()
	}
	return v
}

func exactly(v float64) float64 { return v }

func truth(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// roundedHalf rounds once: float16.Fromfloat32 of a float32 that was rounded already would round twice.
func roundedHalf(v float64) Float16Bits { return Float16Of(oddFloat32(v)) }

func roundedBrain(v float64) BFloat16Bits { return BFloat16Of(oddFloat32(v)) }

// oddFloat32 rounds to odd: what float32 does not hold is cut off, and its last bit set. To round the result to nearest, in two bits less or fewer, is
// to round v itself.
func oddFloat32(v float64) float32 {
	f := float32(v)
	if float64(f) == v || v != v || infinite(v) {
		return f
	}
	b := math.Float32bits(f)
	if math.Abs(float64(f)) > math.Abs(v) {
		b--
	}
	return math.Float32frombits(b | 1)
}

// oddFloat64 is oddFloat32 for integers.
func oddFloat64(n int64) float64 {
	f := float64(n)
	b := math.Float64bits(f)
	switch {
	case f == 1<<63: // beyond all of int64
		b--
	case int64(f) == n:
		return f
	case n > 0 && int64(f) > n || n < 0 && int64(f) < n:
		b--
	}
	return math.Float64frombits(b | 1)
}
