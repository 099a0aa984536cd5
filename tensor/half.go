package tensor

import (
	"math"

	"github.com/x448/float16"
)

// Float16Bits is a float16 on the host: its IEEE 754 binary16 pattern.
type Float16Bits uint16

// Float16Of rounds to nearest even. What is too large becomes infinite, NaN stays NaN.
func Float16Of(f float32) Float16Bits { return Float16Bits(float16.Fromfloat32(f).Bits()) }

// Float32 is the value, exactly.
func (b Float16Bits) Float32() float32 { return float16.Frombits(uint16(b)).Float32() }

// BFloat16Bits is a bfloat16 on the host: the upper half of a float32's pattern.
type BFloat16Bits uint16

// BFloat16Of rounds to nearest even. What is too large becomes infinite, NaN stays NaN.
func BFloat16Of(f float32) BFloat16Bits {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return BFloat16Bits(b>>16 | 0x40) // a quiet NaN, even if its payload was in the lower half
	}
	return BFloat16Bits((b + 0x7fff + b>>16&1) >> 16)
}

// Float32 is the value, exactly.
func (b BFloat16Bits) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }
