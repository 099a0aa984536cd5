package main

import "slices"

// Instructions that compute the halves of a vector apart.

// laneOp computes one half of a vector: src are the operands in the order in which Go has them, without a number that comes first.
type laneOp func(t *translation, d vreg, src []vreg, imm int)

func numbers(in vectorInstruction, wide bool) laneOp {
	return func(t *translation, d vreg, src []vreg, _ int) {
		if len(src) == 1 {
			t.two(in, wide, d, src[0])
		} else {
			t.three(in, wide, d, src[1], src[0])
		}
	}
}

func wholes(name string, code uint32, size int) laneOp {
	return func(t *translation, d vreg, src []vreg, _ int) {
		if len(src) == 1 {
			t.integer(name, code, size, d, src[0])
		} else {
			t.integers(name, code, size, d, src[1], src[0])
		}
	}
}

func shifted(name string, size int) laneOp {
	return func(t *translation, d vreg, src []vreg, by int) {
		if by >= 8<<size {
			refuse("a shift of %d", by)
		}
		t.shiftBy(name, size, d, src[0], by)
	}
}

// extreme is the first of two numbers if it is the greater or the lesser one, else the second, also where one is NaN.
func extreme(greater, wide bool) laneOp {
	return func(t *translation, d vreg, src []vreg, _ int) {
		first, second := src[1], src[0]
		is := d
		if d == first || d == second {
			is = t.temp()
		}
		if greater {
			t.three(vFcmgt, wide, is, first, second)
		} else {
			t.three(vFcmgt, wide, is, second, first)
		}
		t.choice(d, is, first, second)
	}
}

// choice is d = a where is has bits, else b.
func (t *translation) choice(d, is, a, b vreg) {
	switch d {
	case is:
		t.three(vBsl, false, d, a, b)
	case a:
		t.three(vBif, false, d, b, is)
	case b:
		t.three(vBit, false, d, a, is)
	default:
		t.move(d, is)
		t.three(vBsl, false, d, a, b)
	}
}

func compared(wide bool) laneOp {
	return func(t *translation, d vreg, src []vreg, predicate int) {
		a, b := src[1], src[0]
		switch predicate {
		case 0, 4:
			t.three(vFcmeq, wide, d, a, b)
		case 1, 17:
			t.three(vFcmgt, wide, d, b, a)
		case 2, 18:
			t.three(vFcmge, wide, d, b, a)
		case 13, 29:
			t.three(vFcmge, wide, d, a, b)
		case 14, 30:
			t.three(vFcmgt, wide, d, a, b)
		case 5, 21:
			t.three(vFcmgt, wide, d, b, a)
		case 6, 22:
			t.three(vFcmge, wide, d, b, a)
		case 3, 7: // not ordered, and ordered
			ordered := t.temp()
			t.three(vFcmeq, wide, ordered, a, a)
			if a != b {
				other := t.temp()
				t.three(vFcmeq, wide, other, b, b)
				t.three(vAnd, wide, ordered, ordered, other)
			}
			moved(t, d, []vreg{ordered}, 0)
		default:
			refuse("a comparison of kind %d", predicate)
		}
		if slices.Contains([]int{3, 4, 5, 21, 6, 22}, predicate) {
			t.two(vNot, wide, d, d)
		}
	}
}

// blended is b where the sign of a mask is set, else a: Go has the mask, b and a.
func blended(size int) laneOp {
	return func(t *translation, d vreg, src []vreg, _ int) {
		is := t.temp()
		t.shiftBy("sshr", size, is, src[0], 8<<size-1)
		t.choice(d, is, src[1], src[2])
	}
}

// packed are the elements of both operands, of half the size: those of the second are the lower ones.
func packed(name string, size int) laneOp {
	return func(t *translation, d vreg, src []vreg, _ int) {
		low, high := src[1], src[0]
		to := d
		if d == high {
			to = t.temp()
		}
		t.shorten(name, false, size, to, low)
		t.shorten(name, true, size, to, high)
		if to != d {
			t.move(d, to)
		}
	}
}

// rounding is to whole numbers.
func rounding(wide bool) laneOp {
	return func(t *translation, d vreg, src []vreg, way int) {
		in, ok := map[int]vectorInstruction{0: vFrintn, 8: vFrintn, 1: vFrintm, 9: vFrintm, 2: vFrintp, 10: vFrintp, 3: vFrintz, 11: vFrintz}[way]
		if !ok {
			refuse("a rounding of kind %d", way)
		}
		t.two(in, wide, d, src[0])
	}
}

