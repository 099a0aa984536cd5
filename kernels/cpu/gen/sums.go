package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// expSum writes the function that sets dst to exp(a-s) and gives the sum, of which eight parts are kept in float64, by place.
func (e *vectorEmitter) expSum(p *program) {
	TEXT("expSumAVX2", NOSPLIT, "func(n int, dst, a *float32, s float32) float64")
	n := Load(Param("n"), GP64())
	dst, a := Load(Param("dst"), GP64()), Load(Param("a"), GP64())
	s, err := Param("s").Resolve()
	if err != nil {
		panic(err)
	}
	shift, low, high := YMM(), YMM(), YMM()
	VBROADCASTSS(s.Addr, shift)
	VXORPD(low, low, low)
	VXORPD(high, high, high)
	index := GP64()
	XORQ(index, index)

	Label("loop")
	b := body{e: e, p: p, registers: map[*node]VecVirtual{}, index: index, pointers: []Register{dst, a}}
	for _, x := range p.nodes {
		if x.op == "scalar" {
			b.registers[x] = shift
			continue
		}
		b.emit(x)
	}
	r := b.register(p.results[0])
	VMOVUPS(r, b.address(0, 0))
	wide, half := YMM(), XMM()
	VCVTPS2PD(r.AsX(), wide)
	VADDPD(wide, low, low)
	VEXTRACTF128(U8(1), r, half)
	VCVTPS2PD(half, wide)
	VADDPD(wide, high, high)
	ADDQ(U8(8), index)
	CMPQ(index, n)
	JLT(LabelRef("loop"))

	returnSum(low, high)
}

// maskedExpSum writes that on AVX-512: all eight parts are in one register, to which the halves of a vector are added in turn. The last vector may be half of one.
func (e *vectorEmitter) maskedExpSum(p *program) {
	TEXT("expSumAVX512", NOSPLIT, "func(n int, dst, a *float32, s float32) float64")
	left := Load(Param("n"), GP64())
	dst, a := Load(Param("dst"), GP64()), Load(Param("a"), GP64())
	s, err := Param("s").Resolve()
	if err != nil {
		panic(err)
	}
	shift, sum := ZMM(), ZMM()
	VBROADCASTSS(s.Addr, shift)
	VXORPD(sum, sum, sum)
	index := GP64()
	XORQ(index, index)
	e.scalars = map[*node]VecVirtual{}
	for _, x := range p.nodes {
		if x.op == "scalar" {
			e.scalars[x] = shift
		}
	}
	e.keepMasked(p, []Register{dst, a})
	defer clear(e.kept)
	b := e.maskedBodiesAt(p, 1, index, []Register{dst, a})[0]

	Label("loop")
	CMPQ(left, U8(16))
	JLT(LabelRef("lastLoad"))
	b.loadWhole()
	Label("compute")
	for _, x := range p.nodes {
		b.emit(x)
	}
	r, wide, half := b.register(p.results[0]), ZMM(), YMM()
	CMPQ(left, U8(16))
	JLT(LabelRef("lastStore"))
	VMOVUPS(r, b.address(0, 0))
	VCVTPS2PD(r.AsY(), wide)
	VADDPD(wide, sum, sum)
	VEXTRACTF32X8(U8(1), r, half)
	VCVTPS2PD(half, wide)
	VADDPD(wide, sum, sum)
	ADDQ(U8(16), index)
	SUBQ(U8(16), left)
	JNZ(LabelRef("loop"))
	JMP(LabelRef("done"))

	Label("lastLoad")
	VMOVUPS(b.address(1, 0), b.input().AsY())
	JMP(LabelRef("compute"))
	Label("lastStore")
	VMOVUPS(r.AsY(), b.address(0, 0))
	VCVTPS2PD(r.AsY(), wide)
	VADDPD(wide, sum, sum)
	Label("done")
	low, high := YMM(), YMM()
	VEXTRACTF64X4(U8(0), sum, low)
	VEXTRACTF64X4(U8(1), sum, high)
	returnSum(low, high)
}

// returnSum returns the sum of eight parts.
func returnSum(low, high VecVirtual) {
	half, other := XMM(), XMM()
	VADDPD(high, low, low)
	VEXTRACTF128(U8(1), low, half)
	VADDPD(half, low.AsX(), half)
	VUNPCKHPD(half, half, other)
	VADDSD(other, half, half)
	Store(half, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// dot writes the function that gives the sum of products, of which eight parts are kept in float64, by place.
func dot() {
	TEXT("dotWideAVX2", NOSPLIT, "func(n int, a, b *float32) float64")
	n := Load(Param("n"), GP64())
	a, b := Load(Param("a"), GP64()), Load(Param("b"), GP64())
	index, low, high := GP64(), YMM(), YMM()
	XORQ(index, index)
	VXORPD(low, low, low)
	VXORPD(high, high, high)
	Label("loop")
	for i, sum := range []VecVirtual{low, high} {
		x, y := YMM(), YMM()
		VCVTPS2PD(Mem{Base: a, Index: index, Scale: 4, Disp: 16 * i}, x)
		VCVTPS2PD(Mem{Base: b, Index: index, Scale: 4, Disp: 16 * i}, y)
		VFMADD231PD(x, y, sum)
	}
	ADDQ(U8(8), index)
	CMPQ(index, n)
	JLT(LabelRef("loop"))
	returnSum(low, high)
}
