package cpu

import "github.com/cistern-ml/cistern/kernels/op"

// Comparisons of two operands by vectors, of 32 elements at a time, in front of the loops in Go. Those with NaN are false, but for !=.

// comparison is a kind of them; > and >= are < and <= of the operands in the other order.
type comparison int

const (
	isLess comparison = iota
	isLessEqual
	isEqual
	isUnequal
	comparisonCount
)

// comparisons are loops over n elements, a multiple of 32, of the types of wordTypes and of float32, which comes last; nil where there are none.
type comparisons [len(wordTypes) + 1][comparisonCount]func(n int, dst, a, b *byte)

// typeOfWords is the place of a type in such lists.
func typeOfWords[T float | int64 | int32]() int {
	var v T
	switch any(v).(type) {
	case float64:
		return 0
	case int64:
		return 1
	case int32:
		return 2
	}
	return len(wordTypes)
}

// compared puts vectors before the kernel of a comparison. It is not inlined, like two8.
//
//go:noinline
func compared[T float | int64 | int32](id op.ID, rest kernel2[uint8, T, T]) kernel2[uint8, T, T] {
	k, swapped := isEqual, false
	switch id {
	case op.Ne:
		k = isUnequal
	case op.Lt, op.Gt:
		k, swapped = isLess, id == op.Gt
	case op.Le, op.Ge:
		k, swapped = isLessEqual, id == op.Ge
	}
	t := typeOfWords[T]()
	return func(dst []uint8, a, b []T, c *op.Call) {
		f := vector.compare[t][k]
		if n := len(dst) &^ 31; n > 0 && f != nil {
			first, second := &bytesOf(a)[0], &bytesOf(b)[0]
			if swapped {
				first, second = second, first
			}
			f(n, &dst[0], first, second)
			dst, a, b = dst[n:], a[n:], b[n:]
		}
		rest(dst, a, b, c)
	}
}

// ofItself compares each number with itself: only NaN is not equal.
func ofItself[T float](f kernel2[uint8, T, T]) kernel1[uint8, T] {
	return func(dst []uint8, a []T, c *op.Call) { f(dst, a, a, c) }
}
