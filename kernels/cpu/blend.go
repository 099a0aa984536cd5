package cpu

import "math"

// Remainders, and an average.

// remainderOf of float32 is computed in float64, where the remainder of the division is the same number.
func remainderOf[T float](a, b T) T {
	r := T(math.Mod(float64(a), float64(b)))
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r
}

func intRemainder[T integer](a, b T) T {
	r := intMod(a, b)
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r
}

// intMod is a % b, and 0 where b is 0.
func intMod[T integer](a, b T) T {
	if b == 0 {
		return 0
	}
	return a % b
}

// floorDivide64 is the quotient rounded down, from the remainder, which is exact: a/b itself may be rounded up to an integer.
func floorDivide64(a, b float64) float64 {
	if b == 0 {
		return a / b
	}
	r := math.Mod(a, b)
	q := (a - r) / b
	if r != 0 && (r < 0) != (b < 0) {
		q--
	}
	down := math.Floor(q)
	switch {
	case q == 0:
		return math.Copysign(0, a/b)
	case q-down > 0.5:
		return down + 1
	}
	return down
}

// intFloorDivide is 0 where b is 0.
func intFloorDivide[T integer](a, b T) T {
	if b == 0 {
		return 0
	}
	q := a / b
	if r := a % b; r != 0 && (r < 0) != (b < 0) {
		q--
	}
	return q
}

// between comes from the nearer end, so that it reaches both exactly. The conversions keep roundings apart.
func between[T float](a, b, weight T) T {
	d := b - a
	if weight < 0.5 && weight > -0.5 {
		return a + T(weight*d)
	}
	return b - T(d*(1-weight))
}
