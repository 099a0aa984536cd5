#include "textflag.h"

// Loops of layer norm's gradients by vectors of 64 bytes, with the operations of those for AVX2 in the same order.

// func normDotsAVX512(n int, grad, w, x *float32, c *normRow, sums *[2]float64)
// Registers: Z0 eight sums in float64, Z2 eight sums of products, Z14 the mean, Z15 rstd.
TEXT ·normDotsAVX512(SB), NOSPLIT, $0-48
	MOVQ n+0(FP), CX
	MOVQ grad+8(FP), DI
	MOVQ w+16(FP), DX
	MOVQ x+24(FP), SI
	MOVQ c+32(FP), AX
	MOVQ sums+40(FP), R8
	VBROADCASTSS (AX), Z14
	VBROADCASTSS 4(AX), Z15
	VXORPD X0, X0, X0
	VXORPD X2, X2, X2
	XORQ BX, BX

	SUBQ $32, CX
	JLT  rest

loop:
	VMOVUPS (DI)(BX*4), Z4
	VMOVUPS (SI)(BX*4), Z5
	VMOVUPS 64(DI)(BX*4), Z8
	VMOVUPS 64(SI)(BX*4), Z9
	VMULPS (DX)(BX*4), Z4, Z4
	VMULPS 64(DX)(BX*4), Z8, Z8
	VSUBPS Z14, Z5, Z5
	VSUBPS Z14, Z9, Z9
	VMULPS Z15, Z5, Z5
	VMULPS Z15, Z9, Z9
	VMULPS Z4, Z5, Z5
	VMULPS Z8, Z9, Z9

	// Of four eights the first two, the last two, and both sums.
	VEXTRACTF64X4 $1, Z4, Y6
	VEXTRACTF64X4 $1, Z5, Y7
	VEXTRACTF64X4 $1, Z8, Y10
	VEXTRACTF64X4 $1, Z9, Y11
	VADDPS Y6, Y4, Y4
	VADDPS Y7, Y5, Y5
	VADDPS Y10, Y8, Y8
	VADDPS Y11, Y9, Y9
	VADDPS Y8, Y4, Y4
	VADDPS Y9, Y5, Y5
	VCVTPS2PD Y4, Z4
	VCVTPS2PD Y5, Z5
	VADDPD Z4, Z0, Z0
	VADDPD Z5, Z2, Z2
	ADDQ $32, BX
	CMPQ BX, CX
	JLE  loop

rest:
	ADDQ $32, CX
	CMPQ BX, CX
	JGE  join

eight:
	VMOVUPS (DI)(BX*4), Y4
	VMOVUPS (SI)(BX*4), Y5
	VMULPS (DX)(BX*4), Y4, Y4
	VSUBPS Y14, Y5, Y5
	VMULPS Y15, Y5, Y5
	VMULPS Y4, Y5, Y5
	VCVTPS2PD Y4, Z4
	VCVTPS2PD Y5, Z5
	VADDPD Z4, Z0, Z0
	VADDPD Z5, Z2, Z2
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  eight

join:
	VEXTRACTF64X4 $1, Z0, Y1
	VEXTRACTF64X4 $1, Z2, Y3
	VADDPD Y1, Y0, Y0
	VADDPD Y3, Y2, Y2
	VEXTRACTF128 $1, Y0, X1
	VEXTRACTF128 $1, Y2, X3
	VADDPD X1, X0, X0
	VADDPD X3, X2, X2
	VHADDPD X2, X0, X0
	VMOVUPD X0, (R8)
	VZEROUPPER
	RET

// func normGradsAVX512(n int, dst, grad, w, x *float32, c *normRow)
// Registers: Z12 the shift, Z13 the slope, Z14 the mean, Z15 rstd.
TEXT ·normGradsAVX512(SB), NOSPLIT, $0-48
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), R8
	MOVQ grad+16(FP), DI
	MOVQ w+24(FP), DX
	MOVQ x+32(FP), SI
	MOVQ c+40(FP), AX
	VBROADCASTSS (AX), Z14
	VBROADCASTSS 4(AX), Z15
	VBROADCASTSS 8(AX), Z13
	VBROADCASTSS 12(AX), Z12
	XORQ BX, BX
	SUBQ $16, CX
	JLT  rest

