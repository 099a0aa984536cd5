package kerneltest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
)

// value is one element: f for float types, i for integer types and Bool.
type value struct {
	f float64
	i int64
}

func floatValue(f float64) value { return value{f: f} }
func intValue(i int64) value     { return value{i: i} }

// format describes a binary floating-point type: explicit bits of the mantissa, and the exponents of the least and the
// largest normal number.
type format struct{ mantissa, least, most int }

var formats = [dtype.Count]format{
	dtype.Float64:  {52, -1022, 1023},
	dtype.Float32:  {23, -126, 127},
	dtype.Float16:  {10, -14, 15},
	dtype.BFloat16: {7, -126, 127},
}

// ulp is the distance of neighbouring numbers of type d around v.
func ulp(d dtype.DType, v float64) float64 {
	f := formats[d]
	exponent := f.least
	if v != 0 && !math.IsInf(v, 0) {
		exponent = min(max(math.Ilogb(v), f.least), f.most)
	}
	return power(exponent - f.mantissa)
}

// power is 2 to the power e.
func power(e int) float64 {
	if e < -1022 {
		return math.Ldexp(1, e)
	}
	return math.Float64frombits(uint64(e+1023) << 52)
}

// round gives the number of type d that is nearest to v, to even in a tie, infinite if v is too large.
func round(d dtype.DType, v float64) float64 {
	if d == dtype.Float64 || v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	f := formats[d]
	u := ulp(d, v)
	r := math.RoundToEven(v/u) * u // both exact: u is a power of two
	if math.Abs(r) >= power(f.most+1) {
		return math.Inf(int(math.Copysign(1, v)))
	}
	return r
}

// encode appends the element as it lies in memory. Floats must be numbers of the type already; integers wrap.
func encode(b []byte, d dtype.DType, v value) []byte {
	switch d {
	case dtype.Float64:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v.f))
	case dtype.Float32:
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v.f)))
	case dtype.Float16, dtype.BFloat16:
		return binary.LittleEndian.AppendUint16(b, encodeHalf(formats[d], v.f))
	case dtype.Int64:
		return binary.LittleEndian.AppendUint64(b, uint64(v.i))
	case dtype.Int32:
		return binary.LittleEndian.AppendUint32(b, uint32(v.i))
	case dtype.Uint8, dtype.Bool:
		return append(b, byte(v.i))
	}
	panic(fmt.Sprintf("kerneltest: no encoding of %s", d))
}

// decode is the element at the start of b.
func decode(b []byte, d dtype.DType) value {
	switch d {
	case dtype.Float64:
		return floatValue(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case dtype.Float32:
		return floatValue(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	case dtype.Float16, dtype.BFloat16:
		return floatValue(decodeHalf(formats[d], binary.LittleEndian.Uint16(b)))
	case dtype.Int64:
		return intValue(int64(binary.LittleEndian.Uint64(b)))
	case dtype.Int32:
		return intValue(int64(int32(binary.LittleEndian.Uint32(b))))
	case dtype.Uint8, dtype.Bool:
		return intValue(int64(b[0]))
	}
	panic(fmt.Sprintf("kerneltest: no encoding of %s", d))
}

// encodeHalf writes a number of a 16-bit format: sign, biased exponent, mantissa.
func encodeHalf(f format, v float64) uint16 {
	var sign uint16
	if math.Signbit(v) {
		sign = 0x8000
	}
	top := uint16(f.most+1-f.least+1) << f.mantissa // the exponent of infinity and NaN
	switch {
	case math.IsNaN(v):
		return sign | top | 1<<(f.mantissa-1)
	case math.IsInf(v, 0):
		return sign | top
	}
	v = math.Abs(v)
	if v < math.Ldexp(1, f.least) {
		return sign | uint16(math.Ldexp(v, f.mantissa-f.least))
	}
	e := math.Ilogb(v)
	return sign | uint16(e-f.least+1)<<f.mantissa | uint16(math.Ldexp(v, f.mantissa-e))&(1<<f.mantissa-1)
}

func decodeHalf(f format, b uint16) float64 {
	sign := 1.0
	if b&0x8000 != 0 {
		sign = -1
	}
	mantissa := float64(b & (1<<f.mantissa - 1))
	exponent := int(b&0x7fff) >> f.mantissa
	switch {
	case exponent == f.most+1-f.least+1 && mantissa == 0:
		return math.Inf(int(sign))
	case exponent == f.most+1-f.least+1:
		return math.NaN()
	case exponent == 0:
		return math.Copysign(math.Ldexp(mantissa, f.least-f.mantissa), sign)
	}
	return sign * math.Ldexp(mantissa+math.Ldexp(1, f.mantissa), exponent+f.least-1-f.mantissa)
}

// wrap is i as an element of an integer type or Bool.
func wrap(d dtype.DType, i int64) int64 {
	switch d {
	case dtype.Int32:
		return int64(int32(i))
	case dtype.Uint8:
		return int64(uint8(i))
	}
	return i
}

// largest is the largest finite number of a float type.
func largest(d dtype.DType) float64 {
	f := formats[d]
	return math.Ldexp(2-math.Ldexp(1, -f.mantissa), f.most)
}
