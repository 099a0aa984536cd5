#include "textflag.h"

// Loops of batch norm, as channelnorm32.go specifies them. n is a multiple of 8 that is not 0.

// channelRow's fields
#define SHIFT 0
#define RSTD 4
#define SCALE1 8
#define SCALE0 12
#define SHIFT2 16

// func channelFormsAVX2(n int, y, x *float32, c *channelRow)
TEXT ·channelFormsAVX2(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	MOVQ y+8(FP), DI
	MOVQ x+16(FP), SI
	MOVQ c+24(FP), DX
	VBROADCASTSS SHIFT(DX), Y12
	VBROADCASTSS RSTD(DX), Y13
	VBROADCASTSS SCALE1(DX), Y14
	VBROADCASTSS SHIFT2(DX), Y15
	XORQ BX, BX

loop:
	VADDPS (SI)(BX*4), Y12, Y0
	VMULPS Y13, Y0, Y0
	VMULPS Y14, Y0, Y0
	VADDPS Y15, Y0, Y0
	VMOVUPS Y0, (DI)(BX*4)
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func channelGradsAVX2(n int, y, grad, x *float32, c *channelRow)
TEXT ·channelGradsAVX2(SB), NOSPLIT, $0-40
	MOVQ n+0(FP), CX
	MOVQ y+8(FP), DI
	MOVQ grad+16(FP), R8
	MOVQ x+24(FP), SI
	MOVQ c+32(FP), DX
	VBROADCASTSS SHIFT(DX), Y11
	VBROADCASTSS RSTD(DX), Y12
	VBROADCASTSS SCALE1(DX), Y13
	VBROADCASTSS SCALE0(DX), Y14
	VBROADCASTSS SHIFT2(DX), Y15
	XORQ BX, BX

loop:
	VADDPS (SI)(BX*4), Y11, Y0
	VMULPS Y12, Y0, Y0
	VMULPS Y13, Y0, Y0
	VMULPS (R8)(BX*4), Y14, Y1
	VADDPS Y0, Y1, Y1
	VADDPS Y15, Y1, Y1
	VMOVUPS Y1, (DI)(BX*4)
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET
