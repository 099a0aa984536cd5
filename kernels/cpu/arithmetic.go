package cpu

import "github.com/cistern-ml/cistern/kernels/op"

// Kernels of two inputs. In each, the loop is the specification; slices have equal lengths.

func add[T number](dst, a, b []T, c *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	alpha := scalar[T](c.F[0], c.I[0])
	if alpha == 1 {
		for i := range dst {
			dst[i] = a[i] + b[i]
		}
		return
	}
	for i := range dst {
		dst[i] = a[i] + T(alpha*b[i]) // the conversion keeps the two roundings apart on every processor
	}
}

func sub[T number](dst, a, b []T, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

func mul[T number](dst, a, b []T, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

func div[T float](dst, a, b []T, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] / b[i]
	}
}

func maximum[T number](dst, a, b []T, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = max(a[i], b[i]) // of floats: NaN if either is NaN
	}
}

func minimum[T number](dst, a, b []T, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = min(a[i], b[i])
	}
}

func and(dst, a, b []uint8, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] & b[i]
	}
}

func or(dst, a, b []uint8, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] | b[i]
	}
}

func eq[T number](dst []uint8, a, b []T, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = truth(a[i] == b[i])
	}
}

func ne[T number](dst []uint8, a, b []T, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = truth(a[i] != b[i])
	}
}

func lt[T number](dst []uint8, a, b []T, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = truth(a[i] < b[i])
	}
}

func le[T number](dst []uint8, a, b []T, _ *op.Call) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = truth(a[i] <= b[i])
	}
}

func gt[T number](dst []uint8, a, b []T, c *op.Call) { lt(dst, b, a, c) }

func ge[T number](dst []uint8, a, b []T, c *op.Call) { le(dst, b, a, c) }

// choose makes the Where of elements that have the size of T.
func choose[T any]() op.Func {
	l := wordAccessor[T]()
	return elementwise(l, wordAccessor[uint8](), l, l, where[T])
}

func where[T any](dst []T, a []uint8, b, c []T, _ *op.Call) {
	a, b, c = a[:len(dst)], b[:len(dst)], c[:len(dst)]
	for i := range dst {
		if a[i] != 0 {
			dst[i] = b[i]
		} else {
			dst[i] = c[i]
		}
	}
}
