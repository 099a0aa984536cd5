package reduce

import "math"

// Conversions of whole vectors, as a call for each element would take most of the time.

func loadFloat16(dst []float32, src []uint16) {
	src = src[:len(dst)]
	for i, v := range src {
		dst[i] = float16Value(v)
	}
}

func storeFloat16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = float16Bits(v)
	}
}

func loadBfloat16(dst []float32, src []uint16) {
	src = src[:len(dst)]
	for i, v := range src {
		dst[i] = bfloat16Value(v)
	}
}

func storeBfloat16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = bfloat16Bits(v)
	}
}

// float16Value moves exponent and fraction to their places and lets a product correct the exponent, also of subnormal numbers.
func float16Value(v uint16) float32 {
	const shift = 0x1p112 // 2^(127-15)
	bits := math.Float32bits(math.Float32frombits(uint32(v&0x7fff)<<13) * shift)
	if v&0x7c00 == 0x7c00 {
		bits |= 0x7f800000 // infinity, NaN
	}
	return math.Float32frombits(bits | uint32(v&0x8000)<<16)
}

// float16Bits rounds to the nearest, and of two to the even one.
func float16Bits(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	switch bits &= 0x7fffffff; {
	case bits > 0x7f800000:
		return sign | 0x7e00 // NaN
	case bits >= 0x47800000:
		return sign | 0x7c00 // 2^16 and more
	case bits < 0x38800000: // subnormal: the sum has its last bit where that of the result is
		return sign | uint16(math.Float32bits(math.Float32frombits(bits)+0.5)-0x3f000000)
	}
	return sign | uint16((bits-(127-15)<<23+0xfff+bits>>13&1)>>13)
}

// bfloat16Bits does the same for bfloat16. A NaN stays one, also where its upper bits are 0.
func bfloat16Bits(v float32) uint16 {
	bits := math.Float32bits(v)
	if v != v {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

func bfloat16Value(v uint16) float32 { return math.Float32frombits(uint32(v) << 16) }
