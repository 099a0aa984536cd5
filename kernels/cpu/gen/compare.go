package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Comparisons of two operands, whose results are bools: compare.go of package cpu specifies them. For a multiple of 32 elements, which are 32 bytes of results.

// comparing makes a mask of a vector in a register and one in memory. swapped is of the second operand with the first, and inverted where it is false.
type comparing struct {
	mask              func(b Mem, a VecPhysical)
	swapped, inverted bool
}

func generateComparisons() {
	byPredicate := func(f func(ops ...Op), predicate uint8) comparing {
		return comparing{mask: func(b Mem, a VecPhysical) { f(U8(predicate), b, a, a) }}
	}
	whole := func(f func(ops ...Op), swapped, inverted bool) comparing {
		return comparing{func(b Mem, a VecPhysical) { f(b, a, a) }, swapped, inverted}
	}
	names := []string{"less", "lessEqual", "equal", "unequal"}
	for _, t := range []struct {
		name string
		wide bool
		all  []comparing
	}{
		{"Float32", false, []comparing{byPredicate(VCMPPS, less), byPredicate(VCMPPS, lessEqual), byPredicate(VCMPPS, equal), byPredicate(VCMPPS, unequal)}},
		{"Float64", true, []comparing{byPredicate(VCMPPD, less), byPredicate(VCMPPD, lessEqual), byPredicate(VCMPPD, equal), byPredicate(VCMPPD, unequal)}},
		{"Int64", true, []comparing{whole(VPCMPGTQ, true, false), whole(VPCMPGTQ, false, true), whole(VPCMPEQQ, false, false), whole(VPCMPEQQ, false, true)}},
		{"Int32", false, []comparing{whole(VPCMPGTD, true, false), whole(VPCMPGTD, false, true), whole(VPCMPEQD, false, false), whole(VPCMPEQD, false, true)}},
	} {
		for i, c := range t.all {
			compare(names[i]+t.name+"AVX2", t.wide, c)
		}
	}
	GLOBL("comparedOrder", 8|16) // read only, without pointers
	for i, k := range []uint8{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(i, U8(k))
	}
}

func compare(name string, wide bool, c comparing) {
	TEXT(name, NOSPLIT, "func(n int, dst, a, b *byte)")
	Load(Param("n"), RCX)
	Load(Param("dst"), RDI)
	first, second := RSI, RDX
	if c.swapped {
		first, second = RDX, RSI
	}
	Load(Param("a"), first)
	Load(Param("b"), second)
	VPMOVZXBD(NewDataAddr(Symbol{Name: "comparedOrder", Static: true}, 0), Y7)
	VPCMPEQD(Y6, Y6, Y6)
	Label("loop")
	masks := func(at int, r VecPhysical) {
		VMOVUPS(Mem{Base: RSI, Disp: at}, r)
		c.mask(Mem{Base: RDX, Disp: at}, r)
	}
	size := 4
	for i, r := range []VecPhysical{Y0, Y1, Y2, Y3} { // masks of eight elements each, of 4 bytes
		if !wide {
			masks(32*i, r)
			continue
		}
		size = 8
		masks(64*i, r)
		masks(64*i+32, Y4)
		VSHUFPS(U8(0x88), Y4, r, r)
		VPERMPD(U8(0xd8), r, r)
	}
	VPACKSSDW(Y1, Y0, Y0)
	VPACKSSDW(Y3, Y2, Y2)
	VPACKSSWB(Y2, Y0, Y0)
	VPERMD(Y0, Y7, Y0) // fours that belong together are in the other half
	if c.inverted {
		VPSUBB(Y6, Y0, Y0) // 1 more than 0 or -1
	} else {
		VPABSB(Y0, Y0)
	}
	VMOVDQU(Y0, Mem{Base: RDI})
	ADDQ(U32(32*size), RSI)
	ADDQ(U32(32*size), RDX)
	ADDQ(U8(32), RDI)
	SUBQ(U8(32), RCX)
	JG(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
