package cpu

import "github.com/cistern-ml/cistern/kernels/op"

// Quotients and remainders of int64. A processor divides these one by one, and float64 by vectors: numbers within 2^50 are float64, too, and a quotient of two of
// them is too far from a whole number, unless it is one, to be rounded to it. What is left of it is then exact as well.

// division is what is computed of a quotient. It is 0 where the second number is 0.
type division int

const (
	divisionFmod      division = iota // what is left of it, rounded towards 0
	divisionRemainder                 // what is left of it, rounded down
	divisionFloor                     // itself, rounded down
	divisionCount
)

// divided puts vectors before the kernel of a division, for each thousand elements that all are small.
func divided(d division, rest kernel2[int64, int64, int64]) kernel2[int64, int64, int64] {
	return func(dst, a, b []int64, c *op.Call) {
		for len(dst) > 0 {
			n := min(len(dst), chunk)
			if whole := divideSmall(d, dst[:n], a, b); whole < n {
				rest(dst[whole:n], a[whole:n], b[whole:n], c)
			}
			dst, a, b = dst[n:], a[n:], b[n:]
		}
	}
}

// divideSmall computes as many of the first elements as vectors take, and says how many: none if one of them is not within 2^50.
func divideSmall(d division, dst, a, b []int64) int {
	f, n := vector.divisions[d], len(dst)&^7
	if f == nil || n == 0 {
		return 0
	}
	first, second := &bytesOf(a)[0], &bytesOf(b)[0]
	if vector.small(n, first)&vector.small(n, second) == 0 {
		return 0
	}
	f(n, &bytesOf(dst)[0], first, second)
	return n
}
