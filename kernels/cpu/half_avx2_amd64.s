#include "textflag.h"

// func fromHalfAVX2(n int, dst *float32, src *uint16)
TEXT ·fromHalfAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ src+16(FP), SI
	XORQ BX, BX

loop:
	VCVTPH2PS (SI)(BX*2), Y0
	VMOVUPS Y0, (DI)(BX*4)
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func toHalfAVX2(n int, dst *uint16, src *float32)
TEXT ·toHalfAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ src+16(FP), SI
	XORQ BX, BX

loop:
	VMOVUPS (SI)(BX*4), Y0
	VCVTPS2PH $0, Y0, (DI)(BX*2) // 0: to nearest even
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func fromBrainAVX2(n int, dst *float32, src *uint16)
TEXT ·fromBrainAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ src+16(FP), SI
	XORQ BX, BX

loop:
	VPMOVZXWD (SI)(BX*2), Y0
	VPSLLD $16, Y0, Y0
	VMOVDQU Y0, (DI)(BX*4)
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func toBrainAVX2(n int, dst *uint16, src *float32)
// Registers: Y7 is 1, Y6 0x7fff, Y5 the bit of a quiet NaN, in each element.
TEXT ·toBrainAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ src+16(FP), SI
	VPCMPEQD Y7, Y7, Y7
	VPSRLD $17, Y7, Y6
	VPSRLD $31, Y7, Y7
	VPSLLD $6, Y7, Y5
	XORQ BX, BX

	SUBQ $16, CX
	JLT  rest

two:
	VMOVDQU (SI)(BX*4), Y0
	VMOVDQU 32(SI)(BX*4), Y4
	VCMPPS $3, Y0, Y4, Y1 // unordered: where one of both is NaN
	VPSRLD $16, Y0, Y2
	VPSRLD $16, Y4, Y3
	VPAND Y7, Y2, Y2
	VPAND Y7, Y3, Y3
	VMOVMSKPS Y1, AX
	VPADDD Y6, Y2, Y2
	VPADDD Y6, Y3, Y3
	TESTL AX, AX
	JNZ  one // eight at a time
	VPADDD Y0, Y2, Y2
	VPADDD Y4, Y3, Y3
	VPSRLD $16, Y2, Y2
	VPSRLD $16, Y3, Y3
	VPACKUSDW Y3, Y2, Y2
	VPERMQ $0xd8, Y2, Y2
	VMOVDQU Y2, (DI)(BX*2)
	ADDQ $16, BX
	CMPQ BX, CX
	JLE  two

rest:
	ADDQ $16, CX
	CMPQ BX, CX
	JGE  done
	JMP  last

one:
	ADDQ $16, CX

last: // eight elements, with those that are NaN
	VMOVDQU (SI)(BX*4), Y0
	VCMPPS $3, Y0, Y0, Y1
	VPSRLD $16, Y0, Y2
	VPOR Y5, Y2, Y3       // the result for NaN
	VPAND Y7, Y2, Y2
	VPADDD Y6, Y2, Y2
	VPADDD Y0, Y2, Y2
	VPSRLD $16, Y2, Y2
	VPBLENDVB Y1, Y3, Y2, Y2
	VPACKUSDW Y2, Y2, Y2
	VPERMQ $8, Y2, Y2
	VMOVDQU X2, (DI)(BX*2)
	ADDQ $8, BX
	SUBQ $16, CX
	CMPQ BX, CX
	JLE  two
	JMP  rest

done:
	VZEROUPPER
	RET
