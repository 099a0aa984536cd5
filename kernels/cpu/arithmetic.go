package cpu

import "github.com/cistern-ml/cistern/kernels/op"

// Add, whose scalar is 1 nearly always, and Where.

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

// word is bits that are moved.
type word interface {
	uint8 | uint16 | uint32 | uint64
}

// choose makes the Where of elements that have the size of T.
func choose[T word]() op.Func {
	l := wordAccessor[T]()
	return elementwise(l, wordAccessor[uint8](), l, l, where[T])
}

func where[T word](dst []T, a []uint8, b, c []T, _ *op.Call) {
	if n := len(dst) &^ 31; n > 0 {
		var e T
		if f := vector.choose[sizeClass(sizeOf(e))]; f != nil {
			f(n, &bytesOf(dst)[0], &a[0], &bytesOf(b)[0], &bytesOf(c)[0])
			dst, a, b, c = dst[n:], a[n:], b[n:], c[n:]
		}
	}
	a, b, c = a[:len(dst)], b[:len(dst)], c[:len(dst)]
	for i := range dst {
		dst[i] = c[i] ^ (b[i]^c[i])&-T(truth(a[i] != 0)) // no branch: which way it goes cannot be predicted
	}
}
