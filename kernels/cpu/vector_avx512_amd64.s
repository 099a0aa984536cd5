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

// func logicAVX512(n int, dst, a, b *byte, m *[4]uint64)
// Two vectors at a time, then halves of one: n is a multiple of 32.
TEXT ·logicAVX512(SB), NOSPLIT, $0-40
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ a+16(FP), SI
	MOVQ b+24(FP), DX
	MOVQ m+32(FP), R8
	VPBROADCASTQ (R8), Z4
	VPBROADCASTQ 8(R8), Z5
	VPBROADCASTQ 16(R8), Z6
	VPBROADCASTQ 24(R8), Z7
	XORQ BX, BX
	SUBQ $128, CX
	JLT  one

two:
	VMOVDQU64 (SI)(BX*1), Z0
	VMOVDQU64 64(SI)(BX*1), Z8
	VMOVDQU64 (DX)(BX*1), Z1
	VMOVDQU64 64(DX)(BX*1), Z9
	VMOVDQA64 Z4, Z2
	VMOVDQA64 Z4, Z10
	VPTERNLOGQ $0x80, Z1, Z0, Z2    // both
	VPTERNLOGQ $0x80, Z9, Z8, Z10
	VPANDQ Z5, Z0, Z0
	VPANDQ Z5, Z8, Z8
	VPANDQ Z6, Z1, Z1
	VPANDQ Z6, Z9, Z9
	VPTERNLOGQ $0x96, Z1, Z0, Z2    // exclusive or of three
	VPTERNLOGQ $0x96, Z9, Z8, Z10
	VPXORQ Z7, Z2, Z2
	VPXORQ Z7, Z10, Z10
	VMOVDQU64 Z2, (DI)(BX*1)
	VMOVDQU64 Z10, 64(DI)(BX*1)
	ADDQ $128, BX
	CMPQ BX, CX
	JLE  two

one:
	ADDQ $128, CX
	JMP  next

half:
	VMOVDQU (SI)(BX*1), Y0
	VMOVDQU (DX)(BX*1), Y1
	VMOVDQA Y4, Y2
	VPTERNLOGQ $0x80, Y1, Y0, Y2
	VPAND Y5, Y0, Y0
	VPAND Y6, Y1, Y1
	VPTERNLOGQ $0x96, Y1, Y0, Y2
	VPXOR Y7, Y2, Y2
	VMOVDQU Y2, (DI)(BX*1)
	ADDQ $32, BX

next:
	CMPQ BX, CX
	JLT  half
	VZEROUPPER
	RET

// func mergeProdsAVX512(fours, n int, acc *float64, rows *float32, ld int)
// Products in float64 times four rows, one after the other, fours times; n is a multiple of 8. 32 columns at a time, then 8.
TEXT ·mergeProdsAVX512(SB), NOSPLIT, $0-40
	MOVQ fours+0(FP), AX
	MOVQ n+8(FP), CX
	MOVQ acc+16(FP), DI
	MOVQ rows+24(FP), SI
	MOVQ ld+32(FP), DX
	LEAQ (DX)(DX*2), R8
	SUBQ $32, CX
	JLT  rest

wide:
	VMOVUPD (DI), Z0
	VMOVUPD 64(DI), Z1
	VMOVUPD 128(DI), Z2
	VMOVUPD 192(DI), Z3
	MOVQ SI, R9
	MOVQ AX, BX

wideRows:
	VCVTPS2PD (R9), Z4
	VCVTPS2PD 32(R9), Z5
	VCVTPS2PD 64(R9), Z6
	VCVTPS2PD 96(R9), Z7
	VMULPD Z4, Z0, Z0
	VMULPD Z5, Z1, Z1
	VMULPD Z6, Z2, Z2
	VMULPD Z7, Z3, Z3
	VCVTPS2PD (R9)(DX*1), Z4
	VCVTPS2PD 32(R9)(DX*1), Z5
	VCVTPS2PD 64(R9)(DX*1), Z6
	VCVTPS2PD 96(R9)(DX*1), Z7
	VMULPD Z4, Z0, Z0
	VMULPD Z5, Z1, Z1
	VMULPD Z6, Z2, Z2
	VMULPD Z7, Z3, Z3
	VCVTPS2PD (R9)(DX*2), Z4
	VCVTPS2PD 32(R9)(DX*2), Z5
	VCVTPS2PD 64(R9)(DX*2), Z6
	VCVTPS2PD 96(R9)(DX*2), Z7
	VMULPD Z4, Z0, Z0
	VMULPD Z5, Z1, Z1
	VMULPD Z6, Z2, Z2
	VMULPD Z7, Z3, Z3
	VCVTPS2PD (R9)(R8*1), Z4
	VCVTPS2PD 32(R9)(R8*1), Z5
	VCVTPS2PD 64(R9)(R8*1), Z6
	VCVTPS2PD 96(R9)(R8*1), Z7
	VMULPD Z4, Z0, Z0
	VMULPD Z5, Z1, Z1
	VMULPD Z6, Z2, Z2
	VMULPD Z7, Z3, Z3
	LEAQ (R9)(DX*4), R9
	DECQ BX
	JNZ  wideRows
	VMOVUPD Z0, (DI)
	VMOVUPD Z1, 64(DI)
	VMOVUPD Z2, 128(DI)
	VMOVUPD Z3, 192(DI)
	ADDQ $256, DI
	ADDQ $128, SI
	SUBQ $32, CX
	JGE  wide

rest:
	ADDQ $32, CX
	JZ   done

eight:
	VMOVUPD (DI), Z0
	MOVQ SI, R9
	MOVQ AX, BX

eightRows:
	VCVTPS2PD (R9), Z4
	VMULPD Z4, Z0, Z0
	VCVTPS2PD (R9)(DX*1), Z4
	VMULPD Z4, Z0, Z0
	VCVTPS2PD (R9)(DX*2), Z4
	VMULPD Z4, Z0, Z0
	VCVTPS2PD (R9)(R8*1), Z4
	VMULPD Z4, Z0, Z0
	LEAQ (R9)(DX*4), R9
	DECQ BX
	JNZ  eightRows
	VMOVUPD Z0, (DI)
	ADDQ $64, DI
	ADDQ $32, SI
	SUBQ $8, CX
	JNZ  eight

done:
	VZEROUPPER
	RET

// func int64ToFloat32AVX512(n int, dst, src *byte)
// n is a multiple of 8.
TEXT ·int64ToFloat32AVX512(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ src+16(FP), SI
	XORQ BX, BX

loop:
	VCVTQQ2PS (SI)(BX*8), Y0
	VMOVUPS Y0, (DI)(BX*4)
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func int64ToFloat64AVX512(n int, dst, src *byte)
// n is a multiple of 8.
TEXT ·int64ToFloat64AVX512(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ src+16(FP), SI
	XORQ BX, BX

loop:
	VCVTQQ2PD (SI)(BX*8), Z0
	VMOVUPD Z0, (DI)(BX*8)
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET
