package main

import "strings"

// Instructions on general registers. Flags are set where something looks at them.

// load is a general register with an operand: a register, a number or memory.
func (t *translation) load(arg string, scratch int) int {
	if r, ok := general[arg]; ok {
		return r
	}
	if strings.HasPrefix(arg, "$") {
		t.line("MOVD %s, R%d", arg, scratch)
		return scratch
	}
	t.line("MOVD %s, R%d", t.memory(arg).offset(0), scratch)
	return scratch
}

// general writes an instruction on general registers.
func (t *translation) general(s statement) {
	last := s.args[len(s.args)-1]
	defer t.written(last)
	to, isRegister := general[last]
	switch s.op {
	case "MOVQ", "MOVL":
		t.moveGeneral(s)
		return
	case "LEAQ":
		t.lea(s.args[0], to)
		return
	case "MOVLQSX", "MOVLQZX", "MOVBLZX", "MOVBQZX", "MOVWLZX", "MOVWQZX":
		from := map[string]string{"MOVLQSX": "MOVW", "MOVLQZX": "MOVWU", "MOVBLZX": "MOVBU", "MOVBQZX": "MOVBU", "MOVWLZX": "MOVHU", "MOVWQZX": "MOVHU"}[s.op]
		if r, ok := general[s.args[0]]; ok {
			t.line("%s R%d, R%d", from, r, to)
		} else {
			t.line("%s %s, R%d", from, t.memory(s.args[0]).offset(0), to)
		}
		return
	case "CMPQ":
		a := t.load(s.args[0], scratch)
		if strings.HasPrefix(s.args[1], "$") {
			t.line("CMP %s, R%d", s.args[1], a)
		} else {
			t.line("CMP R%d, R%d", t.load(s.args[1], scratch2), a)
		}
		return
	case "TESTQ":
		t.line("TST R%d, R%d", t.load(s.args[0], scratch), t.load(s.args[1], scratch2))
		return
	case "TESTL":
		t.line("TSTW R%d, R%d", t.load(s.args[0], scratch), t.load(s.args[1], scratch2))
		return
	case "SETEQ":
		t.line("CSET EQ, R%d", to)
		return
	case "SBBQ", "SBBL": // after NEG: all bits where the number was not 0
		before := t.r.body[t.at-1]
		if s.args[0] != s.args[1] || !strings.HasPrefix(before.op, "NEG") || before.args[0] != last {
			refuse("%s", s.op)
		}
		t.line("CSETM NE, R%d", to)
		return
	case "CMOVQGT":
		t.line("CSEL GT, R%d, R%d, R%d", t.load(s.args[0], scratch), to, to)
		return
	}
	m := memory{}
	if !isRegister {
		m = t.memory(last)
		to = scratch
		t.line("MOVD %s, R%d", m.offset(0), to)
	}
	t.arithmetic(s, to)
	if !isRegister {
		t.line("MOVD R%d, %s", to, m.offset(0))
	}
}

// arithmetic changes a register.
func (t *translation) arithmetic(s statement, to int) {
	flags := ""
	if t.flagsUsed() {
		flags = "S"
	}
	switch s.op {
	case "ADDQ", "SUBQ":
		name := strings.TrimSuffix(s.op, "Q")
		if strings.HasPrefix(s.args[0], "$") {
			n := number64(s.args[0])
			if n < 0 {
				name, n = map[string]string{"ADD": "SUB", "SUB": "ADD"}[name], -n
			}
			t.line("%s%s $%d, R%d, R%d", name, flags, n, to, to)
			return
		}
		t.line("%s%s R%d, R%d, R%d", name, flags, t.load(s.args[0], scratch2), to, to)
	case "DECQ":
		t.line("SUB%s $1, R%d, R%d", flags, to, to)
	case "INCQ":
		t.line("ADD%s $1, R%d, R%d", flags, to, to)
	case "NEGQ", "NEGL":
		w := strings.TrimSuffix(strings.TrimPrefix(s.op, "NEG"), "Q")
		if w == "L" {
			w = "W"
		}
		if flags != "" && strings.HasPrefix(t.r.body[t.at+1].op, "SBB") {
			t.line("CMP%s $0, R%d", w, to)
			return
		}
		t.line("NEG%s%s R%d, R%d", w, flags, to, to)
	case "XORQ", "XORL":
		if s.args[0] == s.args[1] {
			t.line("MOVD $0, R%d", to)
			return
		}
		t.line("EOR R%d, R%d, R%d", t.load(s.args[0], scratch2), to, to)
		t.test(flags, to)
	case "ANDQ", "ORQ":
		name := map[string]string{"ANDQ": "AND", "ORQ": "ORR"}[s.op]
		t.line("%s R%d, R%d, R%d", name, t.load(s.args[0], scratch2), to, to)
		t.test(flags, to)
	case "SHLQ", "SHRQ":
		name := map[string]string{"SHLQ": "LSL", "SHRQ": "LSR"}[s.op]
		t.line("%s $%d, R%d, R%d", name, number64(s.args[0]), to, to)
		t.test(flags, to)
	case "SHLL":
		t.line("LSLW $%d, R%d, R%d", number64(s.args[0]), to, to)
		t.test(flags, to)
	case "IMULQ":
		t.line("MUL R%d, R%d, R%d", t.load(s.args[0], scratch2), to, to)
	default:
		refuse("%s", s.op)
	}
}

// test sets the flags of an instruction that has none here.
func (t *translation) test(flags string, r int) {
	if flags != "" {
		t.line("CMP $0, R%d", r)
	}
}

func (t *translation) lea(arg string, to int) {
	if m := plainOperand.FindStringSubmatch(arg); m != nil && m[3] != "" {
		t.sum(to, general[m[2]], general[m[3]], m[4])
		if m[1] != "" {
			t.line("ADD $%d, R%d, R%d", number64(m[1]), to, to)
		}
		return
	}
	m := t.memory(arg)
	if m.argument != "" {
		t.line("MOVD $%s, R%d", m.argument, to)
		return
	}
	t.line("ADD $%d, R%d, R%d", m.disp, m.base, to)
}

// moveGeneral is MOVQ and MOVL.
func (t *translation) moveGeneral(s statement) {
	from, to := s.args[0], s.args[1]
	store, loads, half := "MOVD", "MOVD", "D"
	if s.op == "MOVL" {
		store, loads, half = "MOVW", "MOVWU", "S"
	}
	n, _, fromVector := vectorOf(from)
	k, _, toVector := vectorOf(to)
	r, toRegister := general[to]
	switch {
	case fromVector && toRegister:
		t.line("FMOV%s F%d, R%d", half, t.vectors[n][0], r)
	case fromVector:
		t.line("FMOV%s F%d, %s", half, t.vectors[n][0], t.memory(to).offset(0))
	case toVector && isMemory(from):
		t.line("FMOV%s %s, F%d", half, t.memory(from).offset(0), t.vectors[k][0])
	case toVector:
		t.line("FMOV%s R%d, F%d", half, t.load(from, scratch), t.vectors[k][0])
	case toRegister && strings.HasPrefix(from, "$"):
		t.line("%s %s, R%d", store, from, r)
	case toRegister && isMemory(from):
		t.line("%s %s, R%d", loads, t.memory(from).offset(0), r)
	case toRegister:
		t.line("%s R%d, R%d", loads, general[from], r)
	default:
		t.line("%s R%d, %s", store, t.load(from, scratch), t.memory(to).offset(0))
	}
}
