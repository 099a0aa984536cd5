#include "textflag.h"

// func moveRowsAVX2(rows int, dst *byte, to int, src *byte, from int, n int)
// Copies rows of n bytes, at least 32, that are to and from bytes apart. The last 32 bytes of a row overlap those before them.
TEXT ·moveRowsAVX2(SB), NOSPLIT, $0-48
	MOVQ rows+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ to+16(FP), DX
	MOVQ src+24(FP), SI
	MOVQ from+32(FP), BX
	MOVQ n+40(FP), R8
	SUBQ $32, R8  // where the last vector begins
	MOVQ R8, R10
	SUBQ $96, R10 // beyond this, no four vectors are left

row:
	PREFETCHT0 (SI)(BX*8) // rows that are a page apart, of which the processor foresees none
	PREFETCHT0 64(SI)(BX*8)
	XORQ R9, R9
	CMPQ R9, R10
	JGE  rest

four:
	VMOVUPS (SI)(R9*1), Y0
	VMOVUPS 32(SI)(R9*1), Y1
	VMOVUPS 64(SI)(R9*1), Y2
	VMOVUPS 96(SI)(R9*1), Y3
	VMOVUPS Y0, (DI)(R9*1)
	VMOVUPS Y1, 32(DI)(R9*1)
	VMOVUPS Y2, 64(DI)(R9*1)
	VMOVUPS Y3, 96(DI)(R9*1)
	ADDQ $128, R9
	CMPQ R9, R10
	JLT  four

rest:
	CMPQ R9, R8
	JGE  last

one:
	VMOVUPS (SI)(R9*1), Y0
	VMOVUPS Y0, (DI)(R9*1)
	ADDQ $32, R9
	CMPQ R9, R8
	JLT  one

last:
	VMOVUPS (SI)(R8*1), Y0
	VMOVUPS Y0, (DI)(R8*1)
	ADDQ DX, DI
	ADDQ BX, SI
	DECQ CX
	JNZ  row
	VZEROUPPER
	RET
