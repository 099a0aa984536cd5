#include "textflag.h"

// Loops of layer norm, as normforward.go specifies them.

// SQUARED sets Y to the squares of the distances from the mean, Y15, of eight elements.
#define SQUARED(AT, Y) \
	VMOVUPS AT, Y; \
	VSUBPS Y15, Y, Y; \
	VMULPS Y, Y, Y

// ADDED adds sixteen numbers, Y4 and Y6, to the sixteen sums.
#define ADDED \
	VEXTRACTF128 $1, Y4, X5; \
	VEXTRACTF128 $1, Y6, X7; \
	VCVTPS2PD X4, Y4; \
	VCVTPS2PD X5, Y5; \
	VCVTPS2PD X6, Y6; \
	VCVTPS2PD X7, Y7; \
	VADDPD Y4, Y0, Y0; \
	VADDPD Y5, Y1, Y1; \
	VADDPD Y6, Y2, Y2; \
	VADDPD Y7, Y3, Y3

// func squaresAVX2(n int, x *float32, mean float32) float64
// n is a multiple of 16. Registers: Y0 to Y3 sixteen sums in float64, of float32 sums of four squares that are 16 apart.
TEXT ·squaresAVX2(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	MOVQ x+8(FP), SI
	VBROADCASTSS mean+16(FP), Y15
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3
	SUBQ $64, CX
	JLT  rest

loop:
	SQUARED((SI), Y4)
	SQUARED(32(SI), Y6)
	SQUARED(64(SI), Y8)
	SQUARED(96(SI), Y9)
	SQUARED(128(SI), Y5)
	SQUARED(160(SI), Y7)
	SQUARED(192(SI), Y10)
	SQUARED(224(SI), Y11)
	VADDPS Y8, Y4, Y4
	VADDPS Y9, Y6, Y6
	VADDPS Y10, Y5, Y5
	VADDPS Y11, Y7, Y7
	VADDPS Y5, Y4, Y4
	VADDPS Y7, Y6, Y6
	ADDED
	ADDQ $256, SI
	SUBQ $64, CX
	JGE  loop

rest:
	ADDQ $64, CX
	JZ   join

sixteen:
	SQUARED((SI), Y4)
	SQUARED(32(SI), Y6)
	ADDED
	ADDQ $64, SI
	SUBQ $16, CX
	JNZ  sixteen

join:
	VADDPD Y2, Y0, Y0
	VADDPD Y3, Y1, Y1
	VADDPD Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPD X1, X0, X0
	VHADDPD X0, X0, X0
	VMOVSD X0, ret+24(FP)
	VZEROUPPER
	RET

// func normalizeAVX2(n int, dst, x, w, b *float32, mean, rstd float32)
// n is a multiple of 8. Registers: Y14 the mean, Y15 rstd.
TEXT ·normalizeAVX2(SB), NOSPLIT, $0-48
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ x+16(FP), SI
	MOVQ w+24(FP), DX
	MOVQ b+32(FP), R8
	VBROADCASTSS mean+40(FP), Y14
	VBROADCASTSS rstd+44(FP), Y15
	XORQ BX, BX

loop:
	VMOVUPS (SI)(BX*4), Y0
	VSUBPS Y14, Y0, Y0
	VMULPS Y15, Y0, Y0
	VMULPS (DX)(BX*4), Y0, Y0
	VADDPS (R8)(BX*4), Y0, Y0
	VMOVUPS Y0, (DI)(BX*4)
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET
