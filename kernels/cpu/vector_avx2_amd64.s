#include "textflag.h"

// Functions of one step and reductions of float32 on AVX2, for n elements, a multiple of 8 that is not 0. Results are the same bits as
// those of the loops in arithmetic.go, pointwise.go and reducers.go.

// func reluAVX2(n int, dst, a *float32)
// An element is kept where it is not less than or equal to 0: where it is greater, or NaN.
TEXT ·reluAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ a+16(FP), SI
	VXORPS Y2, Y2, Y2
	XORQ BX, BX

loop:
	VMOVUPS (SI)(BX*4), Y0
	VCMPPS $0x16, Y2, Y0, Y1
	VANDPS Y0, Y1, Y0
	VMOVUPS Y0, (DI)(BX*4)
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func reluGradAVX2(n int, dst, a, b *float32)
// An element of a is kept where that of b is greater than 0.
TEXT ·reluGradAVX2(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ a+16(FP), SI
	MOVQ b+24(FP), DX
	VXORPS Y2, Y2, Y2
	XORQ BX, BX

loop:
	VMOVUPS (DX)(BX*4), Y1
	VCMPPS $0x16, Y2, Y1, Y1
	VANDPS (SI)(BX*4), Y1, Y0
	VMOVUPS Y0, (DI)(BX*4)
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func squareSumsAVX2(n int, v *float32) (a, b, c, d float64)
TEXT ·squareSumsAVX2(SB), NOSPLIT, $0-48
	MOVQ n+0(FP), CX
	MOVQ v+8(FP), SI
	VXORPD Y0, Y0, Y0

loop:
	VCVTPS2PD (SI), Y1
	VMULPD Y1, Y1, Y1
	VADDPD Y1, Y0, Y0
	ADDQ $16, SI
	SUBQ $4, CX
	JNZ  loop
	VMOVUPD Y0, a+16(FP)
	VZEROUPPER
	RET

// func sumAVX2(n int, v *float32) float64
// n is a multiple of 16. Registers: Y0 to Y3 sixteen sums in float64, of float32 sums of four elements that are 16 apart.
TEXT ·sumAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ v+8(FP), SI
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3
	SUBQ $64, CX
	JLT  rest

loop:
	VMOVUPS (SI), Y4
	VMOVUPS 32(SI), Y6
	VMOVUPS 128(SI), Y5
	VMOVUPS 160(SI), Y7
	VADDPS 64(SI), Y4, Y4
	VADDPS 96(SI), Y6, Y6
	VADDPS 192(SI), Y5, Y5
	VADDPS 224(SI), Y7, Y7
	VADDPS Y5, Y4, Y4
	VADDPS Y7, Y6, Y6
	VEXTRACTF128 $1, Y4, X5
	VEXTRACTF128 $1, Y6, X7
	VCVTPS2PD X4, Y4
	VCVTPS2PD X5, Y5
	VCVTPS2PD X6, Y6
	VCVTPS2PD X7, Y7
	VADDPD Y4, Y0, Y0
	VADDPD Y5, Y1, Y1
	VADDPD Y6, Y2, Y2
	VADDPD Y7, Y3, Y3
	ADDQ $256, SI
	SUBQ $64, CX
	JGE  loop

rest:
	ADDQ $64, CX
	JZ   join

sixteen:
	VCVTPS2PD (SI), Y4
	VCVTPS2PD 16(SI), Y5
	VCVTPS2PD 32(SI), Y6
	VCVTPS2PD 48(SI), Y7
	VADDPD Y4, Y0, Y0
	VADDPD Y5, Y1, Y1
	VADDPD Y6, Y2, Y2
	VADDPD Y7, Y3, Y3
	ADDQ $64, SI
	SUBQ $16, CX
	JNZ  sixteen

join:
	VADDPD Y2, Y0, Y0
	VADDPD Y3, Y1, Y1
	VADDPD Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPD X1, X0, X0
	VHADDPD X0, X0, X0
	VMOVSD X0, ret+16(FP)
	VZEROUPPER
	RET

// func prodAVX2(n int, v *float32) float64
// n is a multiple of 16, at least 16. Registers: Y0 to Y3 sixteen products in float64.
TEXT ·prodAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ v+8(FP), SI
	VCVTPS2PD (SI), Y0
	VCVTPS2PD 16(SI), Y1
	VCVTPS2PD 32(SI), Y2
	VCVTPS2PD 48(SI), Y3
	ADDQ $64, SI
	SUBQ $48, CX
	JLT  rest

loop:
	VCVTPS2PD (SI), Y4
	VCVTPS2PD 16(SI), Y5
	VCVTPS2PD 32(SI), Y6
	VCVTPS2PD 48(SI), Y7
	VCVTPS2PD 64(SI), Y8
	VCVTPS2PD 80(SI), Y9
	VCVTPS2PD 96(SI), Y10
	VCVTPS2PD 112(SI), Y11
	VMULPD Y8, Y4, Y4
	VMULPD Y9, Y5, Y5
	VMULPD Y10, Y6, Y6
	VMULPD Y11, Y7, Y7
	VMULPD Y4, Y0, Y0
	VMULPD Y5, Y1, Y1
	VMULPD Y6, Y2, Y2
	VMULPD Y7, Y3, Y3
	SUBQ $-128, SI
	SUBQ $32, CX
	JGE  loop

rest:
	ADDQ $32, CX
	JLE  join
	VCVTPS2PD (SI), Y4
	VCVTPS2PD 16(SI), Y5
	VCVTPS2PD 32(SI), Y6
	VCVTPS2PD 48(SI), Y7
	VMULPD Y4, Y0, Y0
	VMULPD Y5, Y1, Y1
	VMULPD Y6, Y2, Y2
	VMULPD Y7, Y3, Y3

join:
	VMULPD Y2, Y0, Y0
	VMULPD Y3, Y1, Y1
	VMULPD Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VMULPD X1, X0, X0
	VPERMILPD $1, X0, X1
	VMULSD X1, X0, X0
	VMOVSD X0, ret+16(FP)
	VZEROUPPER
	RET

// func mergeSumAVX2(n int, acc *float64, row *float32)
TEXT ·mergeSumAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ acc+8(FP), DI
	MOVQ row+16(FP), SI
	XORQ BX, BX

loop:
	VCVTPS2PD (SI)(BX*4), Y0
	VCVTPS2PD 16(SI)(BX*4), Y1
	VADDPD (DI)(BX*8), Y0, Y0
	VADDPD 32(DI)(BX*8), Y1, Y1
	VMOVUPD Y0, (DI)(BX*8)
	VMOVUPD Y1, 32(DI)(BX*8)
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func maxAVX2(n int, v *float32) float32
// n is a multiple of 32. NaN if there is one, else the largest element. Registers: Y0 to Y3 the largest of each place, Y8 all ones where there was a
// NaN.
TEXT ·maxAVX2(SB), NOSPLIT, $0-20
	MOVQ n+0(FP), CX
	MOVQ v+8(FP), SI
	VMOVUPS (SI), Y0
	VMOVAPS Y0, Y1
	VMOVAPS Y0, Y2
	VMOVAPS Y0, Y3
	VXORPS Y8, Y8, Y8
	XORQ BX, BX

loop:
	VMOVUPS (SI)(BX*4), Y4
	VMOVUPS 32(SI)(BX*4), Y5
	VMOVUPS 64(SI)(BX*4), Y6
	VMOVUPS 96(SI)(BX*4), Y7
	VCMPPS $3, Y4, Y5, Y9
	VCMPPS $3, Y6, Y7, Y10
	VMAXPS Y4, Y0, Y0
	VMAXPS Y5, Y1, Y1
	VMAXPS Y6, Y2, Y2
	VMAXPS Y7, Y3, Y3
	VORPS Y9, Y8, Y8
	VORPS Y10, Y8, Y8
	ADDQ $32, BX
	CMPQ BX, CX
	JLT  loop
	VMAXPS Y1, Y0, Y0
	VMAXPS Y3, Y2, Y2
	VMAXPS Y2, Y0, Y0
	VEXTRACTF128 $1, Y0, X2
	VMAXPS X2, X0, X0
	VPERMILPS $0x4e, X0, X2
	VMAXPS X2, X0, X0
	VPERMILPS $0xb1, X0, X2
	VMAXPS X2, X0, X0
	VMOVMSKPS Y8, AX
	TESTL AX, AX
	JZ    done
	VPCMPEQD X0, X0, X0 // all ones is a NaN

done:
	VMOVSS X0, ret+16(FP)
	VZEROUPPER
	RET

// func minAVX2(n int, v *float32) float32
// n is a multiple of 32. NaN if there is one, else the least element. Registers: Y0 to Y3 the least of each place, Y8 all ones where there was a
// NaN.
TEXT ·minAVX2(SB), NOSPLIT, $0-20
	MOVQ n+0(FP), CX
	MOVQ v+8(FP), SI
	VMOVUPS (SI), Y0
	VMOVAPS Y0, Y1
	VMOVAPS Y0, Y2
	VMOVAPS Y0, Y3
	VXORPS Y8, Y8, Y8
	XORQ BX, BX

loop:
	VMOVUPS (SI)(BX*4), Y4
	VMOVUPS 32(SI)(BX*4), Y5
	VMOVUPS 64(SI)(BX*4), Y6
	VMOVUPS 96(SI)(BX*4), Y7
	VCMPPS $3, Y4, Y5, Y9
	VCMPPS $3, Y6, Y7, Y10
	VMINPS Y4, Y0, Y0
	VMINPS Y5, Y1, Y1
	VMINPS Y6, Y2, Y2
	VMINPS Y7, Y3, Y3
	VORPS Y9, Y8, Y8
	VORPS Y10, Y8, Y8
	ADDQ $32, BX
	CMPQ BX, CX
	JLT  loop
	VMINPS Y1, Y0, Y0
	VMINPS Y3, Y2, Y2
	VMINPS Y2, Y0, Y0
	VEXTRACTF128 $1, Y0, X2
	VMINPS X2, X0, X0
	VPERMILPS $0x4e, X0, X2
	VMINPS X2, X0, X0
	VPERMILPS $0xb1, X0, X2
	VMINPS X2, X0, X0
	VMOVMSKPS Y8, AX
	TESTL AX, AX
	JZ    done
	VPCMPEQD X0, X0, X0 // all ones is a NaN

done:
	VMOVSS X0, ret+16(FP)
	VZEROUPPER
	RET

// func mergeMaxAVX2(n int, acc, row *float32)
// acc becomes the larger of both, or NaN if one of them is. The instruction gives acc where one is NaN, so NaN of row are put in.
TEXT ·mergeMaxAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ acc+8(FP), DI
	MOVQ row+16(FP), SI
	XORQ BX, BX

loop:
	VMOVUPS (SI)(BX*4), Y0
	VCMPPS $3, Y0, Y0, Y1
	VMAXPS (DI)(BX*4), Y0, Y2
	VBLENDVPS Y1, Y0, Y2, Y2
	VMOVUPS Y2, (DI)(BX*4)
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func mergeMinAVX2(n int, acc, row *float32)
// acc becomes the lesser of both, or NaN if one of them is. The instruction gives acc where one is NaN, so NaN of row are put in.
TEXT ·mergeMinAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ acc+8(FP), DI
	MOVQ row+16(FP), SI
	XORQ BX, BX

loop:
	VMOVUPS (SI)(BX*4), Y0
	VCMPPS $3, Y0, Y0, Y1
	VMINPS (DI)(BX*4), Y0, Y2
	VBLENDVPS Y1, Y0, Y2, Y2
	VMOVUPS Y2, (DI)(BX*4)
	ADDQ $8, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func evenOddAVX2(n int, even, odd, src *float32)
// src has 2n elements.
TEXT ·evenOddAVX2(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	MOVQ even+8(FP), DI
	MOVQ odd+16(FP), DX
	MOVQ src+24(FP), SI
	XORQ BX, BX

loop:
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
	JLT  loop
	VZEROUPPER
	RET
