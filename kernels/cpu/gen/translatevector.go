package main

import (
	"regexp"
	"slices"
	"strings"
)

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
