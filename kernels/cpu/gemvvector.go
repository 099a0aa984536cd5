//go:build amd64 || arm64

package cpu

// Products of few rows by loops in assembly, which leave the last elements to those in Go.

// axpy4Vector is axpy4 by a loop that takes multiples of width elements.
func axpy4Vector[T float](loop func(n int, y, a, x0, x1, x2, x3 *T), width int) func(y, a, x0, x1, x2, x3 []T) {
	return func(y, a, x0, x1, x2, x3 []T) {
		n := len(y) / width * width
		if n > 0 {
			loop(n, &y[0], &a[0], &x0[0], &x1[0], &x2[0], &x3[0])
		}
		if n < len(y) {
			axpy4(y[n:], a, x0[n:], x1[n:], x2[n:], x3[n:])
		}
	}
}

// axpyPairVector is axpy4 for y0 and for y1, by a loop that takes multiples of 8 elements.
func axpyPairVector(loop func(n int, y0, y1, a0, a1, x0, x1, x2, x3 *float32)) func(y0, y1, a0, a1, x0, x1, x2, x3 []float32) {
	return func(y0, y1, a0, a1, x0, x1, x2, x3 []float32) {
		n := len(y0) &^ 7
		if n > 0 {
			loop(n, &y0[0], &y1[0], &a0[0], &a1[0], &x0[0], &x1[0], &x2[0], &x3[0])
		}
		if n < len(y0) {
			axpy4(y0[n:], a0, x0[n:], x1[n:], x2[n:], x3[n:])
			axpy4(y1[n:], a1, x0[n:], x1[n:], x2[n:], x3[n:])
		}
	}
}

// dotsVector is dots by loops for one row, which takes multiples of 2*width elements, and for four rows, which takes
// multiples of width.
func dotsVector[T float](one func(n int, a, b *T) T, four func(n int, a *T, ld int, b *T, sums *[gemvGroup]T), width int,
) func(sums *[gemvGroup]T, count int, a []T, ld int, b []T) {
	return func(sums *[gemvGroup]T, count int, a []T, ld int, b []T) {
		n := len(b) / (2 * width) * 2 * width
		if count == gemvGroup && len(b) >= width {
			n = len(b) / width * width
			four(n, &a[0], ld, &b[0], sums)
		} else {
			for r := range count {
				sums[r] = 0
				if n > 0 {
					sums[r] = one(n, &a[r*ld], &b[0])
				}
			}
		}
		for r := 0; r < count && n < len(b); r++ {
			sums[r] += dot(a[r*ld:][n:len(b)], b[n:])
		}
	}
}
