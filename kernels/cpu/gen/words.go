package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Loops on elements of other types than float32: words.go specifies them. They are short ones, two vectors at a time: from the second-level cache on, memory
// sets the pace.

func generateWords() {
	for _, w := range []struct {
		name    string
		compute func(b Mem, a VecPhysical)
	}{
		{"addFloat64", func(b Mem, a VecPhysical) { VADDPD(b, a, a) }},
		{"mulFloat64", func(b Mem, a VecPhysical) { VMULPD(b, a, a) }},
		{"divFloat64", func(b Mem, a VecPhysical) { VDIVPD(b, a, a) }},
		{"sqrtFloat64", func(_ Mem, a VecPhysical) { VSQRTPD(a, a) }},
		{"maximumFloat64", func(b Mem, a VecPhysical) { extremeWide(b, a, VMAXPD, VANDPD) }},
		{"minimumFloat64", func(b Mem, a VecPhysical) { extremeWide(b, a, VMINPD, VORPD) }},
		{"absFloat64", func(_ Mem, a VecPhysical) {
			VPCMPEQQ(Y4, Y4, Y4)
			VPSRLQ(U8(1), Y4, Y4)
			VPAND(Y4, a, a)
		}},
		{"negFloat64", func(_ Mem, a VecPhysical) {
			VPCMPEQQ(Y4, Y4, Y4)
			VPSLLQ(U8(63), Y4, Y4)
			VPXOR(Y4, a, a)
		}},
		{"absInt64", func(_ Mem, a VecPhysical) {
			VPXOR(Y4, Y4, Y4)
			VPSUBQ(a, Y4, Y4)
			VBLENDVPD(a, Y4, a, a)
		}},
		{"negInt64", func(_ Mem, a VecPhysical) {
			VPXOR(Y4, Y4, Y4)
			VPSUBQ(a, Y4, a)
		}},
		{"absInt32", func(_ Mem, a VecPhysical) { VPABSD(a, a) }},
		{"negInt32", func(_ Mem, a VecPhysical) {
			VPXOR(Y4, Y4, Y4)
			VPSUBD(a, Y4, a)
		}},
		{"addInt64", func(b Mem, a VecPhysical) { VPADDQ(b, a, a) }},
		{"subInt64", func(b Mem, a VecPhysical) { VPSUBQ(b, a, a) }},
		{"addInt32", func(b Mem, a VecPhysical) { VPADDD(b, a, a) }},
		{"subInt32", func(b Mem, a VecPhysical) { VPSUBD(b, a, a) }},
		{"mulInt32", func(b Mem, a VecPhysical) { VPMULLD(b, a, a) }},
		{"mulInt64", mulWhole},
		{"maximumInt64", func(b Mem, a VecPhysical) { greaterWhole(b, a, false) }},
		{"minimumInt64", func(b Mem, a VecPhysical) { greaterWhole(b, a, true) }},
		{"maximumInt32", func(b Mem, a VecPhysical) { VPMAXSD(b, a, a) }},
		{"minimumInt32", func(b Mem, a VecPhysical) { VPMINSD(b, a, a) }},
	} {
		words(w.name+"AVX2", w.compute)
	}
	logic("logicAVX2")
	generateCasts()
	generateComparisons()
	generateChoices()
	sumRowsWide("sumFloat64AVX2")
	mergeProducts("mergeProdAVX2")
	generateDivisions()
}

// mulWhole is the lower half of products of int64: of 32 bits each that of the lower ones, and above it those of a lower and an upper one.
func mulWhole(b Mem, a VecPhysical) {
	VMOVDQU(b, Y4)
	VPSHUFD(U8(0xb1), Y4, Y5)
	VPMULLD(a, Y5, Y5)
	VPSRLQ(U8(32), Y5, Y6)
	VPADDD(Y6, Y5, Y5)
	VPSLLQ(U8(32), Y5, Y5)
	VPMULUDQ(Y4, a, a)
	VPADDQ(Y5, a, a)
}

// greaterWhole sets a to the greater of two int64, or to the less.
func greaterWhole(b Mem, a VecPhysical, less bool) {
	VMOVDQU(b, Y4)
	extreme64(Y4, a, Y5, less)
}

// extreme64 sets kept to the greater of it and v, or to the less.
func extreme64(v Op, kept, mask VecPhysical, less bool) {
	if less {
		VPCMPGTQ(v, kept, mask)
	} else {
		VPCMPGTQ(kept, v, mask)
	}
	VBLENDVPD(mask, v, kept, kept)
}

// wholeBits are those of 2^52+2^51 as float64. A small whole number that is added to them, as int64, gives the bits of the sum: less 2^52+2^51, it is the number.
const (
	wholeBits  = 0x4338000000000000
	smallRange = 50 // bits beside the sign, of whole numbers whose quotients are exact
)

