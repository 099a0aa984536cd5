package main

import "strings"

// Instructions whose halves look at each other, and moves.

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
		t.fromHalf(s, d, large, func(d, n vreg, upper bool) { t.widen(d, n, upper) })
	}
	crossing["VCVTPH2PS"] = func(t *translation, s statement, d [2]vreg, large bool) {
		t.fromHalf(s, d, large, func(d, n vreg, upper bool) {
			if upper {
				t.word(0x4e217800|uint32(n)<<5|uint32(d), "fcvtl2 v%d.4s, v%d.8h", d, n)
			} else {
				t.word(0x0e217800|uint32(n)<<5|uint32(d), "fcvtl v%d.4s, v%d.4h", d, n)
			}
		})
	}
	crossing["VCVTDQ2PD"] = func(t *translation, s statement, d [2]vreg, large bool) {
		t.fromHalf(s, d, large, func(d, n vreg, upper bool) {
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
