#include "textflag.h"

// func tapsAVX2(c *tapCall)
// Sixteen columns at a time, then eight: the last ones overlap those before, which computes the same again. So do the last four rows.
// Registers: AX start of four lines in the image, BX taps left, SI weights, DI offsets, R8 and R9 the first of four rows of image and result,
// R10 to R12 their distances and three of those of the image, R13 column, R14 rows left, R15 three distances of the result.
TEXT ·tapsAVX2(SB), NOSPLIT, $0-8
	MOVQ c+0(FP), DX
	MOVQ 0(DX), R9
	MOVQ 8(DX), R8
	MOVQ 40(DX), R14
	MOVQ 56(DX), R11
	MOVQ 64(DX), R10
	LEAQ (R10)(R10*2), R12
	LEAQ (R11)(R11*2), R15

rows:
	XORQ R13, R13

columns:
	MOVQ 48(DX), CX
	SUBQ R13, CX // columns left
	CMPQ CX, $16
	JGE  sixteen
	CMPQ CX, $8
	JG   wide
	MOVQ 48(DX), R13
	SUBQ $8, R13
	JMP  eight

wide: // 9 to 15 columns are left: sixteen that end with them, if there are as many
	CMPQ 48(DX), $16
	JLT  eight
	MOVQ 48(DX), R13
	SUBQ $16, R13

sixteen:
	VBROADCASTSS 72(DX), Y0
	VMOVAPS Y0, Y1
	VMOVAPS Y0, Y2
	VMOVAPS Y0, Y3
	VMOVAPS Y0, Y4
	VMOVAPS Y0, Y5
	VMOVAPS Y0, Y6
	VMOVAPS Y0, Y7
	MOVQ 16(DX), SI
	MOVQ 24(DX), DI
	MOVQ 32(DX), BX
	LEAQ (R8)(R13*4), CX

tap16:
	MOVQ (DI), AX
	ADDQ CX, AX
	VBROADCASTSS (SI), Y8
	VFMADD231PS (AX), Y8, Y0
	VFMADD231PS 32(AX), Y8, Y1
	VFMADD231PS (AX)(R10*1), Y8, Y2
	VFMADD231PS 32(AX)(R10*1), Y8, Y3
	VFMADD231PS (AX)(R10*2), Y8, Y4
	VFMADD231PS 32(AX)(R10*2), Y8, Y5
	VFMADD231PS (AX)(R12*1), Y8, Y6
	VFMADD231PS 32(AX)(R12*1), Y8, Y7
	ADDQ $8, DI
	ADDQ $4, SI
	DECQ BX
	JNZ  tap16
	LEAQ (R9)(R13*4), AX
	VMOVUPS Y0, (AX)
	VMOVUPS Y1, 32(AX)
	VMOVUPS Y2, (AX)(R11*1)
	VMOVUPS Y3, 32(AX)(R11*1)
	VMOVUPS Y4, (AX)(R11*2)
	VMOVUPS Y5, 32(AX)(R11*2)
	VMOVUPS Y6, (AX)(R15*1)
	VMOVUPS Y7, 32(AX)(R15*1)
	ADDQ $16, R13
	CMPQ R13, 48(DX)
	JLT  columns
	JMP  next

eight:
	VBROADCASTSS 72(DX), Y0
	VMOVAPS Y0, Y2
	VMOVAPS Y0, Y4
	VMOVAPS Y0, Y6
	MOVQ 16(DX), SI
	MOVQ 24(DX), DI
	MOVQ 32(DX), BX
	LEAQ (R8)(R13*4), CX

tap8:
	MOVQ (DI), AX
	ADDQ CX, AX
	VBROADCASTSS (SI), Y8
	VFMADD231PS (AX), Y8, Y0
	VFMADD231PS (AX)(R10*1), Y8, Y2
	VFMADD231PS (AX)(R10*2), Y8, Y4
	VFMADD231PS (AX)(R12*1), Y8, Y6
	ADDQ $8, DI
	ADDQ $4, SI
	DECQ BX
	JNZ  tap8
	LEAQ (R9)(R13*4), AX
	VMOVUPS Y0, (AX)
	VMOVUPS Y2, (AX)(R11*1)
	VMOVUPS Y4, (AX)(R11*2)
	VMOVUPS Y6, (AX)(R15*1)
	ADDQ $8, R13
	CMPQ R13, 48(DX)
	JLT  columns

