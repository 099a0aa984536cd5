//go:build !arm64 && !riscv64

package cpu

import "math"

// fma32 is a*b + c, rounded once. The sum in float64 is rounded to 53 bits and then to 24, which is the same but where the first rounding ends
// in the middle between two float32: there it must not hide on which side of the middle the sum lies.
func fma32(a, b, c float32) float32 {
	product, other := float64(a)*float64(b), float64(c) // exactly
	sum := product + other
	bits := math.Float64bits(sum)
	if bits&(1<<29-1) != 1<<28 && math.Abs(sum) >= 0x1p-126 || sum-sum != 0 {
		return float32(sum)
	}
	of := sum - product
	lost := (product - (sum - of)) + (other - of)
	if lost != 0 && bits&1 == 0 { // to odd: the neighbour on the side of what was lost
		if lost > 0 == (sum > 0) {
			bits++
		} else {
			bits--
		}
	}
	return float32(math.Float64frombits(bits))
}
