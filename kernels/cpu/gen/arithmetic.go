package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Arithmetic of elements: the loops of arithmetic.go, for multiples of 8 elements. A processor that gets all operands from its cache takes two thirds of
// the time for four vectors in turn of what it takes for one after the other.

// arithmetic is an instruction of two operands.
type arithmetic func(ops ...Op)

func generateArithmetic() {
	names := []string{"add", "sub", "mul", "div"}
	for i, f := range []arithmetic{VADDPS, VSUBPS, VMULPS, VDIVPS} {
		elementsOf(names[i]+"AVX2", "func(n int, dst, a, b *float32)", func() { Load(Param("b"), RDX) }, func(v VecPhysical, disp int) {
			f(Mem{Base: RDX, Index: RBX, Scale: 4, Disp: disp}, v, v)
		})
		if names[i] == "sub" {
			continue // adds the negative
		}
		elementsOf(names[i]+"ScalarAVX2", "func(n int, dst, a *float32, s float32)", func() {
			s, err := Param("s").Resolve()
			if err != nil {
				panic(err)
			}
			VBROADCASTSS(s.Addr, Y4)
		}, func(v VecPhysical, _ int) { f(Y4, v, v) })
	}
	generateExtremes()
}

// generateExtremes writes the loops of Maximum and Minimum. The instructions give their second operand where both are zeros, and where one is NaN: so both
// orders are taken, of which the zeros' signs are combined, and the sum instead of what is NaN in it.
func generateExtremes() {
	extreme := func(name string, f, signs func(ops ...Op)) {
		elementsOf(name+"AVX2", "func(n int, dst, a, b *float32)", func() { Load(Param("b"), RDX) }, func(v VecPhysical, disp int) {
			VMOVUPS(Mem{Base: RDX, Index: RBX, Scale: 4, Disp: disp}, Y4)
			f(Y4, v, Y5)
			f(v, Y4, Y6)
			signs(Y5, Y6, Y5)
			VCMPPS(U8(3), v, Y4, Y6) // not ordered
			VADDPS(v, Y4, Y7)
			VBLENDVPS(Y6, Y7, Y5, v)
		})
	}
	extreme("maximum", VMAXPS, VANDPS)
	extreme("minimum", VMINPS, VORPS)
}

// elementsOf writes a function that computes with each element of a, in a register, and puts what it comes to into dst: 32 elements at a time, and then 8.
func elementsOf(name, signature string, begin func(), compute func(v VecPhysical, disp int)) {
	TEXT(name, NOSPLIT, signature)
	Load(Param("n"), RCX)
	Load(Param("dst"), RDI)
	Load(Param("a"), RSI)
	begin()
	XORQ(RBX, RBX)
	vectors := func(v ...VecPhysical) {
		for i, r := range v {
			VMOVUPS(Mem{Base: RSI, Index: RBX, Scale: 4, Disp: 32 * i}, r)
		}
		for i, r := range v {
			compute(r, 32*i)
		}
		for i, r := range v {
			VMOVUPS(r, Mem{Base: RDI, Index: RBX, Scale: 4, Disp: 32 * i})
		}
		ADDQ(U8(8*len(v)), RBX)
	}
	SUBQ(U8(32), RCX)
	JLT(LabelRef("rest"))
	Label("loop")
	vectors(Y0, Y1, Y2, Y3)
	CMPQ(RBX, RCX)
	JLE(LabelRef("loop"))
	Label("rest")
	ADDQ(U8(32), RCX)
	CMPQ(RBX, RCX)
	JGE(LabelRef("done"))
	Label("eight")
	vectors(Y0)
	CMPQ(RBX, RCX)
	JLT(LabelRef("eight"))
	Label("done")
	VZEROUPPER()
	RET()
}
