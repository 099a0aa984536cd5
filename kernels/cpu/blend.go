package cpu

import "math"

// Remainders, and an average.

// mod is the remainder of a/b with the sign of a, exact. That of two float32 is what is left in float64 of quotients that are not large: at least 2^-50 of
// itself lies between such a quotient and the next whole number, so that the division does not round to it, and multiples of b have at most 50 bits.
func mod[T float](a, b T) float64 {
	x, y := float64(a), float64(b)
	if T(1<<24)+1 == T(1<<24) { // float32
		if q := math.Trunc(x / y); q < 1<<26 && q > -1<<26 && y-y == 0 { // neither NaN nor infinite
			return math.Copysign(x-float64(q*y), x)
		}
	}
	return math.Mod(x, y)
}

func remainderOf[T float](a, b T) T {
	r := T(mod(a, b))
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r
}

func intRemainder[T integer](a, b T) T {
	r := intMod(a, b)
	return r + b&-T(truth(r != 0)&truth(r^b < 0)) // no branch: which way it goes cannot be predicted
}

// intMod is a % b, and 0 where b is 0.
func intMod[T integer](a, b T) T {
	if b == 0 {
		return 0
	}
	return a % b
}

// floorDivideOf is the quotient rounded down, from the remainder, which is exact: a/b itself may be rounded up to an integer.
func floorDivideOf[T float](a, b T) T {
	if b == 0 {
		return a / b
	}
	r, x, y := mod(a, b), float64(a), float64(b)
	q := (x - r) / y
	if r != 0 && (r < 0) != (y < 0) {
		q--
	}
	down := math.Floor(q)
	switch {
	case q == 0:
		return T(math.Copysign(0, x/y))
	case q-down > 0.5:
		return T(down + 1)
	}
	return T(down)
}

// intFloorDivide is 0 where b is 0.
func intFloorDivide[T integer](a, b T) T {
	if b == 0 {
		return 0
	}
	q := a / b
	r := a - q*b
	return q - T(truth(r != 0)&truth(r^b < 0))
}

// between comes from the nearer end, so that it reaches both exactly. The conversions keep roundings apart.
func between[T float](a, b, weight T) T {
	d := b - a
	if weight < 0.5 && weight > -0.5 {
		return a + T(weight*d)
	}
	return b - T(d*(1-weight))
}
