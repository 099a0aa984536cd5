package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// generateUnpacked writes tiles of products on operands as they lie, as gemmsmall.go specifies them.
func generateUnpacked() {
	unpacked("product6x16AVX2", 6, 2, ymm)
}

func generateUnpacked512() {
	unpacked("product8x32AVX512", 8, 2, zmm)
	unpacked("product12x16AVX512", 12, 1, zmm)
}

// unpacked computes some rows, twelve at most, by vectors of columns. Three rows of a are read from each of four pointers.
func unpacked(name string, rows, width int, v vectors) {
	TEXT(name, NOSPLIT, "func(k int, a *float32, row, step int, b *float32, ld int, c *float32, to int, alpha float32, add bool)")
	arguments := []Register{RCX, RAX, R8, R9, RBX, R10, RDX, RSI}
	for i, name := range []string{"k", "a", "row", "step", "b", "ld", "c", "to"} {
		Load(Param(name), arguments[i])
	}
	pointers := []GPPhysical{RAX, R11, R12, R13}[:(rows+2)/3]
	for i, p := range pointers[1:] {
		LEAQ(Mem{Base: pointers[i], Index: R8, Scale: 2}, p)
		ADDQ(R8, p)
	}
	sums, columns, elements := v.registers[:rows*width], v.registers[rows*width:][:width], v.registers[rows*width+width:]
	for _, r := range sums {
		v.zero(r)
	}
	Label("loop")
	for i, c := range columns {
		VMOVUPS(Mem{Base: RBX, Disp: v.bytes * i}, c)
	}
	for row := range rows {
		element := elements[row%min(4, len(elements))]
		at := Mem{Base: pointers[row/3]}
		if row%3 > 0 {
			at.Index, at.Scale = R8, uint8(row%3)
		}
		VBROADCASTSS(at, element)
		for i, c := range columns {
			VFMADD231PS(c, element, sums[row*width+i])
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
		for i, r := range sums {
			to := Mem{Base: RDX, Disp: v.bytes * (i % width)}
			VMULPS(alpha, r, r)
			if add {
				VADDPS(to, r, r)
			}
			VMOVUPS(r, to)
			if i%width == width-1 {
				ADDQ(RSI, RDX)
			}
		}
		VZEROUPPER()
		RET()
	}
	MOVBLZX(address("add"), R8L)
	TESTL(R8L, R8L)
	JNZ(LabelRef("add"))
	store(false)
	Label("add")
	store(true)
}