// toWhole makes integers of numbers, and the least one of those that are none.
func toWhole(name string, code uint32) laneOp {
	return func(t *translation, d vreg, src []vreg, _ int) {
		is, least, whole := t.temp(), t.temp(), t.temp()
		t.every(least, 0x4f000000) // 2^31
		t.three(vFcmgt, false, is, least, src[0])
		t.word(code|uint32(src[0])<<5|uint32(whole), "%s v%d.4s, v%d.4s", name, whole, src[0])
		t.every(least, 1<<31)
		t.three(vBsl, false, is, whole, least)
		t.move(d, is)
	}
}

// every puts bits into each element of 4 bytes.
func (t *translation) every(d vreg, bits uint32) {
	if !t.immediate(d, constant{uint64(bits), false}) {
		t.line("MOVD $%d, R%d", bits, scratch)
		t.line("VDUP R%d, V%d.S4", scratch, d)
	}
}

// shuffled are two elements of each operand, by pairs of bits: the first operand's go into the upper half.
func shuffled(t *translation, d vreg, src []vreg, imm int) {
	low, high := src[1], src[0]
	switch imm {
	case 0x88:
		t.three(vUzp1, false, d, low, high)
		return
	case 0xdd:
		t.three(vUzp2, false, d, low, high)
		return
	case 0x44:
		t.three(vZip1, true, d, low, high)
		return
	case 0xee:
		t.three(vZip2, true, d, low, high)
		return
	}
	to := t.temp()
	for i := range 4 {
		from := low
		if i > 1 {
			from = high
		}
		t.put(2, to, i, from, imm>>(2*i)&3)
	}
	t.move(d, to)
}

// permuted are the elements of one operand, by pairs of bits.
func permuted(t *translation, d vreg, src []vreg, imm int) {
	switch imm {
	case 0xb1:
		t.word(0x4ea00800|uint32(src[0])<<5|uint32(d), "rev64 v%d.4s, v%d.4s", d, src[0])
	case 0x4e:
		t.shiftOver(d, src[0], src[0], 8)
	default:
		shuffled(t, d, []vreg{src[0], src[0]}, imm)
	}
}

// mixed are elements of the first operand where bits are set, else of the second.
func mixed(t *translation, d vreg, src []vreg, imm int) {
	to, other, bit := d, src[0], 1
	switch d {
	case src[0]:
		to, other, bit = d, src[1], 0
	case src[1]:
	default:
		t.move(d, src[1])
	}
	for i := range 4 {
		if imm>>i&1 == bit {
			t.put(2, to, i, other, i)
		}
	}
}

func moved(t *translation, d vreg, src []vreg, _ int) {
	if d != src[0] {
		t.move(d, src[0])
	}
}

// without are the bits of the first operand that the second does not have.
func without(t *translation, d vreg, src []vreg, _ int) {
	t.word(0x4e601c00|uint32(src[1])<<16|uint32(src[0])<<5|uint32(d), "bic v%d.16b, v%d.16b, v%d.16b", d, src[0], src[1])
}

// lowProducts are those of the lower halves of elements of 8 bytes.
func lowProducts(t *translation, d vreg, src []vreg, _ int) {
	a, b := t.temp(), t.temp()
	t.shorten("xtn", false, 2, a, src[1])
	t.shorten("xtn", false, 2, b, src[0])
	t.word(0x2ea0c000|uint32(b)<<16|uint32(a)<<5|uint32(d), "umull v%d.2d, v%d.2s, v%d.2s", d, a, b)
}

// byteSums are sums of the differences of eight bytes each.
func byteSums(t *translation, d vreg, src []vreg, _ int) {
	t.word(0x6e207400|uint32(src[0])<<16|uint32(src[1])<<5|uint32(d), "uabd v%d.16b, v%d.16b, v%d.16b", d, src[1], src[0])
	for size := range 3 {
		t.word(0x6e202800|uint32(size)<<22|uint32(d)<<5|uint32(d), "uaddlp v%d.%s, v%d.%s", d, arrangements[size+1], d, arrangements[size])
	}
}

// differing are the bits that are set in one operand alone.
func differing(t *translation, d vreg, src []vreg, _ int) {
	if src[0] == src[1] {
		t.zero(d)
		return
	}
	t.three(vEor, false, d, src[1], src[0])
}

// equalWholes are all bits where elements are equal.
func equalWholes(size int) laneOp { return wholes("cmeq", 0x6e208c00, size) }

// pairsSwapped exchanges both numbers of 8 bytes.
func pairsSwapped(t *translation, d vreg, src []vreg, imm int) {
	if imm&3 != 1 {
		refuse("a permutation of kind %d", imm)
	}
	t.shiftOver(d, src[0], src[0], 8)
}

func bytesDown(t *translation, d vreg, src []vreg, by int) {
	zero := t.temp()
	t.zero(zero)
	t.shiftOver(d, src[0], zero, by)
}

