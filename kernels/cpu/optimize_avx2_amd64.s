#include "textflag.h"

// Steps of optimizers on float32, for AVX2: the loops of optimize.go, for n elements, a multiple of 8, operation by operation,
// so that results are the same bits. The constants are those of adamScalars and sgdScalars, in their order.

// func adamAVX2(n int, p, m, v, grad *float32, c *adamScalars[float32])
// Registers: Y0 the gradient, Y1 the parameter, Y2 and Y3 the moments, Y4 a product; Y6-Y15 the constants.
TEXT ·adamAVX2(SB), NOSPLIT, $0-48
	MOVQ n+0(FP), CX
	MOVQ p+8(FP), DI
	MOVQ m+16(FP), R8
	MOVQ v+24(FP), R9
	MOVQ grad+32(FP), SI
	MOVQ c+40(FP), AX
	VBROADCASTSS 0(AX), Y6   // sign
	VBROADCASTSS 4(AX), Y7   // shrink
	VBROADCASTSS 8(AX), Y8   // decay
	VBROADCASTSS 12(AX), Y9  // beta1
	VBROADCASTSS 16(AX), Y10 // 1-beta1
	VBROADCASTSS 20(AX), Y11 // beta2
	VBROADCASTSS 24(AX), Y12 // 1-beta2
	VBROADCASTSS 28(AX), Y13 // size
	VBROADCASTSS 32(AX), Y14 // root
	VBROADCASTSS 36(AX), Y15 // eps
	MOVL 8(AX), DX
	SHLL $1, DX              // 0 if decay is 0, of either sign
	XORQ BX, BX

loop:
	VMULPS (SI)(BX*4), Y6, Y0
	VMULPS (DI)(BX*4), Y7, Y1
	TESTL DX, DX
	JZ    moments
	VMULPS Y8, Y1, Y4
	VADDPS Y4, Y0, Y0

moments:
	VMULPS (R8)(BX*4), Y9, Y2
	VMULPS Y0, Y10, Y4
	VADDPS Y4, Y2, Y2
	VMULPS (R9)(BX*4), Y11, Y3
	VMULPS Y0, Y12, Y4
	VMULPS Y0, Y4, Y4
	VADDPS Y4, Y3, Y3
	VMOVUPS Y2, (R8)(BX*4)
	VMOVUPS Y3, (R9)(BX*4)
	VMULPS Y2, Y13, Y2
	VSQRTPS Y3, Y3
	VDIVPS Y14, Y3, Y3
	VADDPS Y15, Y3, Y3
	VDIVPS Y3, Y2, Y2
	VSUBPS Y2, Y1, Y1
	VMOVUPS Y1, (DI)(BX*4)
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func sgdAVX2(n int, p, buf, grad *float32, c *sgdScalars[float32])
// buf is nil without momentum. Registers: Y0 the gradient, Y1 the parameter, Y2 the buffer, Y4 a product; Y6-Y10 the constants.
TEXT ·sgdAVX2(SB), NOSPLIT, $0-40
	MOVQ n+0(FP), CX
	MOVQ p+8(FP), DI
	MOVQ buf+16(FP), R8
	MOVQ grad+24(FP), SI
	MOVQ c+32(FP), AX
	VBROADCASTSS 0(AX), Y6   // sign
	VBROADCASTSS 4(AX), Y7   // lr
	VBROADCASTSS 8(AX), Y8   // momentum
	VBROADCASTSS 12(AX), Y9  // decay
	VBROADCASTSS 16(AX), Y10 // 1-dampening
	MOVL 12(AX), DX
	SHLL $1, DX              // 0 if decay is 0
	MOVBLZX 20(AX), R9       // first
	MOVBLZX 21(AX), R10      // nesterov
	XORQ BX, BX

loop:
	VMULPS (SI)(BX*4), Y6, Y0
	VMOVUPS (DI)(BX*4), Y1
	TESTL DX, DX
	JZ    momentum
	VMULPS Y9, Y1, Y4
	VADDPS Y4, Y0, Y0

momentum:
	TESTQ R8, R8
	JZ    update
	VMOVAPS Y0, Y2
	TESTL R9, R9
	JNZ   keep
	VMULPS (R8)(BX*4), Y8, Y2
	VMULPS Y0, Y10, Y4
	VADDPS Y4, Y2, Y2

keep:
	VMOVUPS Y2, (R8)(BX*4)
	TESTL R10, R10
	JZ    plain
	VMULPS Y2, Y8, Y4
	VADDPS Y4, Y0, Y0
	JMP   update

plain:
	VMOVAPS Y2, Y0

update:
	VMULPS Y0, Y7, Y4
	VSUBPS Y4, Y1, Y1
	VMOVUPS Y1, (DI)(BX*4)
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET
