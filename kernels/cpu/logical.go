package cpu

import (
	words "encoding/binary"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Logic of bools, which are 0 or 1, eight at a time.

func and(dst, a, b []uint8, _ *op.Call) {
	for len(dst) >= 8 {
		words.NativeEndian.PutUint64(dst, words.NativeEndian.Uint64(a)&words.NativeEndian.Uint64(b))
		dst, a, b = dst[8:], a[8:], b[8:]
	}
	for i := range dst {
		dst[i] = a[i] & b[i]
	}
}

func or(dst, a, b []uint8, _ *op.Call) {
	for len(dst) >= 8 {
		words.NativeEndian.PutUint64(dst, words.NativeEndian.Uint64(a)|words.NativeEndian.Uint64(b))
		dst, a, b = dst[8:], a[8:], b[8:]
	}
	for i := range dst {
		dst[i] = a[i] | b[i]
	}
}

func xor(dst, a, b []uint8, _ *op.Call) {
	for len(dst) >= 8 {
		words.NativeEndian.PutUint64(dst, words.NativeEndian.Uint64(a)^words.NativeEndian.Uint64(b))
		dst, a, b = dst[8:], a[8:], b[8:]
	}
	for i := range dst {
		dst[i] = a[i] ^ b[i]
	}
}
