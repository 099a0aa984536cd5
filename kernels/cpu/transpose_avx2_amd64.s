#include "textflag.h"

// Each of these turns n blocks of eight rows of eight elements, from bytes apart, into columns of eight rows that are to bytes apart: crossBlocks specifies
// them. Blocks are nextFrom and nextTo bytes apart. Registers: SI and R8 rows 0 and 4 of src, DI and R9 rows 0 and 4 of dst, R10 and R11 three times the
// distances, R12 and R13 those of blocks.
#define BEGIN \
	MOVQ n+0(FP), CX         \
	MOVQ dst+8(FP), DI       \
	MOVQ to+16(FP), DX       \
	MOVQ nextTo+24(FP), R12  \
	MOVQ src+32(FP), SI      \
	MOVQ from+40(FP), BX     \
	MOVQ nextFrom+48(FP), R13 \
	LEAQ (SI)(BX*4), R8      \
	LEAQ (BX)(BX*2), R11     \
	LEAQ (DX)(DX*2), R10

// Also the condition of the jump to the next block.
#define NEXT \
	ADDQ R12, DI \
	ADDQ R13, SI \
	ADDQ R13, R8 \
	DECQ CX

// func transpose8AVX2(n int, dst *byte, to, nextTo int, src *byte, from, nextFrom int)
// Of bytes: pairs of rows, then fours, then all eight, of two columns to a register.
TEXT ·transpose8AVX2(SB), NOSPLIT, $0-56
	BEGIN

loop:
	VMOVQ (SI), X0
	VMOVQ (SI)(BX*1), X1
	VMOVQ (SI)(BX*2), X2
	VMOVQ (SI)(R11*1), X3
	VMOVQ (R8), X4
	VMOVQ (R8)(BX*1), X5
	VMOVQ (R8)(BX*2), X6
	VMOVQ (R8)(R11*1), X7

	VPUNPCKLBW X1, X0, X0
	VPUNPCKLBW X3, X2, X2
	VPUNPCKLBW X5, X4, X4
	VPUNPCKLBW X7, X6, X6
	VPUNPCKLWD X2, X0, X1
	VPUNPCKHWD X2, X0, X3
	VPUNPCKLWD X6, X4, X5
	VPUNPCKHWD X6, X4, X7
	VPUNPCKLDQ X5, X1, X0
	VPUNPCKHDQ X5, X1, X2
	VPUNPCKLDQ X7, X3, X4
	VPUNPCKHDQ X7, X3, X6

	LEAQ (DI)(DX*4), R9
	VMOVLPS X0, (DI)
	VMOVHPS X0, (DI)(DX*1)
	VMOVLPS X2, (DI)(DX*2)
	VMOVHPS X2, (DI)(R10*1)
	VMOVLPS X4, (R9)
	VMOVHPS X4, (R9)(DX*1)
	VMOVLPS X6, (R9)(DX*2)
	VMOVHPS X6, (R9)(R10*1)
	NEXT
	JNZ loop
	RET

// func transpose16AVX2(n int, dst *byte, to, nextTo int, src *byte, from, nextFrom int)
// Of 2 bytes: pairs of rows, then fours, of two columns to a register, then all eight.
TEXT ·transpose16AVX2(SB), NOSPLIT, $0-56
	BEGIN

loop:
	VMOVUPS (SI), X0
	VMOVUPS (SI)(BX*1), X1
	VMOVUPS (SI)(BX*2), X2
	VMOVUPS (SI)(R11*1), X3
	VMOVUPS (R8), X4
	VMOVUPS (R8)(BX*1), X5
	VMOVUPS (R8)(BX*2), X6
	VMOVUPS (R8)(R11*1), X7

	VPUNPCKLWD X1, X0, X8
	VPUNPCKHWD X1, X0, X9
	VPUNPCKLWD X3, X2, X10
	VPUNPCKHWD X3, X2, X11
	VPUNPCKLWD X5, X4, X12
	VPUNPCKHWD X5, X4, X13
	VPUNPCKLWD X7, X6, X14
	VPUNPCKHWD X7, X6, X15
	VPUNPCKLDQ X10, X8, X0
	VPUNPCKHDQ X10, X8, X1
	VPUNPCKLDQ X11, X9, X2
	VPUNPCKHDQ X11, X9, X3
	VPUNPCKLDQ X14, X12, X4
	VPUNPCKHDQ X14, X12, X5
	VPUNPCKLDQ X15, X13, X6
	VPUNPCKHDQ X15, X13, X7
	VPUNPCKLQDQ X4, X0, X8
	VPUNPCKHQDQ X4, X0, X9
	VPUNPCKLQDQ X5, X1, X10
	VPUNPCKHQDQ X5, X1, X11
	VPUNPCKLQDQ X6, X2, X12
	VPUNPCKHQDQ X6, X2, X13
	VPUNPCKLQDQ X7, X3, X14
	VPUNPCKHQDQ X7, X3, X15

	LEAQ (DI)(DX*4), R9
	VMOVUPS X8, (DI)
	VMOVUPS X9, (DI)(DX*1)
	VMOVUPS X10, (DI)(DX*2)
	VMOVUPS X11, (DI)(R10*1)
	VMOVUPS X12, (R9)
	VMOVUPS X13, (R9)(DX*1)
	VMOVUPS X14, (R9)(DX*2)
	VMOVUPS X15, (R9)(R10*1)
	NEXT
	JNZ loop
	VZEROUPPER
	RET

// func transpose32AVX2(n int, dst *byte, to, nextTo int, src *byte, from, nextFrom int)
TEXT ·transpose32AVX2(SB), NOSPLIT, $0-56
	BEGIN

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
	NEXT
	JNZ loop
	VZEROUPPER
	RET

// Two columns, of all eight rows, which begin at bytes after SI and R8: one goes to the row of dst at first, the other to that at second.
#define COLUMNS(at, first, second) \
	VMOVUPS at(SI), X0                     \
	VMOVUPS at(SI)(BX*1), X1               \
	VMOVUPS at(R8), X2                     \
	VMOVUPS at(R8)(BX*1), X3               \
	VINSERTF128 $1, at(SI)(BX*2), Y0, Y0   \
	VINSERTF128 $1, at(SI)(R11*1), Y1, Y1  \
	VINSERTF128 $1, at(R8)(BX*2), Y2, Y2   \
	VINSERTF128 $1, at(R8)(R11*1), Y3, Y3  \
	VUNPCKLPD Y1, Y0, Y4                   \
	VUNPCKHPD Y1, Y0, Y5                   \
	VUNPCKLPD Y3, Y2, Y6                   \
	VUNPCKHPD Y3, Y2, Y7                   \
	VMOVUPS Y4, first                      \
	VMOVUPS Y6, 32 first                   \
	VMOVUPS Y5, second                     \
	VMOVUPS Y7, 32 second

// func transpose64AVX2(n int, dst *byte, to, nextTo int, src *byte, from, nextFrom int)
TEXT ·transpose64AVX2(SB), NOSPLIT, $0-56
	BEGIN

loop:
	LEAQ (DI)(DX*4), R9
	COLUMNS(0, (DI), (DI)(DX*1))
	COLUMNS(16, (DI)(DX*2), (DI)(R10*1))
	COLUMNS(32, (R9), (R9)(DX*1))
	COLUMNS(48, (R9)(DX*2), (R9)(R10*1))
	NEXT
	JNZ loop
	VZEROUPPER
	RET
