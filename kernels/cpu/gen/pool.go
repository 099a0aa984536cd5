package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Loops of gradients of max pooling: poolterms.go specifies them.

func generatePool() {
	poolNumbered("poolNumberedAVX2")
	padResults("padResultsAVX2")
}

// poolNumbered adds the terms of rows of an image, whose even and odd columns have their own, to sixteen columns of either at a time, or to eight where there
// are no more. The last ones overlap those before them. Registers: R8 counts rows, R9 is half of the columns, and R15 where the last ones of it begin, BX the
// column halved; R10 and R11 are the numbers of terms, of which the first is at AX, and R12 goes along them.
func poolNumbered(name string) {
	TEXT(name, NOSPLIT, "func(rows, half int, dst, src *float32, numbers *uint8, terms *uint64)")
	Load(Param("rows"), R8)
	Load(Param("half"), R9)
	Load(Param("dst"), RDI)
	Load(Param("src"), RSI)
	Load(Param("numbers"), RDX)
	Load(Param("terms"), RAX)
	MOVQ(R9, R15)
	SUBQ(U8(16), R15)
	JGE(LabelRef("row"))
	ADDQ(U8(8), R15)
	Label("row")
	MOVLQSX(Mem{Base: RAX}, R10)
	MOVLQSX(Mem{Base: RAX, Disp: 4}, R11)
	ADDQ(U8(8), RAX)
	XORQ(RBX, RBX)
	CMPQ(R9, U8(16))
	JLT(LabelRef("eight"))
	numberedColumns("sixteen", 2)
	numberedColumns("eight", 1)
	Label("next")
	MOVQ(R12, RAX)
	LEAQ(Mem{Base: RDI, Index: R9, Scale: 8}, RDI)
	DECQ(R8)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// numberedColumns is the loop over the columns of a row, so many vectors of either kind at a time.
func numberedColumns(label string, vectors int) {
	even, odd := []VecPhysical{Y0, Y1}[:vectors], []VecPhysical{Y2, Y3}[:vectors]
	Label(label)
	for v := range vectors {
		VXORPS(even[v], even[v], even[v])
		VXORPS(odd[v], odd[v], odd[v])
	}
	MOVQ(RAX, R12)
	numberedTerms(label+"Even", R10, even)
	numberedTerms(label+"Odd", R11, odd)
	for v := range vectors {
		VUNPCKLPS(odd[v], even[v], Y4)
		VUNPCKHPS(odd[v], even[v], Y5)
		VPERM2F128(U8(0x20), Y5, Y4, Y6)
		VPERM2F128(U8(0x31), Y5, Y4, Y7)
		VMOVUPS(Y6, Mem{Base: RDI, Index: RBX, Scale: 8, Disp: 64 * v})
		VMOVUPS(Y7, Mem{Base: RDI, Index: RBX, Scale: 8, Disp: 64*v + 32})
	}
	ADDQ(U8(8*vectors), RBX)
	CMPQ(RBX, R9)
	JGE(LabelRef("next"))
	CMPQ(RBX, R15)
	CMOVQGT(R15, RBX)
	JMP(LabelRef(label))
}

// numberedTerms adds terms where their numbers are those of the results.
func numberedTerms(label string, count Register, sums []VecPhysical) {
	MOVQ(count, RCX)
	TESTQ(RCX, RCX)
	JZ(LabelRef(label + "Done"))
	Label(label)
	MOVLQSX(Mem{Base: R12}, R13)
	ADDQ(RBX, R13)
	VPBROADCASTB(Mem{Base: R12, Disp: 4}, X4)
	numbers := Mem{Base: RDX, Index: R13, Scale: 1}
	if len(sums) == 1 {
		VMOVQ(numbers, X5)
		VPCMPEQB(X5, X4, X4)
	} else {
		VPCMPEQB(numbers, X4, X4)
	}
	for v, sum := range sums {
		if v > 0 {
			VPSRLDQ(U8(8), X4, X4)
		}
		VPMOVSXBD(X4, Y5)
		VANDPS(Mem{Base: RSI, Index: R13, Scale: 4, Disp: 32 * v}, Y5, Y5)
		VADDPS(Y5, sum, sum)
	}
	ADDQ(U8(8), R12)
	DECQ(RCX)
	JNZ(LabelRef(label))
	Label(label + "Done")
}

// padResults copies rows of at least eight results and of their numbers to where rows are pitch elements apart. The last eight overlap those before them.
func padResults(name string) {
	TEXT(name, NOSPLIT, "func(rows, n int, values *float32, numbers *uint8, pitch int, src *float32, from *uint8)")
	Load(Param("rows"), R8)
	Load(Param("n"), R9)
	Load(Param("values"), RDI)
	Load(Param("numbers"), RAX)
	Load(Param("pitch"), R10)
	Load(Param("src"), RSI)
	Load(Param("from"), RDX)
	LEAQ(Mem{Base: R9, Disp: -8}, R11)
	Label("row")
	XORQ(RBX, RBX)
	Label("eight")
	VMOVUPS(Mem{Base: RSI, Index: RBX, Scale: 4}, Y0)
	MOVQ(Mem{Base: RDX, Index: RBX, Scale: 1}, RCX)
	VMOVUPS(Y0, Mem{Base: RDI, Index: RBX, Scale: 4})
	MOVQ(RCX, Mem{Base: RAX, Index: RBX, Scale: 1})
	ADDQ(U8(8), RBX)
	CMPQ(RBX, R9)
	JGE(LabelRef("next"))
	CMPQ(RBX, R11)
	CMOVQGT(R11, RBX)
	JMP(LabelRef("eight"))
	Label("next")
	LEAQ(Mem{Base: RSI, Index: R9, Scale: 4}, RSI)
	ADDQ(R9, RDX)
	LEAQ(Mem{Base: RDI, Index: R10, Scale: 4}, RDI)
	ADDQ(R10, RAX)
	DECQ(R8)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
