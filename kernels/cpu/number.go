package cpu

import "math"

// float, integer and number are the types that kernels compute with. Half precision is computed as float32, Bool as uint8.
type float interface{ float32 | float64 }

type integer interface{ int64 | int32 | uint8 }

type number interface{ float | integer }

// scalar is the scalar i of a call as T: F[i] for floats, I[i] for integers.
func scalar[T number](f float64, i int64) T {
	if isFloat[T]() {
		return T(f)
	}
	return T(i)
}

// saturated is scalar for bounds: an integer outside the range of T becomes the nearest one inside.
func saturated[T number](f float64, i int64) T {
	if v := scalar[T](f, i); isFloat[T]() || int64(v) == i {
		return v
	}
	var least, most T
	switch any(most).(type) {
	case int32:
		lo, hi := math.MinInt32, math.MaxInt32
		least, most = T(lo), T(hi)
	case uint8:
		hi := math.MaxUint8
		most = T(hi)
	}
	if i < 0 {
		return least
	}
	return most
}

// truth is 1 for true and 0 for false, the elements of Bool.
func truth(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// isFloat reports whether T is a floating-point type.
func isFloat[T number]() bool {
	half := 0.5
	return T(half) != 0
}
