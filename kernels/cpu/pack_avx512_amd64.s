#include "textflag.h"

// Rows are read and written whole, those of less than 16 elements, or of more and less than 32, with masks: nothing is read beyond a row, and nothing
// written but what the next rows write after it, or nobody.

// func copyRowsAVX512(count int, dst *float32, width int, src *float32, ld int)
TEXT ·copyRowsAVX512(SB), NOSPLIT, $0-40
	MOVQ count+0(FP), R10
	MOVQ dst+8(FP), DI
	MOVQ width+16(FP), CX
	MOVQ src+24(FP), SI
	MOVQ ld+32(FP), AX
	SHLQ $2, AX
	LEAQ (DI), R9
	MOVQ CX, DX
	SHLQ $2, DX
	MOVQ R10, R11
	IMULQ DX, R11
	ADDQ DI, R11            // the end
	MOVQ $1, R8
	SHLQ CX, R8
	DECQ R8
	KMOVW R8, K1            // of the first vector
	SHRQ $16, R8
	JNZ  two
	LEAQ -64(R11), R12      // the last place for a whole vector

one:
	CMPQ DI, R12
	JGT  masked
	PREFETCHT0 640(SI)
	VMOVUPS.Z (SI), K1, Z0
	VMOVUPS Z0, (DI)
	ADDQ AX, SI
	ADDQ DX, DI
	DECQ R10
	JNZ  one
	VZEROUPPER
	RET

masked:
	PREFETCHT0 640(SI)
	VMOVUPS.Z (SI), K1, Z0
	VMOVUPS Z0, K1, (DI)
	ADDQ AX, SI
	ADDQ DX, DI
	DECQ R10
	JNZ  masked
	VZEROUPPER
	RET

two:
	KMOVW R8, K1            // of the second

pair:
	VMOVUPS (SI), Z0
	VMOVUPS.Z 64(SI), K1, Z1
	VMOVUPS Z0, (DI)
	VMOVUPS Z1, K1, 64(DI)
	ADDQ AX, SI
	ADDQ DX, DI
	DECQ R10
	JNZ  pair
	VZEROUPPER
	RET

// func pack16AVX512(steps int, dst *float32, width int, src *float32, ld int, skip, mask int)
// Four steps of sixteen rows at a time: a vector has those of rows i, i+4, i+8 and i+12, which are turned four by four. Registers: K1 the rows that
// are written, K2 to K4 the quarters of a vector, R8 to R13 rows 0, 3, 6, 9, 12 and 15.
TEXT ·pack16AVX512(SB), NOSPLIT, $0-56
	MOVQ steps+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ width+16(FP), DX
	MOVQ src+24(FP), R8
	MOVQ ld+32(FP), AX
	MOVQ skip+40(FP), BX
	MOVQ mask+48(FP), SI
	SHLQ $2, AX
	SHLQ $2, DX
	SHLQ $2, BX
	SUBQ BX, DI
	KMOVW SI, K1
	MOVL $0x00f0, SI
	KMOVW SI, K2
	MOVL $0x0f00, SI
	KMOVW SI, K3
	MOVL $0xf000, SI
	KMOVW SI, K4
	LEAQ (AX)(AX*2), SI
	LEAQ (R8)(SI*1), R9
	LEAQ (R9)(SI*1), R10
	LEAQ (R10)(SI*1), R11
	LEAQ (R11)(SI*1), R12
	LEAQ (R12)(SI*1), R13
	LEAQ (DX)(DX*2), SI

steps:
	VMOVUPS (R8), X0
	VBROADCASTF32X4 (R9)(AX*1), K2, Z0
	VBROADCASTF32X4 (R10)(AX*2), K3, Z0
	VBROADCASTF32X4 (R12), K4, Z0
	VMOVUPS (R8)(AX*1), X1
	VBROADCASTF32X4 (R9)(AX*2), K2, Z1
	VBROADCASTF32X4 (R11), K3, Z1
	VBROADCASTF32X4 (R12)(AX*1), K4, Z1
	VMOVUPS (R8)(AX*2), X2
	VBROADCASTF32X4 (R10), K2, Z2
	VBROADCASTF32X4 (R11)(AX*1), K3, Z2
	VBROADCASTF32X4 (R12)(AX*2), K4, Z2
	VMOVUPS (R9), X3
	VBROADCASTF32X4 (R10)(AX*1), K2, Z3
	VBROADCASTF32X4 (R11)(AX*2), K3, Z3
	VBROADCASTF32X4 (R13), K4, Z3
	VUNPCKLPS Z1, Z0, Z4
	VUNPCKHPS Z1, Z0, Z5
	VUNPCKLPS Z3, Z2, Z6
	VUNPCKHPS Z3, Z2, Z7
	VUNPCKLPD Z6, Z4, Z0
	VUNPCKHPD Z6, Z4, Z1
	VUNPCKLPD Z7, Z5, Z2
	VUNPCKHPD Z7, Z5, Z3
	VMOVUPS Z0, K1, (DI)
	VMOVUPS Z1, K1, (DI)(DX*1)
	VMOVUPS Z2, K1, (DI)(DX*2)
	VMOVUPS Z3, K1, (DI)(SI*1)
	LEAQ (DI)(DX*4), DI
	ADDQ $16, R8
	ADDQ $16, R9
	ADDQ $16, R10
	ADDQ $16, R11
	ADDQ $16, R12
	ADDQ $16, R13
	SUBQ $4, CX
	JNZ  steps
	VZEROUPPER
	RET

// func pairRowsAVX512(count int, dst *float32, width int, src *uint16, ld, n int)
// Registers: K1 and K2 the elements of two halves, K3 and K4 the places that are written.
TEXT ·pairRowsAVX512(SB), NOSPLIT, $0-48
	MOVQ count+0(FP), R10
	MOVQ dst+8(FP), DI
	MOVQ width+16(FP), R9
	MOVQ src+24(FP), SI
	MOVQ ld+32(FP), AX
	MOVQ n+40(FP), CX
	SHLQ $1, AX
	MOVQ $1, R8
	SHLQ CX, R8
	DECQ R8
	KMOVW R8, K1
	SHRQ $16, R8
	KMOVW R8, K2
	MOVQ R9, CX
	MOVQ $1, R8
	SHLQ CX, R8
	DECQ R8
	KMOVW R8, K3
	SHRQ $16, R8
	KMOVW R8, K4
	SHLQ $2, R9

loop:
	VPMOVZXWD.Z (SI), K1, Z0
	VPMOVZXWD.Z (SI)(AX*1), K1, Z1
	VPSLLD $16, Z1, Z1
	VPORD Z1, Z0, Z0
	VMOVDQU32 Z0, K3, (DI)
	TESTQ R8, R8
	JZ   next
	VPMOVZXWD.Z 32(SI), K2, Z0
	VPMOVZXWD.Z 32(SI)(AX*1), K2, Z1
	VPSLLD $16, Z1, Z1
	VPORD Z1, Z0, Z0
	VMOVDQU32 Z0, K4, 64(DI)

next:
	LEAQ (SI)(AX*2), SI
	ADDQ R9, DI
	DECQ R10
	JNZ  loop
	VZEROUPPER
	RET
