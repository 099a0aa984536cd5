package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Loops of reductions over several rows: reducerows.go specifies them.

func generateReductions() {
	mergeSums("mergeSumsAVX2")
	mergeMost("mergeMaxesAVX2", "float32", VMAXPS, VCMPPS)
	mergeMost("mergeMinsAVX2", "float32", VMINPS, VCMPPS)
	mergeMost("mergeMaxesFloat64AVX2", "float64", VMAXPD, VCMPPD)
	mergeMost("mergeMinsFloat64AVX2", "float64", VMINPD, VCMPPD)
	mergeMostWhole("mergeMaxesInt64AVX2", false)
	mergeMostWhole("mergeMinsInt64AVX2", true)
	mergeMostBytes("mergeMaxesUint8AVX2", VPMAXUB)
	mergeMostBytes("mergeMinsUint8AVX2", VPMINUB)
	mostRowsBytes("maxRowsUint8AVX2", VPMAXUB)
	mostRowsBytes("minRowsUint8AVX2", VPMINUB)
	mergeProductRows("mergeProdsAVX2")
	mergeSumsWhole("mergeSumsInt64AVX2")
	mergeSumsBytes("mergeSumsUint8AVX2")
	sumRows("sumRowsAVX2")
	sumRowsWhole("sumRowsInt64AVX2", "int64", 16, func(m Mem, sum, _ VecPhysical) { VPADDQ(m, sum, sum) })
	sumRowsWhole("sumRowsUint8AVX2", "uint8", 128, func(m Mem, sum, tmp VecPhysical) {
		VPXOR(tmp, tmp, tmp)
		VPSADBW(m, tmp, tmp) // of eight bytes each
		VPADDQ(tmp, sum, sum)
	})
	mostRows("maxRowsAVX2", VMAXPS)
	mostRows("minRowsAVX2", VMINPS)
	mostRowsWide("maxRowsFloat64AVX2", "float64", func(v Op, kept, _ VecPhysical) { VMAXPD(v, kept, kept) })
	mostRowsWide("minRowsFloat64AVX2", "float64", func(v Op, kept, _ VecPhysical) { VMINPD(v, kept, kept) })
	mostRowsWide("maxRowsInt64AVX2", "int64", func(v Op, kept, mask VecPhysical) { extreme64(v, kept, mask, false) })
	mostRowsWide("minRowsInt64AVX2", "int64", func(v Op, kept, mask VecPhysical) { extreme64(v, kept, mask, true) })
}

// minMax is VMAXPS or VMINPS, or that of float64.
type minMax func(ops ...Op)

// merging writes a function that goes over columns, two vectors at a time and then a last one, and for each group over fours of rows: width is the
// number of vectors of a group, of so many elements each. The first row of the four is at R9, and the others RDX bytes and multiples of it further on, three of which are R8.
func merging(name, signature string, elements int, columns func(width int, fours func(body func()))) {
	TEXT(name, NOSPLIT, signature)
	Load(Param("fours"), R10)
	Load(Param("n"), RCX)
	Load(Param("acc"), RDI)
	Load(Param("rows"), RSI)
	Load(Param("ld"), RDX)
	LEAQ(Mem{Base: RDX, Index: RDX, Scale: 2}, R8)
	group := func(label string, width int) {
		columns(width, func(body func()) {
			MOVQ(RSI, R9)
			MOVQ(R10, RBX)
			Label(label + "Four")
			body()
			LEAQ(Mem{Base: R9, Index: RDX, Scale: 4}, R9)
			DECQ(RBX)
			JNZ(LabelRef(label + "Four"))
		})
		ADDQ(U8(32*width), RSI)
	}
	two := U8(uint8(2 * elements))
	SUBQ(two, RCX)
	JLT(LabelRef("rest"))
	Label("two")
	group("two", 2)
	SUBQ(two, RCX)
	JGE(LabelRef("two"))
	Label("rest")
	ADDQ(two, RCX)
	JZ(LabelRef("done"))
	group("one", 1)
	Label("done")
	VZEROUPPER()
	RET()
}

// rowAt is a vector of row k of the four.
func rowAt(k, vector int) Mem {
	m := Mem{Base: R9, Disp: 32 * vector}
	switch k {
	case 1:
		m.Index, m.Scale = RDX, 1
	case 2:
		m.Index, m.Scale = RDX, 2
	case 3:
		m.Index, m.Scale = R8, 1
	}
	return m
}

