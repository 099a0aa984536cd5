package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Loops of convolutions that read one operand where it lies: convcorrelate.go, convfew.go and convshiftblock.go specify them.

func generateConv() {
	correlate("correlate6x16AVX2", ymm)
	few("few3x32AVX2")
	everySecond("everySecondRowsAVX2")
	seconds("toEverySecondAVX2")
	pairs("interleaveRowsAVX2")
}

// generateConv512 writes those that are worth wider vectors.
func generateConv512() {
	correlate("correlate6x32AVX512", zmm)
	shift("shifts16AVX512", 16)
	everySecond512("everySecondRowsAVX512")
}

// correlate adds the sums over places of six elements of one operand times two vectors of the other. Assembly reads the call by the places
// of its fields.
func correlate(name string, v vectors) {
	const rows = 6
	pointers := []GPPhysical{R8, R9, R10, R11, R12, R13}
	sums, left, right, elements := v.registers[:2*rows], v.registers[2*rows], v.registers[2*rows+1], v.registers[2*rows+2:]
	TEXT(name, NOSPLIT, "func(c *int)")
	Load(Param("c"), R14)
	field := func(i int) Mem { return Mem{Base: R14, Disp: 8 * i} }
	const a, b, to, offsets, planes, lines, count, step, lineSkip, planeSkip = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
	MOVQ(field(offsets), RSI)
	MOVQ(field(a), RAX)
	for i, p := range pointers {
		MOVQ(Mem{Base: RSI, Disp: 8 * i}, p)
		ADDQ(RAX, p)
	}
	MOVQ(field(b), RBX)
	MOVQ(field(step), RSI)
	for _, r := range sums {
		v.zero(r)
	}
	XORQ(RAX, RAX)
	MOVQ(field(planes), RDI)
	Label("plane")
	MOVQ(field(lines), RDX)
	Label("line")
	MOVQ(field(count), RCX)
	Label("place")
	VMOVUPS(Mem{Base: RBX}, left)
	VMOVUPS(Mem{Base: RBX, Disp: v.bytes}, right)
	for i, p := range pointers {
		element := elements[i%2]
		VBROADCASTSS(Mem{Base: p, Index: RAX, Scale: 1}, element)
		VFMADD231PS(left, element, sums[2*i])
		VFMADD231PS(right, element, sums[2*i+1])
	}
	ADDQ(U32(2*v.bytes), RBX)
	ADDQ(RSI, RAX)
	DECQ(RCX)
	JNZ(LabelRef("place"))
	ADDQ(field(lineSkip), RAX)
	DECQ(RDX)
	JNZ(LabelRef("line"))
	ADDQ(field(planeSkip), RAX)
	DECQ(RDI)
	JNZ(LabelRef("plane"))
	MOVQ(field(to), RDX)
	for i, r := range sums {
		at := Mem{Base: RDX, Disp: v.bytes * i}
		VADDPS(at, r, r)
		VMOVUPS(r, at)
	}
	VZEROUPPER()
	RET()
}

// few computes three rows of a product for 32 columns, which lie side by side at a distance of its own for each step.
func few(name string) {
	const rows, across = 3, 4
	sums := ymm.registers[:rows*across]
	TEXT(name, NOSPLIT, "func(steps int, weights *float32, image *float32, offsets *int, c *float32, ld int)")
	Load(Param("steps"), RCX)
	Load(Param("weights"), RAX)
	Load(Param("image"), RBX)
	Load(Param("offsets"), RSI)
	Load(Param("c"), RDX)
	Load(Param("ld"), RDI)
	SHLQ(U8(2), RDI)
	for _, r := range sums {
		VXORPS(r, r, r)
	}
	Label("step")
	MOVQ(Mem{Base: RSI}, R8)
	for r := range rows {
		VBROADCASTSS(Mem{Base: RAX, Disp: 4 * r}, ymm.registers[12+r])
	}
	for i := range across {
		VMOVUPS(Mem{Base: RBX, Index: R8, Scale: 4, Disp: 32 * i}, Y15)
		for r := range rows {
			VFMADD231PS(Y15, ymm.registers[12+r], sums[across*r+i])
		}
	}
	ADDQ(U32(4*rows), RAX)
	ADDQ(U32(8), RSI)
	DECQ(RCX)
	JNZ(LabelRef("step"))
	for r := range rows {
		for i := range across {
			VMOVUPS(sums[across*r+i], Mem{Base: RDX, Disp: 32 * i})
		}
		if r < rows-1 {
			ADDQ(RDI, RDX)
		}
	}
	VZEROUPPER()
	RET()
}

