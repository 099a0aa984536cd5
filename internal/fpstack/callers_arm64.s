#include "textflag.h"

// func callers(from uintptr, pcs *[Depth]uintptr) (n int, hash uint64)
//
// R0 array  R1 its end  R3 frame pointer  R2 the one before it  R4 the highest that may be  R5 hash
//
// There is no frame here, so R29 is that of the calling function, one word below its stack pointer; its return address is
// the first of interest.
TEXT ·callers(SB), NOSPLIT|NOFRAME, $0-32
	MOVD pcs+8(FP), R0
	ADD  $(128*8), R0, R1 // Depth
	MOVD 8(g), R4         // g.stack.hi
	SUB  $16, R4          // two words at each frame pointer are read
	MOVD $0x9e3779b97f4a7c15, R6
	MOVD ZR, R5
	MOVD RSP, R2
	SUB  $16, R2
	MOVD from+0(FP), R3
	CBNZ R3, loop
	MOVD R29, R3

loop:
	CMP    R2, R3
	BLS    done
	CMP    R4, R3
	BHI    done
	MOVD   8(R3), R7
	MOVD.P R7, 8(R0)
	EOR    R7, R5
	MUL    R6, R5
	MOVD   R3, R2
	MOVD   0(R3), R3
	CMP    R1, R0
	BLO    loop

done:
	MOVD pcs+8(FP), R1
	SUB  R1, R0
	LSR  $3, R0
	MOVD R0, n+16(FP)
	MOVD R5, hash+24(FP)
	RET

// func self() uintptr
TEXT ·self(SB), NOSPLIT|NOFRAME, $0-8
	MOVD g, R0
	MOVD R0, ret+0(FP)
	RET
