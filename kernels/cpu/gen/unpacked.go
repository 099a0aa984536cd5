package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// generateUnpacked writes tiles of products on operands as they lie, as gemmsmall.go, gemmflat.go and gemmthin.go specify them.
func generateUnpacked() {
	unpacked("product8x32AVX512", 8, 2, "func(k int, a *float32, row, step int, b *float32, ld int, c *float32, to int, alpha float32, add bool)")
	unpacked("product12x16AVX512", 12, 1, "func(k int, a *float32, row, step int, b *float32, ld int, c *float32, to int, alpha float32, mask int)")
}

// unpacked computes some rows, twelve at most, by vectors of columns. A tile of one vector has a mask for its columns, other ones may be added to what is there. Three rows of a are read from each of
// four pointers.
func unpacked(name string, rows, width int, signature string) {
	TEXT(name, NOSPLIT, signature)
	load := func(name string, r Register) { Load(Param(name), r) }
	load("k", RCX)
	load("a", RAX)
	load("row", R8)
	load("step", R9)
	load("b", RBX)
	load("ld", R10)
	load("c", RDX)
	load("to", RSI)
	pointers := []GPPhysical{RAX, R11, R12, R13}[:(rows+2)/3]
	for i, p := range pointers[1:] {
		LEAQ(Mem{Base: pointers[i], Index: R8, Scale: 2}, p)
		ADDQ(R8, p)
	}
	masked := width == 1
	if masked {
		load("mask", RDI)
		KMOVW(EDI, K1)
	}
	read := func(from Mem, to Op) {
		if masked {
			VMOVUPS_Z(from, K1, to)
		} else {
			VMOVUPS(from, to)
		}
	}
	sums, vectors, elements := zmm.registers[:rows*width], zmm.registers[rows*width:][:width], zmm.registers[rows*width+width:]
	for _, r := range sums {
		zmm.zero(r)
	}
	Label("loop")
	for i, v := range vectors {
		read(Mem{Base: RBX, Disp: 64 * i}, v)
	}
	for row := range rows {
		element := elements[row%4]
		at := Mem{Base: pointers[row/3]}
		if row%3 > 0 {
			at.Index, at.Scale = R8, uint8(row%3)
		}
		VBROADCASTSS(at, element)
		for i, v := range vectors {
			VFMADD231PS(v, element, sums[row*width+i])
		}
	}
	for _, p := range pointers {
		ADDQ(R9, p)
	}
	ADDQ(R10, RBX)
	DECQ(RCX)
	JNZ(LabelRef("loop"))
	alpha := elements[0]
	VBROADCASTSS(address("alpha"), alpha)
	store := func(add bool) {
		for row := range rows {
			for i := range width {
				r, to := sums[row*width+i], Mem{Base: RDX, Disp: 64 * i}
				VMULPS(alpha, r, r)
				switch {
				case masked:
					VMOVUPS(r, K1, to)
				case add:
					VADDPS(to, r, r)
					fallthrough
				default:
					VMOVUPS(r, to)
				}
			}
			if row < rows-1 {
				ADDQ(RSI, RDX)
			}
		}
		VZEROUPPER()
		RET()
	}
	if !masked {
		MOVBLZX(address("add"), R8L)
		TESTL(R8L, R8L)
		JNZ(LabelRef("add"))
	}
	store(false)
	if !masked {
		Label("add")
		store(true)
	}
}