// everySecond copies every second element of rows, eight at a time. The last eight of a row are those at odd places from the element before them on, so that
// nothing is read behind the last one.
func everySecond(name string) {
	TEXT(name, NOSPLIT, "func(rows, n int, dst *float32, to int, src *float32, from int)")
	Load(Param("rows"), R8)
	Load(Param("n"), R9)
	Load(Param("dst"), RDX)
	Load(Param("to"), R10)
	Load(Param("src"), RSI)
	Load(Param("from"), R11)
	SUBQ(U8(8), R9)
	eight := func(i Register, back int, odd uint64) {
		VMOVUPS(Mem{Base: RSI, Index: i, Scale: 8, Disp: -4 * back}, Y0)
		VSHUFPS(U8(odd), Mem{Base: RSI, Index: i, Scale: 8, Disp: 32 - 4*back}, Y0, Y0)
		VPERMPD(U8(0xd8), Y0, Y0)
		VMOVUPS(Y0, Mem{Base: RDX, Index: i, Scale: 4})
	}
	Label("row")
	XORQ(RBX, RBX)
	Label("eight")
	eight(RBX, 0, 0x88)
	ADDQ(U8(8), RBX)
	CMPQ(RBX, R9)
	JLT(LabelRef("eight"))
	eight(R9, 1, 0xdd)
	ADDQ(R10, RDX)
	ADDQ(R11, RSI)
	DECQ(R8)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// everySecond512 is everySecond for sixteen elements at a time, and rows of sixteen at least. A mask leaves out what is behind the last one.
func everySecond512(name string) {
	at := GLOBL("everySecondPlaces", 8|16) // read only, without pointers
	for i := range 16 {
		DATA(4*i, U32(2*i))
	}
	TEXT(name, NOSPLIT, "func(rows, n int, dst *float32, to int, src *float32, from int)")
	Load(Param("rows"), R8)
	Load(Param("n"), R9)
	Load(Param("dst"), RDX)
	Load(Param("to"), R10)
	Load(Param("src"), RSI)
	Load(Param("from"), R11)
	SUBQ(U8(16), R9)
	VMOVUPS(at, Z2)
	MOVL(U32(0x7fff), EBX)
	KMOVW(EBX, K1)
	sixteen := func(i Register, load func(from Mem)) {
		VMOVUPS(Mem{Base: RSI, Index: i, Scale: 8}, Z0)
		load(Mem{Base: RSI, Index: i, Scale: 8, Disp: 64})
		VPERMT2PS(Z1, Z2, Z0)
		VMOVUPS(Z0, Mem{Base: RDX, Index: i, Scale: 4})
	}
	Label("row")
	XORQ(RBX, RBX)
	JMP(LabelRef("next"))
	Label("sixteen")
	sixteen(RBX, func(from Mem) { VMOVUPS(from, Z1) })
	ADDQ(U8(16), RBX)
	Label("next")
	CMPQ(RBX, R9)
	JLT(LabelRef("sixteen"))
	sixteen(R9, func(from Mem) { VMOVUPS_Z(from, K1, Z1) })
	ADDQ(R10, RDX)
	ADDQ(R11, RSI)
	DECQ(R8)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// pairs puts elements between those at the front of rows, eight at a time from the last to the first, so that nothing is written over before it is read.
// The first eight, which the next to last eight may overlap, are read before all others.
func pairs(name string) {
	TEXT(name, NOSPLIT, "func(rows, n int, image *float32, down int, odd *float32)")
	Load(Param("rows"), R8)
	Load(Param("n"), R10)
	Load(Param("image"), RDX)
	Load(Param("down"), R11)
	Load(Param("odd"), RSI)
	eight := func(even, odd VecPhysical, to Mem) {
		VUNPCKLPS(odd, even, Y2)
		VUNPCKHPS(odd, even, Y3)
		VPERM2F128(U8(0x20), Y3, Y2, even)
		VPERM2F128(U8(0x31), Y3, Y2, odd)
		VMOVUPS(even, to)
		to.Disp = 32
		VMOVUPS(odd, to)
	}
	Label("row")
	VMOVUPS(Mem{Base: RDX}, Y4)
	VMOVUPS(Mem{Base: RSI}, Y5)
	LEAQ(Mem{Base: R10, Disp: -8}, R9)
	TESTQ(R9, R9)
	JZ(LabelRef("first"))
	Label("eight")
	VMOVUPS(Mem{Base: RDX, Index: R9, Scale: 4}, Y0)
	VMOVUPS(Mem{Base: RSI, Index: R9, Scale: 4}, Y1)
	eight(Y0, Y1, Mem{Base: RDX, Index: R9, Scale: 8})
	SUBQ(U8(8), R9)
	JGT(LabelRef("eight"))
	Label("first")
	eight(Y4, Y5, Mem{Base: RDX})
	ADDQ(R11, RDX)
	LEAQ(Mem{Base: RSI, Index: R10, Scale: 4}, RSI)
	DECQ(R8)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// seconds writes every second element of a row, eight at a time, with what is between them. The last eight are those at odd places from the element before them
// on, so that nothing behind the last one is touched.
func seconds(name string) {
	TEXT(name, NOSPLIT, "func(n int, dst, src *float32)")
	Load(Param("n"), R9)
	Load(Param("dst"), RDX)
	Load(Param("src"), RSI)
	SUBQ(U8(8), R9)
	four := func(i Register, half int, odd bool) {
		back, keep := 0, uint64(0xaa)
		VPMOVZXDQ(Mem{Base: RSI, Index: i, Scale: 4, Disp: 16 * half}, Y0)
		if odd {
			back, keep = 4, 0x55
			VPSLLQ(U8(32), Y0, Y0)
		}
		to := Mem{Base: RDX, Index: i, Scale: 8, Disp: 32*half - back}
		VBLENDPS(U8(keep), to, Y0, Y0)
		VMOVUPS(Y0, to)
	}
	XORQ(RBX, RBX)
	Label("eight")
	four(RBX, 0, false)
	four(RBX, 1, false)
	ADDQ(U8(8), RBX)
	CMPQ(RBX, R9)
	JLT(LabelRef("eight"))
	four(R9, 0, true)
	four(R9, 1, true)
	VZEROUPPER()
	RET()
}
