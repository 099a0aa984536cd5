package cpu

import "github.com/cistern-ml/cistern/kernels/op"

// Logic of bools, which are 0 or 1.

func and(dst, a, b []uint8, _ *op.Call)   { logical(&andBits, dst, a, b) }
func or(dst, a, b []uint8, _ *op.Call)    { logical(&orBits, dst, a, b) }
func xor(dst, a, b []uint8, _ *op.Call)   { logical(&xorBits, dst, a, b) }
func alike(dst, a, b []uint8, _ *op.Call) { logical(&eqBool, dst, a, b) }
func negated(dst, a []uint8, _ *op.Call)  { logical(&notBool, dst, a, a) }

func logical(m *bitLogic, dst, a, b []uint8) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := logicOf(m, dst, a, b); i < len(dst); i++ {
		dst[i] = a[i]&b[i]&uint8(m[0]) ^ a[i]&uint8(m[1]) ^ b[i]&uint8(m[2]) ^ uint8(m[3])
	}
}