// mergeSums adds the sums of four rows, of which two are added first, to sums in float64.
func mergeSums(name string) {
	sums := []VecPhysical{Y0, Y1, Y2, Y3}
	merging(name, "func(fours, n int, acc *float64, rows *float32, ld int)", 8, func(width int, fours func(func())) {
		for i := range 2 * width {
			VMOVUPD(Mem{Base: RDI, Disp: 32 * i}, sums[i])
		}
		fours(func() {
			for v := range width {
				a, b := []VecPhysical{Y4, Y6}[v], []VecPhysical{Y5, Y7}[v]
				VMOVUPS(rowAt(0, v), a)
				VMOVUPS(rowAt(2, v), b)
				VADDPS(rowAt(1, v), a, a)
				VADDPS(rowAt(3, v), b, b)
				VADDPS(b, a, a)
				VEXTRACTF128(U8(1), a, b.AsX())
				VCVTPS2PD(a.AsX(), a)
				VCVTPS2PD(b.AsX(), b)
				VADDPD(a, sums[2*v], sums[2*v])
				VADDPD(b, sums[2*v+1], sums[2*v+1])
			}
		})
		for i := range 2 * width {
			VMOVUPD(sums[i], Mem{Base: RDI, Disp: 32 * i})
		}
		ADDQ(U8(64*width), RDI)
	})
}

// mergeProductRows multiplies products in float64 by four rows, one after the other.
func mergeProductRows(name string) {
	products := []VecPhysical{Y0, Y1, Y2, Y3}
	merging(name, "func(fours, n int, acc *float64, rows *float32, ld int)", 8, func(width int, fours func(func())) {
		for i := range 2 * width {
			VMOVUPD(Mem{Base: RDI, Disp: 32 * i}, products[i])
		}
		fours(func() {
			for k := range 4 {
				for i := range 2 * width {
					m := rowAt(k, 0)
					m.Disp = 16 * i
					x := []VecPhysical{Y4, Y5, Y6, Y7}[i]
					VCVTPS2PD(m, x)
					VMULPD(x, products[i], products[i])
				}
			}
		})
		for i := range 2 * width {
			VMOVUPD(products[i], Mem{Base: RDI, Disp: 32 * i})
		}
		ADDQ(U8(64*width), RDI)
	})
}

// mergeMost keeps the largest, or least, of each column. The instruction gives what was there where one is NaN; columns with a NaN become all ones at the
// end, which is one.
func mergeMost(name, element string, most minMax, compare func(ops ...Op)) {
	kept, spoilt := []VecPhysical{Y0, Y1}, []VecPhysical{Y2, Y3}
	elements := map[string]int{"float32": 8, "float64": 4}[element]
	merging(name, "func(fours, n int, acc, rows *"+element+", ld int)", elements, func(width int, fours func(func())) {
		for v := range width {
			VMOVUPS(Mem{Base: RDI, Disp: 32 * v}, kept[v])
			VXORPS(spoilt[v], spoilt[v], spoilt[v])
		}
		fours(func() {
			for v := range width {
				VMOVUPS(rowAt(0, v), Y4)
				VMOVUPS(rowAt(1, v), Y5)
				VMOVUPS(rowAt(2, v), Y6)
				VMOVUPS(rowAt(3, v), Y7)
				compare(U8(3), Y4, Y5, Y8)
				compare(U8(3), Y6, Y7, Y9)
				most(Y5, Y4, Y4)
				most(Y7, Y6, Y6)
				most(Y6, Y4, Y4)
				most(kept[v], Y4, kept[v])
				VORPS(Y9, Y8, Y8)
				VORPS(Y8, spoilt[v], spoilt[v])
			}
		})
		for v := range width {
			VORPS(spoilt[v], kept[v], kept[v])
			VMOVUPS(kept[v], Mem{Base: RDI, Disp: 32 * v})
		}
		ADDQ(U8(32*width), RDI)
	})
}

