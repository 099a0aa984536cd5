#include "textflag.h"

// Loops over rows of keys and values as they lie, for attention of few queries on float32, with AVX2 and FMA.

// func rowDotsAVX2(n, depth int, q, rows *float32, ld int, scale float32, s *float32)
// Eight rows at a time, each with a vector of sums: as many as the multipliers have in work. Registers: Y0-Y7 the sums, Y8 eight
// elements of q, Y9 the scale; R8 the first row and R9 the fifth, BX the bytes between rows, R10 three times as many.
TEXT ·rowDotsAVX2(SB), NOSPLIT, $0-56
	MOVQ n+0(FP), CX
	MOVQ depth+8(FP), DX
	MOVQ q+16(FP), SI
	MOVQ rows+24(FP), R8
	MOVQ ld+32(FP), BX
	VBROADCASTSS scale+40(FP), Y9
	MOVQ s+48(FP), DI
	SHLQ $2, BX
	LEAQ (BX)(BX*2), R10
	SHRQ $3, DX

eight:
	LEAQ (R8)(BX*4), R9
	MOVQ R8, R11
	MOVQ R9, R12
	MOVQ SI, R13
	MOVQ DX, AX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7

along:
	VMOVUPS (R13), Y8
	VFMADD231PS (R11), Y8, Y0
	VFMADD231PS (R11)(BX*1), Y8, Y1
	VFMADD231PS (R11)(BX*2), Y8, Y2
	VFMADD231PS (R11)(R10*1), Y8, Y3
	VFMADD231PS (R12), Y8, Y4
	VFMADD231PS (R12)(BX*1), Y8, Y5
	VFMADD231PS (R12)(BX*2), Y8, Y6
	VFMADD231PS (R12)(R10*1), Y8, Y7
	ADDQ $32, R11
	ADDQ $32, R12
	ADDQ $32, R13
	DECQ AX
	JNZ  along

	VHADDPS Y1, Y0, Y0
	VHADDPS Y3, Y2, Y2
	VHADDPS Y5, Y4, Y4
	VHADDPS Y7, Y6, Y6
	VHADDPS Y2, Y0, Y0
	VHADDPS Y6, Y4, Y4
	VPERM2F128 $0x20, Y4, Y0, Y1
	VPERM2F128 $0x31, Y4, Y0, Y2
	VADDPS Y2, Y1, Y1
	VMULPS Y9, Y1, Y1
	VMOVUPS Y1, (DI)
	ADDQ $32, DI
	LEAQ (R8)(BX*8), R8
	SUBQ $8, CX
	JNZ  eight
	VZEROUPPER
	RET

// func rowSumsAVX2(n, width int, p, rows *float32, ld int, acc *float32)
// Up to 64 columns at a time stay in registers while all rows pass by: Y0-Y7, and Y8 is the factor of a row. BX is the bytes between
// rows, DX the columns that are left.
TEXT ·rowSumsAVX2(SB), NOSPLIT, $0-48
	MOVQ width+8(FP), DX
	MOVQ rows+24(FP), R8
	MOVQ ld+32(FP), BX
	MOVQ acc+40(FP), DI
	SHLQ $2, BX

columns:
	MOVQ n+0(FP), CX
	MOVQ p+16(FP), SI
	MOVQ R8, R9
	CMPQ DX, $64
	JLT  narrow
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	VMOVUPS 128(DI), Y4
	VMOVUPS 160(DI), Y5
	VMOVUPS 192(DI), Y6
	VMOVUPS 224(DI), Y7

wide:
	VBROADCASTSS (SI), Y8
	VFMADD231PS (R9), Y8, Y0
	VFMADD231PS 32(R9), Y8, Y1
	VFMADD231PS 64(R9), Y8, Y2
	VFMADD231PS 96(R9), Y8, Y3
	VFMADD231PS 128(R9), Y8, Y4
	VFMADD231PS 160(R9), Y8, Y5
	VFMADD231PS 192(R9), Y8, Y6
	VFMADD231PS 224(R9), Y8, Y7
	ADDQ $4, SI
	ADDQ BX, R9
	DECQ CX
	JNZ  wide
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VMOVUPS Y4, 128(DI)
	VMOVUPS Y5, 160(DI)
	VMOVUPS Y6, 192(DI)
	VMOVUPS Y7, 224(DI)
	ADDQ $256, DI
	ADDQ $256, R8
	SUBQ $64, DX
	JNZ  columns
	VZEROUPPER
	RET

narrow:
	VMOVUPS (DI), Y0

eight:
	VBROADCASTSS (SI), Y8
	VFMADD231PS (R9), Y8, Y0
	ADDQ $4, SI
	ADDQ BX, R9
	DECQ CX
	JNZ  eight
	VMOVUPS Y0, (DI)
	ADDQ $32, DI
	ADDQ $32, R8
	SUBQ $8, DX
	JNZ  columns
	VZEROUPPER
	RET
