#include "textflag.h"

// Pooling of rows of results, n of them, at least 8, of which the last eight overlap those before them. Element places[k] of src, and those beside it, are
// place k of the windows.

// func averagePlacesAVX2(n int, dst, src *float32, places *int32, count int, divisor float64)
TEXT ·averagePlacesAVX2(SB), NOSPLIT, $0-48
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ src+16(FP), SI
	MOVQ places+24(FP), DX
	MOVQ count+32(FP), R8
	VBROADCASTSD divisor+40(FP), Y15
	LEAQ -8(CX), R10
	XORQ BX, BX

group:
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	LEAQ (SI)(BX*4), R11
	XORQ R9, R9

place:
	MOVLQSX (DX)(R9*4), AX
	VCVTPS2PD (R11)(AX*4), Y2
	VCVTPS2PD 16(R11)(AX*4), Y3
	VADDPD Y2, Y0, Y0
	VADDPD Y3, Y1, Y1
	INCQ R9
	CMPQ R9, R8
	JLT  place
	VDIVPD Y15, Y0, Y0
	VDIVPD Y15, Y1, Y1
	VCVTPD2PSY Y0, X0
	VCVTPD2PSY Y1, X1
	VMOVUPS X0, (DI)(BX*4)
	VMOVUPS X1, 16(DI)(BX*4)
	ADDQ $8, BX
	CMPQ BX, CX
	JGE  done
	CMPQ BX, R10
	CMOVQGT R10, BX
	JMP  group

done:
	VZEROUPPER
	RET

// func mostPlacesAVX2(n int, dst *float32, numbers *int32, src *float32, places *int32, count int, starts *int32, first int32)
// Numbers begin with those at starts, and the first place's is first. A value is taken where it is not less than or equal to the largest one, unless that is
// NaN and the value is not.
TEXT ·mostPlacesAVX2(SB), NOSPLIT, $0-60
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ numbers+16(FP), R12
	MOVQ src+24(FP), SI
	MOVQ places+32(FP), DX
	MOVQ count+40(FP), R8
	MOVQ starts+48(FP), R13
	VBROADCASTSS first+56(FP), Y14
	LEAQ -8(CX), R10
	XORQ BX, BX
	VPCMPEQD Y12, Y12, Y12
	VPSRLD $31, Y12, Y13  // 1
	VPSLLD $23, Y12, Y12  // the bits of -infinity

group:
	VMOVAPS Y12, Y0
	VPADDD (R13)(BX*4), Y14, Y1
	VMOVDQA Y14, Y7
	LEAQ (SI)(BX*4), R11
	XORQ R9, R9

place:
	MOVLQSX (DX)(R9*4), AX
	VMOVUPS (R11)(AX*4), Y2
	VCMPPS $0x16, Y0, Y2, Y3 // not value <= most
	VCMPPS $7, Y0, Y0, Y4    // most is a number
	VCMPPS $3, Y2, Y2, Y5    // the value is NaN
	VORPS Y5, Y4, Y4
	VANDPS Y4, Y3, Y3
	VBLENDVPS Y3, Y2, Y0, Y0
	VBLENDVPS Y3, Y7, Y1, Y1
	VPADDD Y13, Y7, Y7
	INCQ R9
	CMPQ R9, R8
	JLT  place
	VMOVUPS Y0, (DI)(BX*4)
	VMOVDQU Y1, (R12)(BX*4)
	ADDQ $8, BX
	CMPQ BX, CX
	JGE  done
	CMPQ BX, R10
	CMOVQGT R10, BX
	JMP  group

done:
	VZEROUPPER
	RET

// func evenOddRowsAVX2(rows, n int, even, odd *float32, to int, src *float32, from int)
// Rows of 2n elements, from bytes apart, are sorted into even and odd ones; n of either, in rows that are to bytes apart.
TEXT ·evenOddRowsAVX2(SB), NOSPLIT, $0-56
	MOVQ rows+0(FP), R8
	MOVQ n+8(FP), CX
	MOVQ even+16(FP), DI
	MOVQ odd+24(FP), DX
	MOVQ to+32(FP), R9
	MOVQ src+40(FP), SI
	MOVQ from+48(FP), R11
	LEAQ -8(CX), R10

row:
	XORQ BX, BX

group:
	VMOVUPS (SI)(BX*8), Y0
	VMOVUPS 32(SI)(BX*8), Y1
	VSHUFPS $0x88, Y1, Y0, Y2
	VSHUFPS $0xdd, Y1, Y0, Y3
	VPERMPD $0xd8, Y2, Y2
	VPERMPD $0xd8, Y3, Y3
	VMOVUPS Y2, (DI)(BX*4)
	VMOVUPS Y3, (DX)(BX*4)
	ADDQ $8, BX
	CMPQ BX, CX
	JGE  next
	CMPQ BX, R10
	CMOVQGT R10, BX
	JMP  group

next:
	ADDQ R9, DI
	ADDQ R9, DX
	ADDQ R11, SI
	DECQ R8
	JNZ  row
	VZEROUPPER
	RET