// mergeMostWhole keeps the largest, or least, int64 of each column.
func mergeMostWhole(name string, least bool) {
	kept := []VecPhysical{Y0, Y1}
	merging(name, "func(fours, n int, acc, rows *int64, ld int)", 4, func(width int, fours func(func())) {
		for v := range width {
			VMOVDQU(Mem{Base: RDI, Disp: 32 * v}, kept[v])
		}
		fours(func() {
			for v := range width {
				for k, x := range []VecPhysical{Y4, Y5, Y6, Y7} {
					VMOVDQU(rowAt(k, v), x)
				}
				extreme64(Y5, Y4, Y8, least)
				extreme64(Y7, Y6, Y9, least)
				extreme64(Y6, Y4, Y8, least)
				extreme64(Y4, kept[v], Y8, least)
			}
		})
		for v := range width {
			VMOVDQU(kept[v], Mem{Base: RDI, Disp: 32 * v})
		}
		ADDQ(U8(32*width), RDI)
	})
}

// mergeMostBytes keeps the largest, or least, byte of each column.
func mergeMostBytes(name string, most minMax) {
	kept := []VecPhysical{Y0, Y1}
	merging(name, "func(fours, n int, acc, rows *uint8, ld int)", 32, func(width int, fours func(func())) {
		for v := range width {
			VMOVDQU(Mem{Base: RDI, Disp: 32 * v}, kept[v])
		}
		fours(func() {
			for v := range width {
				for k := range 4 {
					most(rowAt(k, v), kept[v], kept[v])
				}
			}
		})
		for v := range width {
			VMOVDQU(kept[v], Mem{Base: RDI, Disp: 32 * v})
		}
		ADDQ(U8(32*width), RDI)
	})
}

// mostRowsBytes gives the largest, or least, byte of each row, of a multiple of 128 bytes.
func mostRowsBytes(name string, most minMax) {
	kept := []VecPhysical{Y0, Y1, Y2, Y3}
	alongRows(name, "func(rows, n int, v *uint8, ld int, to *uint8)", func() {
		for i, k := range kept {
			VMOVDQU(Mem{Base: RSI, Disp: 32 * i}, k)
		}
		Label("loop")
		for i, k := range kept {
			most(Mem{Base: RSI, Disp: 32 * i}, k, k)
		}
		SUBQ(I8(-128), RSI)
		ADDQ(I8(-128), RCX)
		JNZ(LabelRef("loop"))
		most(Y1, Y0, Y0)
		most(Y3, Y2, Y2)
		most(Y2, Y0, Y0)
		VEXTRACTI128(U8(1), Y0, X1)
		most(X1, X0, X0)
		for _, n := range []uint8{8, 4, 2, 1} {
			VPSRLDQ(U8(n), X0, X1)
			most(X1, X0, X0)
		}
		VPEXTRB(U8(0), X0, Mem{Base: RDI})
		INCQ(RDI)
	})
}

// mergeSumsWhole adds four rows of int64.
func mergeSumsWhole(name string) {
	sums := []VecPhysical{Y0, Y1}
	merging(name, "func(fours, n int, acc, rows *int64, ld int)", 4, func(width int, fours func(func())) {
		for v := range width {
			VMOVDQU(Mem{Base: RDI, Disp: 32 * v}, sums[v])
		}
		fours(func() {
			for v := range width {
				a, b := []VecPhysical{Y4, Y6}[v], []VecPhysical{Y5, Y7}[v]
				VMOVDQU(rowAt(0, v), a)
				VMOVDQU(rowAt(2, v), b)
				VPADDQ(rowAt(1, v), a, a)
				VPADDQ(rowAt(3, v), b, b)
				VPADDQ(b, a, a)
				VPADDQ(a, sums[v], sums[v])
			}
		})
		for v := range width {
			VMOVDQU(sums[v], Mem{Base: RDI, Disp: 32 * v})
		}
		ADDQ(U8(32*width), RDI)
	})
}

// mergeSumsBytes adds four rows of uint8 to sums in int64, 32 columns at a time. In between they have 16 bits, which 257 rows cannot exceed.
func mergeSumsBytes(name string) {
	merging(name, "func(fours, n int, acc *int64, rows *uint8, ld int)", 32, func(width int, fours func(func())) {
		sums := []VecPhysical{Y0, Y1, Y2, Y3}[:2*width]
		for _, s := range sums {
			VPXOR(s, s, s)
		}
		fours(func() {
			for k := range 4 {
				for i, s := range sums {
					m, x := rowAt(k, 0), []VecPhysical{Y4, Y5, Y6, Y7}[i]
					m.Disp = 16 * i
					VPMOVZXBW(m, x)
					VPADDW(x, s, s)
				}
			}
		})
		for i, s := range sums {
			for part := range 4 { // of four columns
				x := Y4
				if part == 2 {
					VEXTRACTI128(U8(1), s, s.AsX())
				}
				if part%2 == 1 {
					VPSRLDQ(U8(8), s.AsX(), X5)
					VPMOVZXWQ(X5, x)
				} else {
					VPMOVZXWQ(s.AsX(), x)
				}
				m := Mem{Base: RDI, Disp: 128*i + 32*part}
				VPADDQ(m, x, x)
				VMOVDQU(x, m)
			}
		}
		ADDQ(U32(uint32(256*width)), RDI)
	})
}

