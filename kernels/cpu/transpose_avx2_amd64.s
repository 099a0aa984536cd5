#include "textflag.h"

// func transpose8AVX2(n int, dst *uint32, to int, src *uint32, from int)
// Eight rows of n elements, a multiple of 8, that are from bytes apart become columns of n rows that are to bytes apart. Registers: SI and
// R8 rows 0 and 4 of src, DI and R9 rows 0 and 4 of dst, R10 and R11 three times the distances.
TEXT ·transpose8AVX2(SB), NOSPLIT, $0-40
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ to+16(FP), DX
	MOVQ src+24(FP), SI
	MOVQ from+32(FP), BX
	LEAQ (SI)(BX*4), R8
	LEAQ (BX)(BX*2), R11
	LEAQ (DX)(DX*2), R10

loop:
	// Halves of rows i and i+4 side by side: columns 0..3 in Y0..Y3, columns 4..7 in Y4..Y7.
	VMOVUPS (SI), X0
	VMOVUPS (SI)(BX*1), X1
	VMOVUPS (SI)(BX*2), X2
	VMOVUPS (SI)(R11*1), X3
	VINSERTF128 $1, (R8), Y0, Y0
	VINSERTF128 $1, (R8)(BX*1), Y1, Y1
	VINSERTF128 $1, (R8)(BX*2), Y2, Y2
	VINSERTF128 $1, (R8)(R11*1), Y3, Y3
	VMOVUPS 16(SI), X4
	VMOVUPS 16(SI)(BX*1), X5
	VMOVUPS 16(SI)(BX*2), X6
	VMOVUPS 16(SI)(R11*1), X7
	VINSERTF128 $1, 16(R8), Y4, Y4
	VINSERTF128 $1, 16(R8)(BX*1), Y5, Y5
	VINSERTF128 $1, 16(R8)(BX*2), Y6, Y6
	VINSERTF128 $1, 16(R8)(R11*1), Y7, Y7

	VUNPCKLPS Y1, Y0, Y8
	VUNPCKHPS Y1, Y0, Y9
	VUNPCKLPS Y3, Y2, Y10
	VUNPCKHPS Y3, Y2, Y11
	VUNPCKLPD Y10, Y8, Y0
	VUNPCKHPD Y10, Y8, Y1
	VUNPCKLPD Y11, Y9, Y2
	VUNPCKHPD Y11, Y9, Y3
	VUNPCKLPS Y5, Y4, Y8
	VUNPCKHPS Y5, Y4, Y9
	VUNPCKLPS Y7, Y6, Y10
	VUNPCKHPS Y7, Y6, Y11
	VUNPCKLPD Y10, Y8, Y4
	VUNPCKHPD Y10, Y8, Y5
	VUNPCKLPD Y11, Y9, Y6
	VUNPCKHPD Y11, Y9, Y7

	LEAQ (DI)(DX*4), R9
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, (DI)(DX*1)
	VMOVUPS Y2, (DI)(DX*2)
	VMOVUPS Y3, (DI)(R10*1)
	VMOVUPS Y4, (R9)
	VMOVUPS Y5, (R9)(DX*1)
	VMOVUPS Y6, (R9)(DX*2)
	VMOVUPS Y7, (R9)(R10*1)
	LEAQ (R9)(DX*4), DI
	ADDQ $32, SI
	ADDQ $32, R8
	SUBQ $8, CX
	JNZ  loop
	VZEROUPPER
	RET
