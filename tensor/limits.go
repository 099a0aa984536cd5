package tensor

import "math"

// largest is the largest finite number of a floating-point type.
func largest(dt DType) float64 {
	switch dt {
	case Float16:
		return 65504
	case BFloat16:
		return 0x1.fep127
	case Float32:
		return math.MaxFloat32
	}
	return math.MaxFloat64
}

// lastBelow is the last number of a floating-point type, counted from lo, that is less than hi; lo if there is none. Both are rounded to the type.
func lastBelow(dt DType, lo, hi float64) float64 {
	var from, below float64
	switch dt {
	case Float16:
		from, below = float64(Float16Of(float32(lo)).Float32()), float64(previous(Float16Of(float32(hi))).Float32())
	case BFloat16:
		from, below = float64(BFloat16Of(float32(lo)).Float32()), float64(previous(BFloat16Of(float32(hi))).Float32())
	case Float32:
		from, below = float64(float32(lo)), float64(math.Nextafter32(float32(hi), float32(math.Inf(-1))))
	default:
		from, below = lo, math.Nextafter(hi, math.Inf(-1))
	}
	return max(from, below)
}

// halfOf is v rounded to a type of half precision; of other types it is v.
func halfOf(dt DType, v float64) float64 {
	switch dt {
	case Float16:
		return float64(Float16Of(float32(v)).Float32())
	case BFloat16:
		return float64(BFloat16Of(float32(v)).Float32())
	}
	return v
}

// previous is the largest number of half precision that is less than b, which is finite.
func previous[T Float16Bits | BFloat16Bits](b T) T {
	const sign = 0x8000
	switch {
	case b == 0 || b == sign:
		return sign | 1
	case b < sign:
		return b - 1
	}
	return b + 1
}
