#include "textflag.h"

// func callers(from uintptr, pcs *[Depth]uintptr) (n int, hash uint64)
//
// DI array  AX count  SI frame pointer  DX the one before it  CX the highest that may be  R8 hash
//
// There is no frame here, so BP is that of the calling function, whose return address is the first of interest.
TEXT ·callers(SB), NOSPLIT|NOFRAME, $0-32
	MOVQ pcs+8(FP), DI
	MOVQ TLS, CX
	MOVQ 0(CX)(TLS*1), CX // g
	MOVQ 8(CX), CX        // g.stack.hi
	SUBQ $16, CX          // two words at each frame pointer are read
	MOVQ $0x9e3779b97f4a7c15, R9
	XORL AX, AX
	XORL R8, R8
	MOVQ SP, DX
	MOVQ from+0(FP), SI
	TESTQ SI, SI
	JNZ  loop
	MOVQ BP, SI

loop:
	CMPQ  SI, DX
	JLS   done
	CMPQ  SI, CX
	JHI   done
	MOVQ  8(SI), BX
	MOVQ  BX, 0(DI)(AX*8)
	XORQ  BX, R8
	IMULQ R9, R8
	MOVQ  SI, DX
	MOVQ  0(SI), SI
	INCQ  AX
	CMPQ  AX, $128        // Depth
	JLT   loop

done:
	MOVQ AX, n+16(FP)
	MOVQ R8, hash+24(FP)
	RET

// func self() uintptr
TEXT ·self(SB), NOSPLIT|NOFRAME, $0-8
	MOVQ TLS, CX
	MOVQ 0(CX)(TLS*1), CX // g
	MOVQ CX, ret+0(FP)
	RET