loop:
	VMOVUPS (DI)(BX*4), Z0
	VMOVUPS (SI)(BX*4), Z1
	VMULPS (DX)(BX*4), Z0, Z0
	VSUBPS Z14, Z1, Z1
	VMULPS Z15, Z0, Z0
	VMULPS Z15, Z1, Z1
	VMULPS Z13, Z1, Z1
	VADDPS Z1, Z0, Z0
	VADDPS Z12, Z0, Z0
	VMOVUPS Z0, (R8)(BX*4)
	ADDQ $16, BX
	CMPQ BX, CX
	JLE  loop

rest:
	ADDQ $16, CX
	CMPQ BX, CX
	JGE  done
	VMOVUPS (DI)(BX*4), Y0
	VMOVUPS (SI)(BX*4), Y1
	VMULPS (DX)(BX*4), Y0, Y0
	VSUBPS Y14, Y1, Y1
	VMULPS Y15, Y0, Y0
	VMULPS Y15, Y1, Y1
	VMULPS Y13, Y1, Y1
	VADDPS Y1, Y0, Y0
	VADDPS Y12, Y0, Y0
	VMOVUPS Y0, (R8)(BX*4)

done:
	VZEROUPPER
	RET

// func normSumsAVX512(rows, n int, grad, x *float32, ld int, mean, rstd *float32, products, sums *float64)
// n is a multiple of 16; rows of g and x are ld bytes apart. Registers: Z0 and Z1 sixteen products, Z4 and Z5 sixteen sums, Z8 and Z10 those of a
// group of four rows; R11 and R12 go down the columns of g and x, R13 counts rows, BX ends the group.
TEXT ·normSumsAVX512(SB), NOSPLIT, $0-72
	MOVQ n+8(FP), CX
	MOVQ grad+16(FP), DI
	MOVQ x+24(FP), SI
	MOVQ ld+32(FP), DX
	MOVQ mean+40(FP), R8
	MOVQ rstd+48(FP), R9
	MOVQ products+56(FP), AX
	MOVQ sums+64(FP), R10

columns:
	VMOVUPD (AX), Z0
	VMOVUPD 64(AX), Z1
	VMOVUPD (R10), Z4
	VMOVUPD 64(R10), Z5
	MOVQ DI, R11
	MOVQ SI, R12
	XORQ R13, R13

group:
	VXORPS X8, X8, X8
	VXORPS X10, X10, X10
	LEAQ 4(R13), BX
	CMPQ BX, rows+0(FP)
	CMOVQGT rows+0(FP), BX

row:
	VMOVUPS (R12), Z12
	VMOVUPS (R11), Z13
	VSUBPS.BCST (R8)(R13*4), Z12, Z12
	VMULPS.BCST (R9)(R13*4), Z12, Z12
	VMULPS Z13, Z12, Z12
	VADDPS Z13, Z10, Z10
	VADDPS Z12, Z8, Z8
	ADDQ DX, R11
	ADDQ DX, R12
	INCQ R13
	CMPQ R13, BX
	JLT  row

	VEXTRACTF64X4 $1, Z8, Y12
	VEXTRACTF64X4 $1, Z10, Y14
	VCVTPS2PD Y8, Z8
	VCVTPS2PD Y12, Z12
	VCVTPS2PD Y10, Z10
	VCVTPS2PD Y14, Z14
	VADDPD Z8, Z0, Z0
	VADDPD Z12, Z1, Z1
	VADDPD Z10, Z4, Z4
	VADDPD Z14, Z5, Z5
	CMPQ R13, rows+0(FP)
	JLT  group

	VMOVUPD Z0, (AX)
	VMOVUPD Z1, 64(AX)
	VMOVUPD Z4, (R10)
	VMOVUPD Z5, 64(R10)
	ADDQ $128, AX
	ADDQ $128, R10
	ADDQ $64, DI
	ADDQ $64, SI
	SUBQ $16, CX
	JNZ  columns
	VZEROUPPER
	RET
