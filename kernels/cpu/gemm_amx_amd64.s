#include "textflag.h"
#include "funcdata.h"

// Go's assembler does not know the instructions of AMX: they are bytes, as clang's assembler makes them.

#define LDTILECFG_AX     BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0x00
#define TILERELEASE      BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0xc0
#define TILEZERO_0       BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xc0
#define TILEZERO_1       BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xc8
#define TILEZERO_2       BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xd0
#define TILEZERO_3       BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xd8
// TILELOADD (SI)(R8*1), T4 and 1024(SI)(R8*1), T5; (BX)(R9*1), T6 and 64(BX)(R9*1), T7
#define TILELOADD_SI_4   BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x24; BYTE $0x06
#define TILELOADD_SI_5   BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0xac; BYTE $0x06; LONG $0x00000400
#define TILELOADD_BX_6   BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x34; BYTE $0x0b
#define TILELOADD_BX_7   BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x7c; BYTE $0x0b; BYTE $0x40
// TDPBF16PS T6, T4, T0 and so on: of rows T4 and T5, and columns T6 and T7
#define TDPBF16PS_6_4_0  BYTE $0xc4; BYTE $0xe2; BYTE $0x4a; BYTE $0x5c; BYTE $0xc4
#define TDPBF16PS_7_4_1  BYTE $0xc4; BYTE $0xe2; BYTE $0x42; BYTE $0x5c; BYTE $0xcc
#define TDPBF16PS_6_5_2  BYTE $0xc4; BYTE $0xe2; BYTE $0x4a; BYTE $0x5c; BYTE $0xd5
#define TDPBF16PS_7_5_3  BYTE $0xc4; BYTE $0xe2; BYTE $0x42; BYTE $0x5c; BYTE $0xdd
#define TDPFP16PS_6_4_0  BYTE $0xc4; BYTE $0xe2; BYTE $0x4b; BYTE $0x5c; BYTE $0xc4
#define TDPFP16PS_7_4_1  BYTE $0xc4; BYTE $0xe2; BYTE $0x43; BYTE $0x5c; BYTE $0xcc
#define TDPFP16PS_6_5_2  BYTE $0xc4; BYTE $0xe2; BYTE $0x4b; BYTE $0x5c; BYTE $0xd5
#define TDPFP16PS_7_5_3  BYTE $0xc4; BYTE $0xe2; BYTE $0x43; BYTE $0x5c; BYTE $0xdd
// TILESTORED T0, (DI)(R10*1) and T1, 64(DI)(R10*1); T2, (R11)(R10*1) and T3, 64(R11)(R10*1)
#define TILESTORED_0     BYTE $0xc4; BYTE $0xa2; BYTE $0x7a; BYTE $0x4b; BYTE $0x04; BYTE $0x17
#define TILESTORED_1     BYTE $0xc4; BYTE $0xa2; BYTE $0x7a; BYTE $0x4b; BYTE $0x4c; BYTE $0x17; BYTE $0x40
#define TILESTORED_2     BYTE $0xc4; BYTE $0x82; BYTE $0x7a; BYTE $0x4b; BYTE $0x14; BYTE $0x13
#define TILESTORED_3     BYTE $0xc4; BYTE $0x82; BYTE $0x7a; BYTE $0x4b; BYTE $0x5c; BYTE $0x13; BYTE $0x40

// Eight tiles of 16 rows of 64 bytes.
DATA wholeTiles<>+0(SB)/8, $1
DATA wholeTiles<>+8(SB)/8, $0
DATA wholeTiles<>+16(SB)/8, $0x0040004000400040
DATA wholeTiles<>+24(SB)/8, $0x0040004000400040
DATA wholeTiles<>+32(SB)/8, $0
DATA wholeTiles<>+40(SB)/8, $0
DATA wholeTiles<>+48(SB)/8, $0x1010101010101010
DATA wholeTiles<>+56(SB)/8, $0
GLOBL wholeTiles<>(SB), RODATA|NOPTR, $64

