//go:build ((linux && !android) || (darwin && !ios)) && !portablecalls

#include "textflag.h"

// Offsets in a record; see batch.go.
#define RECORD_FN     0
#define RECORD_RESULT 8
#define RECORD_N      16
#define RECORD_ARGS   24
#define RECORD_SIZE   216

// Bytes of stack for the arguments behind the sixth: 18 words, a multiple of 16.
#define STACK_ARGS 144

GLOBL ·crossABI0(SB), NOPTR|RODATA, $8
DATA ·crossABI0(SB)/8, $cross(SB)

// cross is a C function: void cross(Batch *b). It makes the calls of b until one does not return 0.
//
// R12 = b, BX = the current record, R13 = calls that returned 0. All three survive the calls, as the C convention has it; the
// caller's values are saved here. The first six arguments go into registers, the others to the stack. At each CALL the stack
// pointer is a multiple of 16: on entry it is 8 off, five registers are saved, and STACK_ARGS is a multiple of 16.
TEXT cross(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BP
	MOVQ  SP, BP
	PUSHQ BX
	PUSHQ R12
	PUSHQ R13
	PUSHQ R14
	SUBQ  $STACK_ARGS, SP

	MOVQ DI, R12
	LEAQ 16(R12), BX
	XORQ R13, R13

next:
	CMPQ R13, 0(R12)
	JGE  finish

	// Arguments 6 and up: from args[6+i] to the stack's word i.
	MOVQ RECORD_N(BX), CX
	SUBQ $6, CX
	JLE  registers
	XORQ DX, DX

stack:
	MOVQ (RECORD_ARGS+48)(BX)(DX*8), AX
	MOVQ AX, 0(SP)(DX*8)
	INCQ DX
	CMPQ DX, CX
	JLT  stack

registers:
	MOVQ (RECORD_ARGS+0)(BX), DI
	MOVQ (RECORD_ARGS+8)(BX), SI
	MOVQ (RECORD_ARGS+16)(BX), DX
	MOVQ (RECORD_ARGS+24)(BX), CX
	MOVQ (RECORD_ARGS+32)(BX), R8
	MOVQ (RECORD_ARGS+40)(BX), R9
	MOVQ RECORD_FN(BX), R11
	XORL AX, AX               // variadic functions: no arguments in vector registers
	CALL R11
	MOVL AX, AX               // the result has 32 bits; the upper ones are undefined
	MOVQ AX, RECORD_RESULT(BX)
	TESTL AX, AX
	JNE  finish
	INCQ R13
	ADDQ $RECORD_SIZE, BX
	JMP  next

finish:
	MOVQ R13, 8(R12)
	XORL AX, AX
	ADDQ $STACK_ARGS, SP
	POPQ R14
	POPQ R13
	POPQ R12
	POPQ BX
	POPQ BP
	RET
