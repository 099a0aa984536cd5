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
	VMOVUPS.Z (SI), K1, Z0
	VMOVUPS Z0, (DI)
	ADDQ AX, SI
	ADDQ DX, DI
	DECQ R10
	JNZ  one
	VZEROUPPER
	RET

masked:
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