// generateDivisions writes divisions of int64 by float64, as divideSmall specifies them.
func generateDivisions() {
	TEXT("smallInt64AVX2", NOSPLIT, "func(n int, v *byte) int")
	Load(Param("n"), RCX)
	Load(Param("v"), RSI)
	constant64(Y7, 1<<smallRange)
	VPXOR(Y6, Y6, Y6)
	Label("loop")
	for i, r := range []VecPhysical{Y0, Y1} {
		VPADDQ(Mem{Base: RSI, Disp: 32 * i}, Y7, r)
		VPOR(r, Y6, Y6)
	}
	ADDQ(U8(64), RSI)
	SUBQ(U8(8), RCX)
	JG(LabelRef("loop"))
	VPSRLQ(U8(smallRange+1), Y6, Y6)
	XORQ(RAX, RAX)
	VPTEST(Y6, Y6)
	SETEQ(AL)
	Store(RAX, ReturnIndex(0))
	VZEROUPPER()
	RET()

	const towardsZero, down = 3, 1
	for _, d := range []struct {
		name     string
		rounding uint8
		quotient bool
	}{{"fmodSmallAVX2", towardsZero, false}, {"remainderSmallAVX2", down, false}, {"floorDivideSmallAVX2", down, true}} {
		division(d.name, d.rounding, d.quotient)
	}
}

// constant64 fills a register with a number.
func constant64(r VecPhysical, v uint64) {
	MOVQ(Imm(v), RAX)
	VMOVQ(RAX, r.AsX())
	VPBROADCASTQ(r.AsX(), r)
}

