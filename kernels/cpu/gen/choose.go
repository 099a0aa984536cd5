package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Elements of one of two operands, chosen by bytes: where of package cpu specifies them. For a multiple of 32 elements.

func generateChoices() {
	for _, t := range []struct {
		size        int // bytes of an element
		widen, zero func(ops ...Op)
		blend       func(mask, second, first, to Op)
	}{
		{1, func(ops ...Op) { VMOVDQU(ops[0], ops[1]) }, VPCMPEQB, VPBLENDVB},
		{2, VPMOVZXBW, VPCMPEQW, VPBLENDVB},
		{4, VPMOVZXBD, VPCMPEQD, VBLENDVPS},
		{8, VPMOVZXBQ, VPCMPEQQ, VBLENDVPD},
	} {
		choose(fmt.Sprintf("choose%dAVX2", 8*t.size), t.size, t.widen, t.zero, t.blend)
	}
}

func choose(name string, size int, widen, zero func(ops ...Op), blend func(mask, second, first, to Op)) {
	TEXT(name, NOSPLIT, "func(n int, dst, a, b, c *byte)")
	Load(Param("n"), RCX)
	Load(Param("dst"), RDI)
	Load(Param("a"), RSI)
	Load(Param("b"), RDX)
	Load(Param("c"), R8)
	VPXOR(Y15, Y15, Y15)
	Label("loop")
	masks := []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7}[:size]
	for i, m := range masks {
		widen(Mem{Base: RSI, Disp: 32 / size * i}, m)
		zero(m, Y15, m)
	}
	for i, m := range masks {
		VMOVUPS(Mem{Base: RDX, Disp: 32 * i}, Y8)
		blend(m, Mem{Base: R8, Disp: 32 * i}, Y8, Y8)
		VMOVUPS(Y8, Mem{Base: RDI, Disp: 32 * i})
	}
	ADDQ(U8(32), RSI)
	for _, p := range []Op{RDX, R8, RDI} {
		ADDQ(U32(32*size), p)
	}
	SUBQ(U8(32), RCX)
	JG(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