// BEGIN takes the arguments: CX pairs, SI a, BX b, DI c, R10 bytes from row to row of c.
#define BEGIN \
	NO_LOCAL_POINTERS; \
	MOVQ k+0(FP), CX; \
	MOVQ a+8(FP), SI; \
	MOVQ b+16(FP), BX; \
	MOVQ c+24(FP), DI; \
	MOVQ ld+32(FP), R10; \
	SHLQ $2, R10; \
	MOVQ $64, R8; \
	MOVQ $128, R9; \
	LEAQ wholeTiles<>(SB), AX; \
	LDTILECFG_AX; \
	TILEZERO_0; \
	TILEZERO_1; \
	TILEZERO_2; \
	TILEZERO_3

// LOAD loads 16 pairs of 32 rows and of 32 columns.
#define LOAD \
	TILELOADD_SI_4; \
	TILELOADD_BX_6; \
	TILELOADD_BX_7; \
	TILELOADD_SI_5; \
	ADDQ $2048, SI; \
	ADDQ $2048, BX

// STORE writes the four tiles to DI.
#define STORE \
	MOVQ R10, R11; \
	SHLQ $4, R11; \
	ADDQ DI, R11; \
	TILESTORED_0; \
	TILESTORED_1; \
	TILESTORED_2; \
	TILESTORED_3; \
	TILERELEASE

// FINISH writes the tiles to c: as they are, or by way of the stack, multiplied by alpha and added to what is there if that is asked for.
#define FINISH \
	CMPB add+44(FP), $0; \
	JNE  scaled; \
	CMPL alpha+40(FP), $0x3f800000; \
	JNE  scaled; \
	STORE; \
	RET; \
scaled: \
	MOVQ DI, DX; \
	MOVQ R10, R12; \
	LEAQ sums-4096(SP), DI; \
	MOVQ $128, R10; \
	STORE; \
	VBROADCASTSS alpha+40(FP), Z31; \
	MOVBLZX add+44(FP), AX; \
	MOVQ $32, R13; \
rows: \
	VMULPS (DI), Z31, Z0; \
	VMULPS 64(DI), Z31, Z1; \
	TESTB AX, AX; \
	JZ write; \
	VADDPS (DX), Z0, Z0; \
	VADDPS 64(DX), Z1, Z1; \
write: \
	VMOVUPS Z0, (DX); \
	VMOVUPS Z1, 64(DX); \
	ADDQ $128, DI; \
	ADDQ R12, DX; \
	DECQ R13; \
	JNZ rows; \
	VZEROUPPER; \
	RET

// func tile32x32BF16AMX(k int, a, b, c *float32, ld int, alpha float32, add bool)
TEXT ·tile32x32BF16AMX(SB), 0, $4096-45
	BEGIN

steps:
	LOAD
	TDPBF16PS_6_4_0
	TDPBF16PS_7_4_1
	TDPBF16PS_6_5_2
	TDPBF16PS_7_5_3
	SUBQ $16, CX
	JG   steps
	FINISH

// func tile32x32FP16AMX(k int, a, b, c *float32, ld int, alpha float32, add bool)
TEXT ·tile32x32FP16AMX(SB), 0, $4096-45
	BEGIN

steps:
	LOAD
	TDPFP16PS_6_4_0
	TDPFP16PS_7_4_1
	TDPFP16PS_6_5_2
	TDPFP16PS_7_5_3
	SUBQ $16, CX
	JG   steps
	FINISH

// func cpuid(leaf, sub uint32) (a, b, c, d uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-24
	MOVL leaf+0(FP), AX
	MOVL sub+4(FP), CX
	CPUID
	MOVL AX, a+8(FP)
	MOVL BX, b+12(FP)
	MOVL CX, c+16(FP)
	MOVL DX, d+20(FP)
	RET