// division writes the quotient of whole numbers, rounded, or what is left of it: 0 where the second is 0.
func division(name string, rounding uint8, quotient bool) {
	TEXT(name, NOSPLIT, "func(n int, dst, a, b *byte)")
	Load(Param("n"), RCX)
	Load(Param("dst"), RDI)
	Load(Param("a"), RSI)
	Load(Param("b"), RDX)
	constant64(Y15, wholeBits)
	VPXOR(Y14, Y14, Y14)
	XORQ(RBX, RBX)
	Label("loop")
	for i := range 2 {
		a, b, q, zero := []VecPhysical{Y0, Y4}[i], []VecPhysical{Y1, Y5}[i], []VecPhysical{Y2, Y6}[i], []VecPhysical{Y3, Y7}[i]
		VMOVDQU(Mem{Base: RDX, Index: RBX, Scale: 8, Disp: 32 * i}, b)
		VPCMPEQQ(b, Y14, zero)
		VPADDQ(Mem{Base: RSI, Index: RBX, Scale: 8, Disp: 32 * i}, Y15, a)
		VPADDQ(b, Y15, b)
		VSUBPD(Y15, a, a)
		VSUBPD(Y15, b, b)
		VDIVPD(b, a, q)
		VROUNDPD(U8(rounding), q, q)
		if !quotient {
			VMULPD(b, q, q)
			VSUBPD(q, a, q)
		}
		VADDPD(Y15, q, q)
		VPSUBQ(Y15, q, q)
		VPANDN(q, zero, q)
		VMOVDQU(q, Mem{Base: RDI, Index: RBX, Scale: 8, Disp: 32 * i})
	}
	ADDQ(U8(8), RBX)
	CMPQ(RBX, RCX)
	JLT(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// extremeWide is generateExtremes of float64.
func extremeWide(b Mem, a VecPhysical, f, signs func(ops ...Op)) {
	VMOVUPD(b, Y4)
	f(a, Y4, Y5)
	f(Y4, a, Y6)
	signs(Y5, Y6, Y5)
	VCMPPD(U8(3), a, Y4, Y6) // not ordered
	VADDPD(a, Y4, Y7)
	VBLENDVPD(Y6, Y7, Y5, a)
}

// words writes a function of elements of two operands, for a multiple of 64 bytes. The second is a vector that repeats, if its step is 0, else 32.
func words(name string, compute func(b Mem, a VecPhysical)) {
	TEXT(name, NOSPLIT, "func(n int, dst, a, b *byte, step int)")
	Load(Param("n"), RCX)
	Load(Param("dst"), RDI)
	Load(Param("a"), RSI)
	Load(Param("b"), RDX)
	Load(Param("step"), R8)
	XORQ(RBX, RBX)
	Label("loop")
	VMOVUPS(Mem{Base: RSI, Index: RBX, Scale: 1}, Y0)
	VMOVUPS(Mem{Base: RSI, Index: RBX, Scale: 1, Disp: 32}, Y1)
	compute(Mem{Base: RDX}, Y0)
	compute(Mem{Base: RDX, Index: R8, Scale: 1}, Y1)
	VMOVUPS(Y0, Mem{Base: RDI, Index: RBX, Scale: 1})
	VMOVUPS(Y1, Mem{Base: RDI, Index: RBX, Scale: 1, Disp: 32})
	LEAQ(Mem{Base: RDX, Index: R8, Scale: 2}, RDX)
	ADDQ(U8(64), RBX)
	CMPQ(RBX, RCX)
	JLT(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// logic writes the function of bits (a&b & both) ^ (a & first) ^ (b & second) ^ rest, for a multiple of 32 bytes: any function of two bits, by four masks.
func logic(name string) {
	TEXT(name, NOSPLIT, "func(n int, dst, a, b *byte, m *[4]uint64)")
	Load(Param("n"), RCX)
	Load(Param("dst"), RDI)
	Load(Param("a"), RSI)
	Load(Param("b"), RDX)
	Load(Param("m"), R8)
	for i, r := range []VecPhysical{Y4, Y5, Y6, Y7} {
		VPBROADCASTQ(Mem{Base: R8, Disp: 8 * i}, r)
	}
	XORQ(RBX, RBX)
	Label("loop")
	VMOVDQU(Mem{Base: RSI, Index: RBX, Scale: 1}, Y0)
	VMOVDQU(Mem{Base: RDX, Index: RBX, Scale: 1}, Y1)
	VPAND(Y4, Y0, Y2)
	VPAND(Y1, Y2, Y2)
	VPAND(Y5, Y0, Y0)
	VPAND(Y6, Y1, Y1)
	VPXOR(Y2, Y0, Y0)
	VPXOR(Y7, Y1, Y1)
	VPXOR(Y1, Y0, Y0)
	VMOVDQU(Y0, Mem{Base: RDI, Index: RBX, Scale: 1})
	ADDQ(U8(32), RBX)
	CMPQ(RBX, RCX)
	JLT(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// casting writes a function that converts elements, eight at a time, of sizes in bytes.
func casting(name, signature string, from, to int, before, body, after func()) {
	TEXT(name, NOSPLIT, signature)
	Load(Param("n"), RCX)
	Load(Param("dst"), RDI)
	Load(Param("src"), RSI)
	before()
	Label("loop")
	body()
	ADDQ(U8(8*from), RSI)
	ADDQ(U8(8*to), RDI)
	SUBQ(U8(8), RCX)
	JG(LabelRef("loop"))
	after()
	VZEROUPPER()
	RET()
}

func generateCasts() {
	const signature = "func(n int, dst, src *byte)"
	src := func(disp int) Mem { return Mem{Base: RSI, Disp: disp} }
	dst := func(disp int) Mem { return Mem{Base: RDI, Disp: disp} }
	nothing := func() {}
	castTo := func(name string, from, to int, body func()) {
		casting(name+"AVX2", signature, from, to, nothing, body, nothing)
	}
	castTo("uint8ToInt32", 1, 4, func() {
		VPMOVZXBD(src(0), Y0)
		VMOVDQU(Y0, dst(0))
	})
	castTo("uint8ToFloat32", 1, 4, func() {
		VPMOVZXBD(src(0), Y0)
		VCVTDQ2PS(Y0, Y0)
		VMOVUPS(Y0, dst(0))
	})
	castTo("int32ToFloat32", 4, 4, func() {
		VCVTDQ2PS(src(0), Y0)
		VMOVUPS(Y0, dst(0))
	})
	for _, wide := range []struct {
		name string
		f    func(ops ...Op)
	}{{"int32ToInt64", VPMOVSXDQ}, {"int32ToFloat64", VCVTDQ2PD}, {"float32ToFloat64", VCVTPS2PD}} {
		castTo(wide.name, 4, 8, func() {
			wide.f(src(0), Y0)
			wide.f(src(16), Y1)
			VMOVUPS(Y0, dst(0))
			VMOVUPS(Y1, dst(32))
		})
	}
	castTo("float64ToFloat32", 8, 4, func() {
		VCVTPD2PSY(src(0), X0)
		VCVTPD2PSY(src(32), X1)
		VMOVUPS(X0, dst(0))
		VMOVUPS(X1, dst(16))
	})
	castTo("int64ToInt32", 8, 4, func() { // lower halves, which the shuffle takes from lanes of 16 bytes
		VMOVUPS(src(0), Y0)
		VSHUFPS(U8(0x88), src(32), Y0, Y0)
		VPERMPD(U8(0xd8), Y0, Y0)
		VMOVUPS(Y0, dst(0))
	})
	low := func() { // the lowest byte of each of Y0
		VPAND(Y7, Y0, Y0)
		VEXTRACTI128(U8(1), Y0, X1)
		VPACKUSDW(X1, X0, X0)
		VPACKUSWB(X0, X0, X0)
		VMOVQ(X0, dst(0))
	}
	mask := func(shift uint8) func() {
		return func() {
			VPCMPEQD(Y7, Y7, Y7)
			VPSRLD(U8(shift), Y7, Y7)
			VPXOR(Y6, Y6, Y6)
		}
	}
	casting("int32ToUint8AVX2", signature, 4, 1, mask(24), func() {
		VMOVDQU(src(0), Y0)
		low()
	}, nothing)
	casting("float32ToBoolAVX2", signature, 4, 1, mask(31), func() {
		VCMPPS(U8(4), src(0), Y6, Y0) // unequal
		low()
	}, nothing)
	casting("int32ToBoolAVX2", signature, 4, 1, mask(31), func() {
		VPCMPEQD(src(0), Y6, Y0)
		VPANDN(Y7, Y0, Y0)
		low()
	}, nothing)
	casting("int64ToBoolAVX2", signature, 8, 1, mask(31), func() {
		VPCMPEQQ(src(0), Y6, Y0)
		VPCMPEQQ(src(32), Y6, Y1)
		VSHUFPS(U8(0x88), Y1, Y0, Y0)
		VPERMPD(U8(0xd8), Y0, Y0)
		VPANDN(Y7, Y0, Y0)
		low()
	}, nothing)
	// What has no int32 becomes the least one.
	casting("float32ToInt32AVX2", "func(n int, dst, src *byte) int", 4, 4, func() {
		VPCMPEQD(Y7, Y7, Y7)
		VPSLLD(U8(31), Y7, Y7)
		VPXOR(Y6, Y6, Y6)
	}, func() {
		VCVTTPS2DQ(src(0), Y0)
		VPCMPEQD(Y7, Y0, Y1)
		VPOR(Y1, Y6, Y6)
		VMOVDQU(Y0, dst(0))
	}, func() {
		VMOVMSKPS(Y6, EAX)
		Store(RAX, ReturnIndex(0))
	})
}

// sumRowsWide writes the sum of a multiple of 16 elements of float64, as sixteenSums.
func sumRowsWide(name string) {
	sums := []VecPhysical{Y0, Y1, Y2, Y3}
	TEXT(name, NOSPLIT, "func(n int, v *float64) float64")
	Load(Param("n"), RCX)
	Load(Param("v"), RSI)
	for _, s := range sums {
		VXORPD(s, s, s)
	}
	SUBQ(U8(64), RCX)
	JLT(LabelRef("rest"))
	Label("loop")
	for i, s := range sums {
		VMOVUPD(Mem{Base: RSI, Disp: 32 * i}, Y4)
		VMOVUPD(Mem{Base: RSI, Disp: 256 + 32*i}, Y5)
		VADDPD(Mem{Base: RSI, Disp: 128 + 32*i}, Y4, Y4)
		VADDPD(Mem{Base: RSI, Disp: 384 + 32*i}, Y5, Y5)
		VADDPD(Y5, Y4, Y4)
		VADDPD(Y4, s, s)
	}
	ADDQ(U32(512), RSI)
	SUBQ(U8(64), RCX)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(U8(64), RCX)
	JZ(LabelRef("join"))
	Label("sixteen")
	for i, s := range sums {
		VADDPD(Mem{Base: RSI, Disp: 32 * i}, s, s)
	}
	SUBQ(I8(-128), RSI)
	SUBQ(U8(16), RCX)
	JNZ(LabelRef("sixteen"))
	Label("join")
	VADDPD(Y2, Y0, Y0)
	VADDPD(Y3, Y1, Y1)
	VADDPD(Y1, Y0, Y0)
	VEXTRACTF128(U8(1), Y0, X1)
	VADDPD(X1, X0, X0)
	VHADDPD(X0, X0, X0)
	Store(X0, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// mergeProducts multiplies products in float64 by the elements of a row of float32, of a multiple of 8.
func mergeProducts(name string) {
	TEXT(name, NOSPLIT, "func(n int, acc *float64, row *float32)")
	Load(Param("n"), RCX)
	Load(Param("acc"), RDI)
	Load(Param("row"), RSI)
	XORQ(RBX, RBX)
	Label("loop")
	for i, r := range []VecPhysical{Y0, Y1} {
		VCVTPS2PD(Mem{Base: RSI, Index: RBX, Scale: 4, Disp: 16 * i}, r)
		VMULPD(Mem{Base: RDI, Index: RBX, Scale: 8, Disp: 32 * i}, r, r)
	}
	for i, r := range []VecPhysical{Y0, Y1} {
		VMOVUPD(r, Mem{Base: RDI, Index: RBX, Scale: 8, Disp: 32 * i})
	}
	ADDQ(U8(8), RBX)
	CMPQ(RBX, RCX)
	JLT(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
