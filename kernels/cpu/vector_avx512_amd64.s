#include "textflag.h"

// Reductions of rows by vectors of 64 bytes. The parts of a result, and the order in which they are joined, are those of the loops for AVX2.

// func dotWideAVX512(n int, a, b *float32) float64
// n is a multiple of 8. Registers: Z0 eight sums. Products of two float32 are exact in float64, so that they need not be fused into the sums, which
// would wait longer for each other.
TEXT ·dotWideAVX512(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	XORQ BX, BX
	VXORPD X0, X0, X0
	SUBQ $16, CX
	JLT  rest

loop:
	VCVTPS2PD (SI)(BX*4), Z1
	VCVTPS2PD (DX)(BX*4), Z2
	VCVTPS2PD 32(SI)(BX*4), Z3
	VCVTPS2PD 32(DX)(BX*4), Z4
	VMULPD Z2, Z1, Z1
	VMULPD Z4, Z3, Z3
	VADDPD Z1, Z0, Z0
	VADDPD Z3, Z0, Z0
	ADDQ $16, BX
	CMPQ BX, CX
	JLE  loop

rest:
	ADDQ $16, CX
	CMPQ BX, CX
	JGE  join
	VCVTPS2PD (SI)(BX*4), Z1
	VCVTPS2PD (DX)(BX*4), Z2
	VMULPD Z2, Z1, Z1
	VADDPD Z1, Z0, Z0

join:
	VEXTRACTF64X4 $1, Z0, Y1
	VADDPD Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPD X1, X0, X0
	VPERMILPD $1, X0, X1
	VADDSD X1, X0, X0
	VMOVSD X0, ret+24(FP)
	VZEROUPPER
	RET

// func prodAVX512(n int, v *float32) float64
// n is a multiple of 16, at least 16. Registers: Z0 and Z1 sixteen products.
TEXT ·prodAVX512(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ v+8(FP), SI
	VCVTPS2PD (SI), Z0
	VCVTPS2PD 32(SI), Z1
	ADDQ $64, SI
	SUBQ $48, CX
	JLT  rest

loop:
	VCVTPS2PD (SI), Z4
	VCVTPS2PD 32(SI), Z5
	VCVTPS2PD 64(SI), Z6
	VCVTPS2PD 96(SI), Z7
	VMULPD Z6, Z4, Z4
	VMULPD Z7, Z5, Z5
	VMULPD Z4, Z0, Z0
	VMULPD Z5, Z1, Z1
	SUBQ $-128, SI
	SUBQ $32, CX
	JGE  loop

rest:
	ADDQ $32, CX
	JLE  join
	VCVTPS2PD (SI), Z4
	VCVTPS2PD 32(SI), Z5
	VMULPD Z4, Z0, Z0
	VMULPD Z5, Z1, Z1

join:
	VMULPD Z1, Z0, Z0
	VEXTRACTF64X4 $1, Z0, Y1
	VMULPD Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VMULPD X1, X0, X0
	VPERMILPD $1, X0, X1
	VMULSD X1, X0, X0
	VMOVSD X0, ret+16(FP)
	VZEROUPPER
	RET
