package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// arrangements are the names of vectors by the size of their elements: 1, 2, 4 and 8 bytes.
var arrangements = [...]string{"16b", "8h", "4s", "2d"}

// halfArrangements are those of half a vector.
var halfArrangements = [...]string{"8b", "4h", "2s", "1d"}

// integers is an instruction on whole numbers of a size, 0 to 3.
func (a *assembler) integers(name string, code uint32, size int, d, n, m vreg) {
	s := arrangements[size]
	a.word(code|uint32(size)<<22|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s, v%d.%s", name, d, s, n, s, m, s)
}

// integer is one of a single operand.
func (a *assembler) integer(name string, code uint32, size int, d, n vreg) {
	s := arrangements[size]
	a.word(code|uint32(size)<<22|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s", name, d, s, n, s)
}

// shiftBy is a shift of elements of a size.
func (a *assembler) shiftBy(name string, size int, d, n vreg, by int) {
	bits := 8 << size
	code, distance := map[string]uint32{"shl": 0x4f005400, "ushr": 0x6f000400, "sshr": 0x4f000400}[name], 2*bits-by
	if name == "shl" {
		distance = bits + by
	}
	a.word(code|uint32(distance)<<16|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s, #%d", name, d, arrangements[size], n, arrangements[size], by)
}

// extend makes elements of the next size of the lower or the upper half.
func (a *assembler) extend(signed, upper bool, size int, d, n vreg) {
	name, code, from := "ushll", uint32(0x2f00a400), halfArrangements[size]
	if signed {
		name, code = "sshll", 0x0f00a400
	}
	if upper {
		name, code, from = name+"2", code|1<<30, arrangements[size]
	}
	a.word(code|uint32(8<<size)<<16|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s, #0", name, d, arrangements[size+1], n, from)
}

// shorten makes elements of a size of those of the next: xtn, sqxtn or sqxtun, into the lower half or the upper one.
func (a *assembler) shorten(name string, upper bool, size int, d, n vreg) {
	code, to := map[string]uint32{"xtn": 0x0e212800, "sqxtn": 0x0e214800, "sqxtun": 0x2e212800}[name], halfArrangements[size]
	if upper {
		name, code, to = name+"2", code|1<<30, arrangements[size]
	}
	a.word(code|uint32(size)<<22|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s", name, d, to, n, arrangements[size+1])
}

// shiftOver is d = the bytes of n and m, which follow each other, from one of n on.
func (a *assembler) shiftOver(d, n, m vreg, from int) {
	a.word(0x6e000000|uint32(m)<<16|uint32(from)<<11|uint32(n)<<5|uint32(d), "ext v%d.16b, v%d.16b, v%d.16b, #%d", d, n, m, from)
}

// fill puts one element of n into all of d.
func (a *assembler) fill(size int, d, n vreg, element int) {
	place := uint32(element)<<(size+1) | 1<<size
	a.word(0x4e000400|place<<16|uint32(n)<<5|uint32(d), "dup v%d.%s, v%d.%c[%d]", d, arrangements[size], n, "bhsd"[size], element)
}

// put puts one element of n at a place of d.
func (a *assembler) put(size int, d vreg, to int, n vreg, from int) {
	a.word(0x6e000400|(uint32(to)<<(size+1)|1<<size)<<16|uint32(from)<<size<<11|uint32(n)<<5|uint32(d), "mov v%d.%c[%d], v%d.%[2]c[%d]", d, "bhsd"[size], to, n, from)
}

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

// takesNumber are those whose first operand is one.
func takesNumber(s statement) bool { return len(s.args) > 0 && strings.HasPrefix(s.args[0], "$") }

var fusedOps = regexp.MustCompile(`^VFN?MADD(132|213|231)P([SD])$`)

// operand is where both halves of a vector are: in registers, or loaded into some.
func (t *translation) operand(arg string, large bool) [2]vreg {
	if n, _, ok := vectorOf(arg); ok {
		return t.vectors[n]
	}
	m := t.memory(arg)
	r := [2]vreg{t.temp()}
	if !large {
		r[1] = r[0]
		t.line("FMOVQ %s, F%d", m.offset(0), r[0])
		return r
	}
	r[1] = t.temp()
	t.pair("FLDPQ", m, r)
	return r
}

// pair loads or stores both halves.
func (t *translation) pair(op string, m memory, r [2]vreg) {
	if m.argument == "" && m.disp%16 == 0 && m.disp >= -1024 && m.disp <= 1008 {
		if op == "FLDPQ" {
			t.line("FLDPQ %s, (F%d, F%d)", m.offset(0), r[0], r[1])
		} else {
			t.line("FSTPQ (F%d, F%d), %s", r[0], r[1], m.offset(0))
		}
		return
	}
	for i, r := range r {
		if op == "FLDPQ" {
			t.line("FMOVQ %s, F%d", m.offset(16*i), r)
		} else {
			t.line("FMOVQ F%d, %s", r, m.offset(16*i))
		}
	}
}

// vector writes an instruction on vectors.
func (t *translation) vector(s statement) {
	last := s.args[len(s.args)-1]
	n, large, isRegister := vectorOf(last)
	d := t.vectors[n]
	if isClear(s) && isRegister {
		t.clear(s, d)
		return
	}
	if op, ok := lanewise[s.op]; ok {
		t.halves(s, op, d, large)
		return
	}
	if m := fusedOps.FindStringSubmatch(s.op); m != nil {
		t.fused(s, m[1], m[2] == "D", d, large)
		return
	}
	other, ok := crossing[s.op]
	if !ok {
		refuse("%s", s.op)
	}
	other(t, s, d, large)
	if !isRegister {
		t.written(last)
	}
}

// clear sets all bits, or none.
func (t *translation) clear(s statement, d [2]vreg) {
	for _, r := range slices.Compact(d[:]) {
		if strings.Contains(s.op, "XOR") {
			t.zero(r)
		} else {
			t.word(0x6f07e7e0|uint32(r), "movi v%d.2d, #0xffffffffffffffff", r)
		}
	}
}

// halves writes an instruction that computes halves apart.
func (t *translation) halves(s statement, op laneOp, d [2]vreg, large bool) {
	imm, args := 0, s.args
	if takesNumber(s) {
		imm, args = number64(args[0]), args[1:]
	}
	var from [][2]vreg
	for _, arg := range args[:len(args)-1] {
		from = append(from, t.operand(arg, large))
	}
	taken := t.taken
	for half := range 2 {
		if half == 1 && (!large || d[0] == d[1]) {
			break
		}
		var src []vreg
		for _, f := range from {
			src = append(src, f[half])
		}
		t.taken = taken // of what the other half needed nothing is left
		op(t, d[half], src, imm)
	}
}

// fused writes a product and a sum. Only the form whose result is added to is an instruction here.
func (t *translation) fused(s statement, form string, wide bool, d [2]vreg, large bool) {
	third, second := t.operand(s.args[0], large), t.operand(s.args[1], large)
	in := vFmla
	if strings.HasPrefix(s.op, "VFN") {
		in = vFmls
	}
	taken := t.taken
	for half := range 2 {
		if half == 1 && (!large || d[0] == d[1]) {
			break
		}
		t.taken = taken
		to, factor, added := d[half], second[half], third[half]
		switch form {
		case "231":
			t.three(in, wide, to, factor, added)
			continue
		case "132":
			factor, added = added, factor
		}
		sum := t.temp()
		t.move(sum, added)
		t.three(in, wide, sum, factor, to)
		t.move(to, sum)
	}
}

// crossing are all other instructions.
var crossing map[string]func(t *translation, s statement, d [2]vreg, large bool)

func init() {
	type cross = func(t *translation, s statement, d [2]vreg, large bool)
	crossing = map[string]cross{}
	for _, op := range []string{"VMOVUPS", "VMOVUPD", "VMOVDQU", "VMOVAPS", "VMOVAPD", "VMOVDQA"} {
		crossing[op] = (*translation).moveVector
	}
	for _, op := range []string{"VMOVQ", "VMOVSD", "VMOVLPS", "VMOVLPD", "MOVSD"} {
		crossing[op] = func(t *translation, s statement, _ [2]vreg, _ bool) { t.moveLow(s, "D") }
	}
	for _, op := range []string{"VMOVD", "VMOVSS"} {
		crossing[op] = func(t *translation, s statement, _ [2]vreg, _ bool) { t.moveLow(s, "S") }
	}
	crossing["VMOVHPS"] = (*translation).moveHigh
	for op, size := range map[string]int{"VBROADCASTSS": 2, "VBROADCASTSD": 3, "VPBROADCASTB": 0, "VPBROADCASTD": 2, "VPBROADCASTQ": 3} {
		crossing[op] = func(t *translation, s statement, d [2]vreg, _ bool) { t.broadcast(s, d, size) }
	}
	for _, op := range []string{"VEXTRACTF128", "VEXTRACTI128"} {
		crossing[op] = (*translation).extractHalf
	}
	for _, op := range []string{"VINSERTF128", "VINSERTI128"} {
		crossing[op] = (*translation).insertHalf
	}
	for _, op := range []string{"VPERM2F128", "VPERM2I128"} {
		crossing[op] = (*translation).chooseHalves
	}
	crossing["VPERMPD"], crossing["VPERMQ"] = (*translation).permuteQuarters, (*translation).permuteQuarters
	crossing["VPERMD"], crossing["VPERMPS"] = (*translation).lookUp, (*translation).lookUp
	for _, letters := range []string{"BW0", "BD0", "BQ0", "WD1", "WQ1", "DQ2"} {
		from, to := int(letters[2]-'0'), strings.Index("BWDQ", letters[1:2])
		for _, signed := range []bool{false, true} {
			name := map[bool]string{false: "VPMOVZX", true: "VPMOVSX"}[signed] + letters[:2]
			crossing[name] = func(t *translation, s statement, d [2]vreg, large bool) { t.extendAll(s, d, large, signed, from, to) }
		}
	}
	crossing["VCVTPS2PD"] = func(t *translation, s statement, d [2]vreg, large bool) {
		t.fromHalf(s, d, large, 4, func(d, n vreg, upper bool) { t.widen(d, n, upper) })
	}
	crossing["VCVTPH2PS"] = func(t *translation, s statement, d [2]vreg, large bool) {
		t.fromHalf(s, d, large, 2, func(d, n vreg, upper bool) {
			if upper {
				t.word(0x4e217800|uint32(n)<<5|uint32(d), "fcvtl2 v%d.4s, v%d.8h", d, n)
			} else {
				t.word(0x0e217800|uint32(n)<<5|uint32(d), "fcvtl v%d.4s, v%d.4h", d, n)
			}
		})
	}
	crossing["VCVTDQ2PD"] = func(t *translation, s statement, d [2]vreg, large bool) {
		t.fromHalf(s, d, large, 4, func(d, n vreg, upper bool) {
			t.extend(true, upper, 2, d, n)
			t.word(0x4e61d800|uint32(d)<<5|uint32(d), "scvtf v%d.2d, v%d.2d", d, d)
		})
	}
	crossing["VCVTPD2PSY"] = func(t *translation, s statement, d [2]vreg, _ bool) { t.toHalf(s, s.args[0], true, d, t.narrow) }
	crossing["VCVTPS2PH"] = func(t *translation, s statement, d [2]vreg, _ bool) {
		_, large, _ := vectorOf(s.args[1])
		t.toHalf(s, s.args[1], large, d, func(d, n vreg, upper bool) {
			if upper {
				t.word(0x4e216800|uint32(n)<<5|uint32(d), "fcvtn2 v%d.8h, v%d.4s", d, n)
			} else {
				t.word(0x0e216800|uint32(n)<<5|uint32(d), "fcvtn v%d.4h, v%d.4s", d, n)
			}
		})
	}
	crossing["VMASKMOVPS"] = (*translation).loadMasked
	crossing["VMOVMSKPS"] = func(t *translation, s statement, _ [2]vreg, _ bool) { t.signs(s, 2) }
	crossing["VMOVMSKPD"] = func(t *translation, s statement, _ [2]vreg, _ bool) { t.signs(s, 3) }
	crossing["VPTEST"] = (*translation).testBits
	crossing["VEXTRACTPS"] = func(t *translation, s statement, _ [2]vreg, _ bool) { t.extract(s, "S", "MOVW") }
	crossing["VPEXTRB"] = func(t *translation, s statement, _ [2]vreg, _ bool) { t.extract(s, "B", "MOVB") }
	for op, name := range map[string]string{"VADDSD": "FADDD", "VMULSD": "FMULD", "VSUBSD": "FSUBD", "VADDSS": "FADDS", "VMULSS": "FMULS"} {
		crossing[op] = func(t *translation, s statement, d [2]vreg, _ bool) { t.scalar(s, name, d) }
	}
}

// moveVector is a load, a store or a copy.
func (t *translation) moveVector(s statement, d [2]vreg, large bool) {
	from, to := s.args[0], s.args[1]
	if isMemory(to) {
		n, large, _ := vectorOf(from)
		m := t.memory(to)
		if large && m.argument != "" { // several results
			t.line("MOVD $%s, R%d", m.argument, scratch)
			m = memory{base: scratch}
		}
		if large {
			t.pair("FSTPQ", m, t.vectors[n])
		} else {
			t.line("FMOVQ F%d, %s", t.vectors[n][0], m.offset(0))
		}
		return
	}
	if !isMemory(from) {
		t.halves(s, moved, d, large)
		return
	}
	m := t.memory(from)
	if large {
		t.pair("FLDPQ", m, d)
	} else {
		t.line("FMOVQ %s, F%d", m.offset(0), d[0])
	}
}

// moveLow moves the lowest element.
func (t *translation) moveLow(s statement, size string) {
	from, to := s.args[0], s.args[len(s.args)-1]
	if len(s.args) != 2 {
		refuse("%s of %d operands", s.op, len(s.args))
	}
	n, _, fromVector := vectorOf(from)
	k, _, toVector := vectorOf(to)
	r, toGeneral := general[to]
	switch {
	case fromVector && toVector:
		t.line("FMOV%s F%d, F%d", size, t.vectors[n][0], t.vectors[k][0])
	case fromVector && toGeneral:
		t.line("FMOV%s F%d, R%d", size, t.vectors[n][0], r)
		t.written(to)
	case fromVector:
		t.line("FMOV%s F%d, %s", size, t.vectors[n][0], t.memory(to).offset(0))
	case isMemory(from):
		t.line("FMOV%s %s, F%d", size, t.memory(from).offset(0), t.vectors[k][0])
	default:
		t.line("FMOV%s R%d, F%d", size, general[from], t.vectors[k][0])
	}
}

// moveHigh stores the upper half of 16 bytes.
func (t *translation) moveHigh(s statement, _ [2]vreg, _ bool) {
	n, _, ok := vectorOf(s.args[0])
	if !ok {
		refuse("VMOVHPS as a load")
	}
	r := t.temp()
	t.shiftOver(r, t.vectors[n][0], t.vectors[n][0], 8)
	t.line("FMOVD F%d, %s", r, t.memory(s.args[1]).offset(0))
}

// broadcast fills a vector with one element.
func (t *translation) broadcast(s statement, d [2]vreg, size int) {
	n, _, isRegister := vectorOf(s.args[0])
	from := t.vectors[n][0]
	if !isRegister {
		m := t.memory(s.args[0])
		if m.argument == "" {
			base := m.base
			if m.disp != 0 {
				base = scratch
				t.line("ADD $%d, R%d, R%d", m.disp, m.base, base)
			}
			t.line("VLD1R (R%d), [V%d.%s]", base, d[0], [...]string{"B16", "H8", "S4", "D2"}[size])
			if d[1] != d[0] {
				t.move(d[1], d[0])
			}
			return
		}
		from = d[0]
		t.line("%s %s, F%d", [...]string{2: "FMOVS", 3: "FMOVD"}[size], m.offset(0), from)
	}
	t.fill(size, d[0], from, 0)
	if d[1] != d[0] {
		t.move(d[1], d[0])
	}
}

func (t *translation) extractHalf(s statement, d [2]vreg, _ bool) {
	n, _, _ := vectorOf(s.args[1])
	from := t.vectors[n][number64(s.args[0])]
	if isMemory(s.args[2]) {
		t.line("FMOVQ F%d, %s", from, t.memory(s.args[2]).offset(0))
		return
	}
	moved(t, d[0], []vreg{from}, 0)
}

func (t *translation) insertHalf(s statement, d [2]vreg, _ bool) {
	k, _, _ := vectorOf(s.args[2])
	half := number64(s.args[0])
	from := t.vectors[k]
	if isMemory(s.args[1]) {
		m := t.memory(s.args[1])
		moved(t, d[1-half], []vreg{from[1-half]}, 0)
		t.line("FMOVQ %s, F%d", m.offset(0), d[half])
		return
	}
	n, _, _ := vectorOf(s.args[1])
	one := t.vectors[n][0]
	t.together(d, half, one, from[1-half])
}

// together sets a half of a vector to one register, and the other half to another.
func (t *translation) together(d [2]vreg, half int, one, other vreg) {
	if d[1-half] == one { // which is needed
		if d[half] == other {
			r := t.temp()
			t.move(r, one)
			one = r
		} else {
			moved(t, d[half], []vreg{one}, 0)
			moved(t, d[1-half], []vreg{other}, 0)
			return
		}
	}
	moved(t, d[1-half], []vreg{other}, 0)
	moved(t, d[half], []vreg{one}, 0)
}

func (t *translation) chooseHalves(s statement, d [2]vreg, _ bool) {
	imm := number64(s.args[0])
	second, first := t.operand(s.args[1], true), t.operand(s.args[2], true)
	all := [4]vreg{first[0], first[1], second[0], second[1]}
	if imm&0x88 != 0 {
		refuse("VPERM2F128 %#x", imm)
	}
	t.together(d, 0, all[imm&3], all[imm>>4&3])
}

// permuteQuarters puts the four numbers of 8 bytes in another order.
func (t *translation) permuteQuarters(s statement, d [2]vreg, _ bool) {
	imm := number64(s.args[0])
	from := t.operand(s.args[1], true)
	var to [2]vreg
	for half := range 2 {
		a, b := imm>>(4*half)&3, imm>>(4*half+2)&3
		to[half] = t.temp()
		switch {
		case a&1 == 0 && b&1 == 0:
			t.three(vZip1, true, to[half], from[a>>1], from[b>>1])
		case a&1 == 1 && b&1 == 1:
			t.three(vZip2, true, to[half], from[a>>1], from[b>>1])
		case a&1 == 1:
			t.shiftOver(to[half], from[a>>1], from[b>>1], 8)
		default:
			t.move(to[half], from[a>>1])
			t.put(3, to[half], 1, from[b>>1], 1)
		}
	}
	for half := range 2 {
		t.move(d[half], to[half])
	}
}

// lookUp takes elements of 4 bytes by their numbers, which are in a vector.
func (t *translation) lookUp(s statement, d [2]vreg, _ bool) {
	from, numbers := t.operand(s.args[0], true), t.operand(s.args[1], true)
	if from[1] != from[0]+1 {
		refuse("%s of registers that are apart", s.op)
	}
	places, four, to := t.temp(), t.temp(), [2]vreg{t.temp(), t.temp()}
	t.every(places, 0x03020100)
	t.every(four, 0x04040404)
	for half := range 2 {
		t.integers("mul", 0x4e209c00, 2, to[half], numbers[half], four)
		t.integers("add", 0x4e208400, 2, to[half], to[half], places)
		t.word(0x4e002000|uint32(to[half])<<16|uint32(from[0])<<5|uint32(to[half]), "tbl v%d.16b, { v%d.16b, v%d.16b }, v%d.16b", to[half], from[0], from[1], to[half])
	}
	for half := range 2 {
		t.move(d[half], to[half])
	}
}

// partial loads so many bytes.
func (t *translation) partial(arg string, bytes int) vreg {
	if n, _, ok := vectorOf(arg); ok {
		return t.vectors[n][0]
	}
	r := t.temp()
	t.line("%s %s, F%d", map[int]string{2: "MOVHU", 4: "FMOVS", 8: "FMOVD", 16: "FMOVQ"}[bytes], t.memory(arg).offset(0), r)
	return r
}

// extendAll makes elements of another size of the lower ones of a vector.
func (t *translation) extendAll(s statement, d [2]vreg, large, signed bool, from, to int) {
	bytes := 16 >> (to - from)
	if large {
		bytes *= 2
	}
	if bytes < 4 {
		refuse("%s of %d bytes", s.op, bytes)
	}
	r := t.partial(s.args[0], bytes)
	for size := from; size < to-1; size++ {
		next := t.temp()
		t.extend(signed, false, size, next, r)
		r = next
	}
	if !large {
		t.extend(signed, false, to-1, d[0], r)
		return
	}
	if d[0] == r {
		t.extend(signed, true, to-1, d[1], r)
		t.extend(signed, false, to-1, d[0], r)
		return
	}
	t.extend(signed, false, to-1, d[0], r)
	t.extend(signed, true, to-1, d[1], r)
}

// fromHalf converts elements of a size in bytes to those of twice that.
func (t *translation) fromHalf(s statement, d [2]vreg, large bool, _ int, convert func(d, n vreg, upper bool)) {
	bytes := 8
	if large {
		bytes = 16
	}
	r := t.partial(s.args[0], bytes)
	switch {
	case !large:
		convert(d[0], r, false)
	case d[0] == r:
		convert(d[1], r, true)
		convert(d[0], r, false)
	default:
		convert(d[0], r, false)
		convert(d[1], r, true)
	}
}

// toHalf is the reverse, of a whole vector or of half of one.
func (t *translation) toHalf(s statement, arg string, large bool, d [2]vreg, convert func(d, n vreg, upper bool)) {
	from, last := t.operand(arg, large), s.args[len(s.args)-1]
	to := t.temp()
	convert(to, from[0], false)
	if large {
		convert(to, from[1], true)
	}
	switch {
	case !isMemory(last):
		t.move(d[0], to)
	case large:
		t.line("FMOVQ F%d, %s", to, t.memory(last).offset(0))
	default:
		t.line("FMOVD F%d, %s", to, t.memory(last).offset(0))
	}
}

// loadMasked loads the elements whose sign is set in a mask, one by one, and zeros.
func (t *translation) loadMasked(s statement, d [2]vreg, large bool) {
	if !isMemory(s.args[0]) || !large {
		refuse("%s other than a load of 32 bytes", s.op)
	}
	m := t.memory(s.args[0])
	n, _, _ := vectorOf(s.args[1])
	for half, r := range d {
		t.zero(r)
		for i := range 4 {
			t.labels++
			t.line("VMOV V%d.S[%d], R%d", t.vectors[n][half], i, scratch)
			t.line("TBZ $31, R%d, unset%d", scratch, t.labels)
			t.line("ADD $%d, R%d, R%d", m.disp+16*half+4*i, m.base, scratch)
			t.line("VLD1 (R%d), V%d.S[%d]", scratch, r, i)
			t.label(fmt.Sprintf("unset%d", t.labels))
		}
	}
}

// signs puts the sign bits of elements into a general register.
func (t *translation) signs(s statement, size int) {
	n, large, _ := vectorOf(s.args[0])
	from, to := t.vectors[n], general[s.args[1]]
	t.line("MOVD $0, R%d", to)
	perHalf := 16 >> size
	halves := 1
	if large {
		halves = 2
	}
	for half := range halves {
		for i := range perHalf {
			t.line("VMOV V%d.%c[%d], R%d", from[half], "BHSD"[size], i, scratch)
			t.line("LSR $%d, R%d, R%d", 8<<size-1, scratch, scratch)
			t.line("ORR R%d<<%d, R%d, R%d", scratch, half*perHalf+i, to, to)
		}
	}
	t.written(s.args[1])
}

// testBits sets the flags by whether a vector has bits.
func (t *translation) testBits(s statement, _ [2]vreg, _ bool) {
	if s.args[0] != s.args[1] {
		refuse("VPTEST of two registers")
	}
	n, _, _ := vectorOf(s.args[0])
	v, r := t.vectors[n], t.temp()
	t.three(vOrr, false, r, v[0], v[1])
	t.line("VMOV V%d.D[0], R%d", r, scratch)
	t.line("VMOV V%d.D[1], R%d", r, scratch2)
	t.line("ORR R%d, R%d, R%[1]d", scratch, scratch2)
	t.line("CMP $0, R%d", scratch)
}

// extract stores one element.
func (t *translation) extract(s statement, size, store string) {
	n, _, _ := vectorOf(s.args[1])
	t.line("VMOV V%d.%s[%d], R%d", t.vectors[n][0], size, number64(s.args[0]), scratch)
	if r, ok := general[s.args[2]]; ok {
		t.line("MOVD R%d, R%d", scratch, r)
		t.written(s.args[2])
		return
	}
	t.line("%s R%d, %s", store, scratch, t.memory(s.args[2]).offset(0))
}

// scalar computes with the lowest element.
func (t *translation) scalar(s statement, name string, d [2]vreg) {
	k, _, _ := vectorOf(s.args[1])
	var from vreg
	if n, _, ok := vectorOf(s.args[0]); ok {
		from = t.vectors[n][0]
	} else {
		from = t.temp()
		t.line("FMOV%s %s, F%d", name[len(name)-1:], t.memory(s.args[0]).offset(0), from)
	}
	t.line("%s F%d, F%d, F%d", name, from, t.vectors[k][0], d[0])
}
