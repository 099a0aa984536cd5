#include "textflag.h"

// Loops down the columns of blocks of float32, 8 columns at a time: columns.go has their specification.
//
// BEGIN reads the sizes, R8 rows and R9 columns left, and leaves the bytes of a row in R10. SI is the block at the present
// columns, AX and CX walk its rows.

#define BEGIN \
	MOVQ rows+0(FP), R8; \
	MOVQ width+8(FP), R9; \
	MOVQ R9, R10; \
	SHLQ $2, R10

// func columnMaxAVX2(rows, width int, s, most *float32)
TEXT ·columnMaxAVX2(SB), NOSPLIT, $0-32
	BEGIN
	MOVQ s+16(FP), SI
	MOVQ most+24(FP), DI
maxGroup:
	VMOVUPS (DI), Y0
	MOVQ SI, AX
	MOVQ R8, CX
maxRow:
	VMOVUPS (AX), Y1
	VMAXPS Y0, Y1, Y0 // Y0 if either is NaN
	ADDQ R10, AX
	DECQ CX
	JNZ maxRow
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $8, R9
	JNZ maxGroup
	VZEROUPPER
	RET

// exp(x) = 2^k * exp(r) with k the integer nearest to x/log(2) and r = x - k*log(2), log(2) in two parts; exp(r) is the
// polynomial of Cephes (Moshier), 1 + r + r*r*P(r).
DATA expConstants<>+0(SB)/4, $0x3fb8aa3b  // 1/log(2)
DATA expConstants<>+4(SB)/4, $0x3f318000  // log(2), upper part: 0.693359375
DATA expConstants<>+8(SB)/4, $0xb95e8083  // the rest: -2.12194440e-4
DATA expConstants<>+12(SB)/4, $0xc2aea8f6 // -87.33: below it exp(x) is less than the smallest normal number
DATA expConstants<>+16(SB)/4, $0x39506967 // 1.9875691500e-4
DATA expConstants<>+20(SB)/4, $0x3ab743ce // 1.3981999507e-3
DATA expConstants<>+24(SB)/4, $0x3c088908 // 8.3334519073e-3
DATA expConstants<>+28(SB)/4, $0x3d2aa9c1 // 4.1665795894e-2
DATA expConstants<>+32(SB)/4, $0x3e2aaaaa // 1.6666665459e-1
DATA expConstants<>+36(SB)/4, $0x3f000000 // 5.0000001201e-1
DATA expConstants<>+40(SB)/4, $0x3f800000 // 1
GLOBL expConstants<>(SB), RODATA|NOPTR, $44

// func columnExpAVX2(rows, width int, s, most, sum *float32)
TEXT ·columnExpAVX2(SB), NOSPLIT, $0-40
	BEGIN
	MOVQ s+16(FP), SI
	MOVQ most+24(FP), DI
	MOVQ sum+32(FP), DX
	VBROADCASTSS expConstants<>+0(SB), Y15
	VBROADCASTSS expConstants<>+4(SB), Y14
	VBROADCASTSS expConstants<>+8(SB), Y13
	VBROADCASTSS expConstants<>+12(SB), Y12
	VBROADCASTSS expConstants<>+16(SB), Y11
	VBROADCASTSS expConstants<>+20(SB), Y10
	VBROADCASTSS expConstants<>+24(SB), Y9
	VBROADCASTSS expConstants<>+28(SB), Y8
	VBROADCASTSS expConstants<>+32(SB), Y7
	VBROADCASTSS expConstants<>+36(SB), Y6
expGroup:
	VMOVUPS (DI), Y2
	VMOVUPS (DX), Y0
	MOVQ SI, AX
	MOVQ R8, CX
expRow:
	VMOVUPS (AX), Y1
	VSUBPS Y2, Y1, Y1
	VCMPPS $1, Y12, Y1, Y3 // x < -87.33; NaN is not
	VMULPS Y15, Y1, Y4
	VROUNDPS $0, Y4, Y4
	VFNMADD231PS Y14, Y4, Y1
	VFNMADD231PS Y13, Y4, Y1
	VCVTPS2DQ Y4, Y4
	VPSLLD $23, Y4, Y4
	VMOVAPS Y11, Y5
	VFMADD213PS Y10, Y1, Y5
	VFMADD213PS Y9, Y1, Y5
	VFMADD213PS Y8, Y1, Y5
	VFMADD213PS Y7, Y1, Y5
	VFMADD213PS Y6, Y1, Y5
	VMULPS Y1, Y5, Y5
	VFMADD213PS Y1, Y1, Y5 // r*r*P + r
	VBROADCASTSS expConstants<>+40(SB), Y1
	VADDPS Y1, Y5, Y5
	VPADDD Y4, Y5, Y5
	VANDNPS Y5, Y3, Y5
	VMOVUPS Y5, (AX)
	VADDPS Y5, Y0, Y0
	ADDQ R10, AX
	DECQ CX
	JNZ expRow
	VMOVUPS Y0, (DX)
	ADDQ $32, SI
	ADDQ $32, DI
	ADDQ $32, DX
	SUBQ $8, R9
	JNZ expGroup
	VZEROUPPER
	RET

// func columnGradAVX2(rows, width int, p, d, delta *float32)
TEXT ·columnGradAVX2(SB), NOSPLIT, $0-40
	BEGIN
	MOVQ p+16(FP), SI
	MOVQ d+24(FP), DI
	MOVQ delta+32(FP), DX
gradGroup:
	VMOVUPS (DX), Y0
	MOVQ SI, AX
	MOVQ DI, BX
	MOVQ R8, CX
gradRow:
	VMOVUPS (BX), Y1
	VSUBPS Y0, Y1, Y1
	VMULPS (AX), Y1, Y1
	VMOVUPS Y1, (BX)
	ADDQ R10, AX
	ADDQ R10, BX
	DECQ CX
	JNZ gradRow
	ADDQ $32, SI
	ADDQ $32, DI
	ADDQ $32, DX
	SUBQ $8, R9
	JNZ gradGroup
	VZEROUPPER
	RET
