package cpu

import (
	"github.com/chewxy/math32"
	"github.com/x448/float16"
)

// Float16 and BFloat16 are stored as uint16 and computed in float32. The functions here convert slices: as much as possible
// with the processor's vector instructions, the rest in Go, with the same results.

// fromHalf converts Float16 to float32, which is exact.
func fromHalf(dst []float32, src []uint16) {
	n := fromHalfVector(dst, src)
	fromHalfGo(dst[n:], src[n:])
}

func fromHalfGo(dst []float32, src []uint16) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = float16.Frombits(src[i]).Float32()
	}
}

// toHalf rounds float32 to Float16, to nearest even; what is too large becomes infinite, NaN stays NaN.
func toHalf(dst []uint16, src []float32) {
	n := toHalfVector(dst, src)
	toHalfGo(dst[n:], src[n:])
}

func toHalfGo(dst []uint16, src []float32) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = float16.Fromfloat32(src[i]).Bits()
	}
}

// fromBrain converts BFloat16 to float32, which is exact: a BFloat16 is the upper half of a float32.
func fromBrain(dst []float32, src []uint16) {
	n := fromBrainVector(dst, src)
	fromBrainGo(dst[n:], src[n:])
}

func fromBrainGo(dst []float32, src []uint16) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = math32.Float32frombits(uint32(src[i]) << 16)
	}
}

// toBrain rounds float32 to BFloat16, to nearest even; what is too large becomes infinite, NaN stays NaN.
func toBrain(dst []uint16, src []float32) {
	n := toBrainVector(dst, src)
	toBrainGo(dst[n:], src[n:])
}

func toBrainGo(dst []uint16, src []float32) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = brainBits(src[i])
	}
}

func brainBits(f float32) uint16 {
	b := math32.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40 // quiet: a payload in the lower half alone would turn into infinity
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