next:
	SUBQ $4, R14
	JLE  done
	MOVQ $4, CX // rows to go on by
	CMPQ R14, $4
	JGE  on
	MOVQ R14, CX
	MOVQ $4, R14

on:
	MOVQ CX, AX
	IMULQ R10, AX
	ADDQ AX, R8
	IMULQ R11, CX
	ADDQ CX, R9
	JMP  rows

done:
	VZEROUPPER
	RET

// func tapDotsAVX2(c *dotCall)
// Three taps at a time, sixteen columns in two sums each; the last columns of a row by masks, so that nothing beside them is read.
// Registers: AX, BX, CX the taps' first elements in a row, SI the gradients of a row, DX column, R8 rows left, R10 and R11 the distances of rows.
TEXT ·tapDotsAVX2(SB), NOSPLIT, $0-8
	MOVQ c+0(FP), DI
	MOVQ 0(DI), SI
	MOVQ 8(DI), R9
	MOVQ 16(DI), AX
	MOVQ 24(DI), BX
	MOVQ 32(DI), CX
	ADDQ R9, AX
	ADDQ R9, BX
	ADDQ R9, CX
	MOVQ 88(DI), R8
	MOVQ 96(DI), R12 // columns in whole sixteens
	MOVQ 104(DI), R10
	MOVQ 112(DI), R11
	MOVQ 120(DI), R13 // masks, or nil
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	TESTQ R13, R13
	JZ   row
	VMOVUPS (R13), Y14
	VMOVUPS 32(R13), Y15

row:
	XORQ DX, DX
	CMPQ DX, R12
	JGE  tail

sixteen:
	VMOVUPS (SI)(DX*4), Y6
	VMOVUPS 32(SI)(DX*4), Y7
	VFMADD231PS (AX)(DX*4), Y6, Y0
	VFMADD231PS 32(AX)(DX*4), Y7, Y1
	VFMADD231PS (BX)(DX*4), Y6, Y2
	VFMADD231PS 32(BX)(DX*4), Y7, Y3
	VFMADD231PS (CX)(DX*4), Y6, Y4
	VFMADD231PS 32(CX)(DX*4), Y7, Y5
	ADDQ $16, DX
	CMPQ DX, R12
	JLT  sixteen

tail:
	TESTQ R13, R13
	JZ   next
	VMASKMOVPS (SI)(DX*4), Y14, Y6
	VMASKMOVPS 32(SI)(DX*4), Y15, Y7
	VMASKMOVPS (AX)(DX*4), Y14, Y8
	VMASKMOVPS 32(AX)(DX*4), Y15, Y9
	VMASKMOVPS (BX)(DX*4), Y14, Y10
	VMASKMOVPS 32(BX)(DX*4), Y15, Y11
	VMASKMOVPS (CX)(DX*4), Y14, Y12
	VMASKMOVPS 32(CX)(DX*4), Y15, Y13
	VFMADD231PS Y8, Y6, Y0
	VFMADD231PS Y9, Y7, Y1
	VFMADD231PS Y10, Y6, Y2
	VFMADD231PS Y11, Y7, Y3
	VFMADD231PS Y12, Y6, Y4
	VFMADD231PS Y13, Y7, Y5

next:
	ADDQ R10, SI
	ADDQ R11, AX
	ADDQ R11, BX
	ADDQ R11, CX
	DECQ R8
	JNZ  row
	VADDPS Y1, Y0, Y0
	VADDPS Y3, Y2, Y2
	VADDPS Y5, Y4, Y4
	VEXTRACTF128 $1, Y0, X1
	VEXTRACTF128 $1, Y2, X3
	VEXTRACTF128 $1, Y4, X5
	VADDPS X1, X0, X0
	VADDPS X3, X2, X2
	VADDPS X5, X4, X4
	VHADDPS X0, X0, X0
	VHADDPS X2, X2, X2
	VHADDPS X4, X4, X4
	VHADDPS X0, X0, X0
	VHADDPS X2, X2, X2
	VHADDPS X4, X4, X4
	VMOVSS X0, 128(DI)
	VMOVSS X2, 132(DI)
	VMOVSS X4, 136(DI)
	VZEROUPPER
	RET