// lanewise are instructions that compute halves of vectors apart.
var lanewise = map[string]laneOp{
	"VADDPS": numbers(vFadd, false), "VADDPD": numbers(vFadd, true), "VSUBPS": numbers(vFsub, false), "VSUBPD": numbers(vFsub, true),
	"VMULPS": numbers(vFmul, false), "VMULPD": numbers(vFmul, true), "VDIVPS": numbers(vFdiv, false), "VDIVPD": numbers(vFdiv, true),
	"VSQRTPS": numbers(vFsqrt, false), "VSQRTPD": numbers(vFsqrt, true), "VROUNDPS": rounding(false), "VROUNDPD": rounding(true),
	"VMAXPS": extreme(true, false), "VMAXPD": extreme(true, true), "VMINPS": extreme(false, false), "VMINPD": extreme(false, true),
	"VCMPPS": compared(false), "VCMPPD": compared(true), "VBLENDVPS": blended(2), "VBLENDVPD": blended(3), "VPBLENDVB": blended(0),
	"VHADDPS": numbers(vFaddp, false), "VHADDPD": numbers(vFaddp, true),

	"VANDPS": numbers(vAnd, false), "VANDPD": numbers(vAnd, false), "VPAND": numbers(vAnd, false), "VORPS": numbers(vOrr, false), "VORPD": numbers(vOrr, false),
	"VPOR": numbers(vOrr, false), "VXORPS": differing, "VXORPD": differing, "VPXOR": differing, "VANDNPS": without, "VANDNPD": without, "VPANDN": without,

	"VPADDB": wholes("add", 0x4e208400, 0), "VPADDW": wholes("add", 0x4e208400, 1), "VPADDD": wholes("add", 0x4e208400, 2), "VPADDQ": wholes("add", 0x4e208400, 3),
	"VPSUBB": wholes("sub", 0x6e208400, 0), "VPSUBD": wholes("sub", 0x6e208400, 2), "VPSUBQ": wholes("sub", 0x6e208400, 3), "VPMULLD": wholes("mul", 0x4e209c00, 2),
	"VPCMPEQB": equalWholes(0), "VPCMPEQW": equalWholes(1), "VPCMPEQD": equalWholes(2), "VPCMPEQQ": equalWholes(3),
	"VPCMPGTD": wholes("cmgt", 0x4e203400, 2), "VPCMPGTQ": wholes("cmgt", 0x4e203400, 3),
	"VPMINUB": wholes("umin", 0x6e206c00, 0), "VPMAXUB": wholes("umax", 0x6e206400, 0), "VPMINSD": wholes("smin", 0x4e206c00, 2), "VPMAXSD": wholes("smax", 0x4e206400, 2),
	"VPABSB": wholes("abs", 0x4e20b800, 0), "VPABSD": wholes("abs", 0x4e20b800, 2), "VPMULUDQ": lowProducts, "VPSADBW": byteSums,
	"VPSLLD": shifted("shl", 2), "VPSLLQ": shifted("shl", 3), "VPSRLD": shifted("ushr", 2), "VPSRLQ": shifted("ushr", 3), "VPSRAD": shifted("sshr", 2), "VPSRLDQ": bytesDown,

	"VUNPCKLPS": numbers(vZip1, false), "VUNPCKHPS": numbers(vZip2, false), "VUNPCKLPD": numbers(vZip1, true), "VUNPCKHPD": numbers(vZip2, true),
	"VPUNPCKLBW": wholes("zip1", 0x4e003800, 0), "VPUNPCKLWD": wholes("zip1", 0x4e003800, 1), "VPUNPCKLDQ": wholes("zip1", 0x4e003800, 2), "VPUNPCKLQDQ": wholes("zip1", 0x4e003800, 3),
	"VPUNPCKHBW": wholes("zip2", 0x4e007800, 0), "VPUNPCKHWD": wholes("zip2", 0x4e007800, 1), "VPUNPCKHDQ": wholes("zip2", 0x4e007800, 2), "VPUNPCKHQDQ": wholes("zip2", 0x4e007800, 3),
	"VSHUFPS": shuffled, "VPERMILPS": permuted, "VPSHUFD": permuted, "VBLENDPS": mixed, "VPERMILPD": pairsSwapped,
	"VPACKSSDW": packed("sqxtn", 1), "VPACKUSDW": packed("sqxtun", 1), "VPACKSSWB": packed("sqxtn", 0), "VPACKUSWB": packed("sqxtun", 0),
	"VCVTPS2DQ": toWhole("fcvtns", 0x4e21a800), "VCVTTPS2DQ": toWhole("fcvtzs", 0x4ea1b800), "VCVTDQ2PS": numbers(vScvtf, false),
}
