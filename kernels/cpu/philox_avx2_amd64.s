#include "textflag.h"

// ROUND is one round on four blocks: Y0-Y3 are the words of their counters, in the lower halves of 64-bit elements; what is in
// the upper halves does not count. Y4, Y5 are the multipliers, Y6, Y7 the key, Y8, Y9 what the key rises by.
#define ROUND \
	VPMULUDQ Y4, Y0, Y10; \
	VPMULUDQ Y5, Y2, Y11; \
	VPSRLQ $32, Y11, Y0; \
	VPXOR Y1, Y0, Y0; \
	VPXOR Y6, Y0, Y0; \
	VPSRLQ $32, Y10, Y2; \
	VPXOR Y3, Y2, Y2; \
	VPXOR Y7, Y2, Y2; \
	VMOVDQA Y11, Y1; \
	VMOVDQA Y10, Y3; \
	VPADDD Y8, Y6, Y6; \
	VPADDD Y9, Y7, Y7

DATA lanes<>+0(SB)/8, $0
DATA lanes<>+8(SB)/8, $1
DATA lanes<>+16(SB)/8, $2
DATA lanes<>+24(SB)/8, $3
GLOBL lanes<>(SB), RODATA|NOPTR, $32

// func philoxAVX2(n int, dst *uint32, key, first uint64, s uint32)
// Registers: Y12 the numbers of the four blocks, Y13 four, Y14 s, Y15 the mask of lower halves.
TEXT ·philoxAVX2(SB), NOSPLIT, $0-36
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ key+16(FP), R8
	VPBROADCASTQ first+24(FP), Y12
	VPADDQ lanes<>(SB), Y12, Y12
	MOVL s+32(FP), AX
	VMOVQ AX, X14
	VPBROADCASTQ X14, Y14
	MOVQ $4, AX
	VMOVQ AX, X13
	VPBROADCASTQ X13, Y13
	VPCMPEQD Y15, Y15, Y15
	VPSRLQ $32, Y15, Y15
	MOVL $0xD2511F53, AX
	VMOVQ AX, X4
	VPBROADCASTQ X4, Y4
	MOVL $0xCD9E8D57, AX
	VMOVQ AX, X5
	VPBROADCASTQ X5, Y5
	MOVL $0x9E3779B9, AX
	VMOVQ AX, X8
	VPBROADCASTQ X8, Y8
	MOVL $0xBB67AE85, AX
	VMOVQ AX, X9
	VPBROADCASTQ X9, Y9

loop:
	VMOVQ R8, X6
	VPBROADCASTQ X6, Y6
	VPSRLQ $32, Y6, Y7
	VMOVDQA Y12, Y0
	VPSRLQ $32, Y12, Y1
	VMOVDQA Y14, Y2
	VPXOR Y3, Y3, Y3
	ROUND
	ROUND
	ROUND
	ROUND
	ROUND
	ROUND
	ROUND
	ROUND
	ROUND
	ROUND
	VPAND Y15, Y0, Y0
	VPAND Y15, Y2, Y2
	VPSLLQ $32, Y1, Y1
	VPSLLQ $32, Y3, Y3
	VPOR Y1, Y0, Y0           // words 0 and 1 of each block
	VPOR Y3, Y2, Y2           // words 2 and 3
	VPUNPCKLQDQ Y2, Y0, Y10   // blocks 0 and 2
	VPUNPCKHQDQ Y2, Y0, Y11   // blocks 1 and 3
	VPERM2I128 $0x20, Y11, Y10, Y0
	VPERM2I128 $0x31, Y11, Y10, Y1
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	ADDQ $64, DI
	VPADDQ Y13, Y12, Y12
	SUBQ $4, CX
	JG   loop
	VZEROUPPER
	RET