// alongRows writes a function that goes over rows of n elements, ld bytes apart, and calls row for each one, which is at RSI, its length in RCX.
func alongRows(name, signature string, row func()) {
	TEXT(name, NOSPLIT, signature)
	Load(Param("rows"), R10)
	Load(Param("v"), R9)
	Load(Param("ld"), RDX)
	Load(Param("to"), RDI)
	Label("row")
	MOVQ(R9, RSI)
	Load(Param("n"), RCX)
	row()
	ADDQ(RDX, R9)
	DECQ(R10)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// sumRows gives what sumAVX2 gives of each row.
func sumRows(name string) {
	sums := []VecPhysical{Y0, Y1, Y2, Y3}
	alongRows(name, "func(rows, n int, v *float32, ld int, to *float64)", func() {
		for _, s := range sums {
			VXORPD(s, s, s)
		}
		SUBQ(U8(64), RCX)
		JLT(LabelRef("rest"))
		Label("loop")
		a, b := []VecPhysical{Y4, Y6}, []VecPhysical{Y5, Y7}
		at := func(k, v int) Mem { return Mem{Base: RSI, Disp: 64*k + 32*v} }
		for v := range a {
			VMOVUPS(at(0, v), a[v])
			VMOVUPS(at(2, v), b[v])
			VADDPS(at(1, v), a[v], a[v])
			VADDPS(at(3, v), b[v], b[v])
			VADDPS(b[v], a[v], a[v])
			VEXTRACTF128(U8(1), a[v], b[v].AsX())
			VCVTPS2PD(a[v].AsX(), a[v])
			VCVTPS2PD(b[v].AsX(), b[v])
			VADDPD(a[v], sums[2*v], sums[2*v])
			VADDPD(b[v], sums[2*v+1], sums[2*v+1])
		}
		ADDQ(U32(256), RSI)
		SUBQ(U8(64), RCX)
		JGE(LabelRef("loop"))
		Label("rest")
		ADDQ(U8(64), RCX)
		JZ(LabelRef("join"))
		Label("sixteen")
		for i, x := range []VecPhysical{Y4, Y5, Y6, Y7} {
			VCVTPS2PD(Mem{Base: RSI, Disp: 16 * i}, x)
			VADDPD(x, sums[i], sums[i])
		}
		ADDQ(U8(64), RSI)
		SUBQ(U8(16), RCX)
		JNZ(LabelRef("sixteen"))
		Label("join")
		VADDPD(Y2, Y0, Y0)
		VADDPD(Y3, Y1, Y1)
		VADDPD(Y1, Y0, Y0)
		VEXTRACTF128(U8(1), Y0, X1)
		VADDPD(X1, X0, X0)
		VHADDPD(X0, X0, X0)
		VMOVSD(X0, Mem{Base: RDI})
		ADDQ(U8(8), RDI)
	})
}

// sumRowsWhole gives the sum of each row in int64, of a multiple of so many elements, which fill four vectors.
func sumRowsWhole(name, element string, elements int, add func(m Mem, sum, tmp VecPhysical)) {
	sums := []VecPhysical{Y0, Y1, Y2, Y3}
	alongRows(name, "func(rows, n int, v *"+element+", ld int, to *int64)", func() {
		for _, s := range sums {
			VPXOR(s, s, s)
		}
		Label("loop")
		for i, s := range sums {
			add(Mem{Base: RSI, Disp: 32 * i}, s, []VecPhysical{Y4, Y5, Y6, Y7}[i])
		}
		SUBQ(I8(-128), RSI)
		SUBQ(U32(uint32(elements)), RCX)
		JNZ(LabelRef("loop"))
		VPADDQ(Y1, Y0, Y0)
		VPADDQ(Y3, Y2, Y2)
		VPADDQ(Y2, Y0, Y0)
		VEXTRACTI128(U8(1), Y0, X1)
		VPADDQ(X1, X0, X0)
		VPSRLDQ(U8(8), X0, X1)
		VPADDQ(X1, X0, X0)
		VMOVQ(X0, Mem{Base: RDI})
		ADDQ(U8(8), RDI)
	})
}

// mostRows gives what maxAVX2 or minAVX2 gives of each row.
func mostRows(name string, most minMax) {
	kept := []VecPhysical{Y0, Y1, Y2, Y3}
	alongRows(name, "func(rows, n int, v *float32, ld int, to *float32)", func() {
		VMOVUPS(Mem{Base: RSI}, Y0)
		for _, k := range kept[1:] {
			VMOVAPS(Y0, k)
		}
		VXORPS(Y8, Y8, Y8)
		Label("loop")
		for i := range kept {
			VMOVUPS(Mem{Base: RSI, Disp: 32 * i}, []VecPhysical{Y4, Y5, Y6, Y7}[i])
		}
		VCMPPS(U8(3), Y4, Y5, Y9)
		VCMPPS(U8(3), Y6, Y7, Y10)
		for i, k := range kept {
			most([]VecPhysical{Y4, Y5, Y6, Y7}[i], k, k)
		}
		VORPS(Y10, Y9, Y9)
		VORPS(Y9, Y8, Y8)
		ADDQ(U32(128), RSI)
		SUBQ(U8(32), RCX)
		JNZ(LabelRef("loop"))
		most(Y1, Y0, Y0)
		most(Y3, Y2, Y2)
		most(Y2, Y0, Y0)
		VEXTRACTF128(U8(1), Y0, X2)
		most(X2, X0, X0)
		VPERMILPS(U8(0x4e), X0, X2)
		most(X2, X0, X0)
		VPERMILPS(U8(0xb1), X0, X2)
		most(X2, X0, X0)
		VMOVMSKPS(Y8, EAX)
		NEGL(EAX)
		SBBL(EAX, EAX) // all ones, which is a NaN, or 0
		VMOVD(EAX, X2)
		VORPS(X2, X0, X0)
		VMOVSS(X0, Mem{Base: RDI})
		ADDQ(U8(4), RDI)
	})
}

// mostRowsWide gives the largest, or least, element of each row, of a multiple of 16 elements of 8 bytes: NaN if there is one.
func mostRowsWide(name, element string, most func(v Op, kept, mask VecPhysical)) {
	kept := []VecPhysical{Y0, Y1, Y2, Y3}
	alongRows(name, "func(rows, n int, v *"+element+", ld int, to *"+element+")", func() {
		for i, k := range kept {
			VMOVUPD(Mem{Base: RSI, Disp: 32 * i}, k)
		}
		VXORPD(Y8, Y8, Y8)
		Label("loop")
		loaded := []VecPhysical{Y4, Y5, Y6, Y7}
		for i, v := range loaded {
			VMOVUPD(Mem{Base: RSI, Disp: 32 * i}, v)
		}
		if element == "float64" {
			VCMPPD(U8(3), Y4, Y5, Y9)
			VCMPPD(U8(3), Y6, Y7, Y10)
			VORPD(Y10, Y9, Y9)
			VORPD(Y9, Y8, Y8)
		}
		for i, k := range kept {
			most(loaded[i], k, []VecPhysical{Y11, Y12, Y13, Y14}[i])
		}
		SUBQ(I8(-128), RSI)
		SUBQ(U8(16), RCX)
		JNZ(LabelRef("loop"))
		most(Y1, Y0, Y9)
		most(Y3, Y2, Y10)
		most(Y2, Y0, Y9)
		VEXTRACTF128(U8(1), Y0, X2)
		most(Y2, Y0, Y9)
		VPERMILPD(U8(1), X0, X2)
		most(Y2, Y0, Y9)
		VMOVMSKPD(Y8, EAX)
		NEGQ(RAX)
		SBBQ(RAX, RAX) // all ones, which is a NaN, or 0
		VMOVQ(RAX, X2)
		VORPD(X2, X0, X0)
		VMOVSD(X0, Mem{Base: RDI})
		ADDQ(U8(8), RDI)
	})
}
