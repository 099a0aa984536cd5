#include "textflag.h"

// Gradients of average pooling whose windows are two columns apart, row by row of the image, as poolterms.go specifies them. Sixteen columns at a time: the even
// ones are the sum of the terms in Y0, the odd ones of those in Y1. The last sixteen overlap those before them.
//
// Registers: R8 counts rows, R9 is the number of columns halved, R15 that less 8; BX is the column halved; R10 and R11 are the numbers of terms, of which the
// first one is at AX, and R12 goes along them.

// TERM sets R13 to where the elements of the term at R12 are.
#define TERM \
	MOVLQSX (R12), R13; \
	ADDQ BX, R13

// INTERLEAVED stores even columns Y0 and odd ones Y1, and goes on to group or to next.
#define INTERLEAVED \
	VUNPCKLPS Y1, Y0, Y2; \
	VUNPCKHPS Y1, Y0, Y3; \
	VPERM2F128 $0x20, Y3, Y2, Y4; \
	VPERM2F128 $0x31, Y3, Y2, Y5; \
	VMOVUPS Y4, (DI)(BX*8); \
	VMOVUPS Y5, 32(DI)(BX*8); \
	ADDQ $8, BX; \
	CMPQ BX, R9; \
	JGE  next; \
	CMPQ BX, R15; \
	CMOVQGT R15, BX; \
	JMP  group; \
next: \
	MOVQ R12, AX; \
	LEAQ (DI)(R9*8), DI; \
	DECQ R8; \
	JNZ  row; \
	VZEROUPPER; \
	RET

// ROW begins a row, and GROUP its columns.
#define ROW \
	MOVLQSX (AX), R10; \
	MOVLQSX 4(AX), R11; \
	ADDQ $8, AX; \
	XORQ BX, BX

#define GROUP \
	VXORPS Y0, Y0, Y0; \
	VXORPS Y1, Y1, Y1; \
	MOVQ AX, R12; \
	MOVQ R10, CX

// func poolSharedAVX2(rows, half int, dst, src *float32, terms *poolTerm)
TEXT ·poolSharedAVX2(SB), NOSPLIT, $0-40
	MOVQ rows+0(FP), R8
	MOVQ half+8(FP), R9
	MOVQ dst+16(FP), DI
	MOVQ src+24(FP), SI
	MOVQ terms+32(FP), AX
	LEAQ -8(R9), R15

row:
	ROW

group:
	GROUP
	TESTQ CX, CX
	JZ    odd

evenTerm:
	TERM
	VADDPS (SI)(R13*4), Y0, Y0
	ADDQ $8, R12
	DECQ CX
	JNZ  evenTerm

odd:
	MOVQ  R11, CX
	TESTQ CX, CX
	JZ    both

oddTerm:
	TERM
	VADDPS (SI)(R13*4), Y1, Y1
	ADDQ $8, R12
	DECQ CX
	JNZ  oddTerm

both:
	INTERLEAVED
