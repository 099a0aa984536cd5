package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Loops for arm64 that are translated from those for AVX2, instruction by instruction: a vector of 32 bytes becomes two of 16, in which AVX2 computes too, as
// few of its instructions cross the middle. There are 32 such registers: what 16 large ones hold has room, and what a function leaves over
// holds operands from memory and what one instruction needs for itself. Of a large register whose halves are always the same, or of which only the lower one is
// used, there is one half. Functions that need more keep some on the stack.

// translation is the work on one function.
type translation struct {
	*assembler
	r         *routine
	at        int // the statement in work
	vectors   map[int][2]vreg
	spilled   map[int]int // vectors on the stack: their places
	temps     []vreg
	next      int            // of temps
	taken     int            // temps of the statement in work
	addresses map[string]int // general registers with sums of a base and an index, or the address of a symbol
	parts     map[string][]string
	turn      int
	labels    int // of its own
}

// general are the registers for those of amd64; others are for addresses.
var general = map[string]int{
	"AX": 0, "BX": 1, "CX": 2, "DX": 3, "SI": 4, "DI": 5, "R8": 8, "R9": 9, "R10": 10, "R11": 11, "R12": 12, "R13": 13, "R14": 14, "R15": 15, "AL": 0,
}

// scratch are the general registers that one instruction needs for itself.
const scratch, scratch2 = 16, 17

var forAddresses = []int{6, 7, 19, 20, 21, 22, 23, 24, 25}

// refusal is what a translation panics with.
type refusal string

func refuse(format string, args ...any) { panic(refusal(fmt.Sprintf(format, args...))) }

// translate writes a function under another name, or says why not: with all in registers, or with as few vectors on the stack as it takes.
func translate(a *assembler, r *routine, name string) (reason string) {
	for spills := range 4 {
		if why := attempt(a, r, name, spills); why == "" {
			return ""
		} else if spills == 0 {
			reason = why
		}
	}
	return reason
}

// attempt is that with so many vectors on the stack.
func attempt(a *assembler, r *routine, name string, spills int) (reason string) {
	before := a.text.Len()
	defer func() {
		if e := recover(); e != nil {
			why, ok := e.(refusal)
			if !ok {
				panic(e)
			}
			a.text.Truncate(before)
			reason = string(why)
		}
	}()
	t := &translation{assembler: a, r: r, addresses: map[string]int{}, parts: map[string][]string{}}
	t.allocate(spills)
	fmt.Fprintf(&a.text, "\nTEXT ·%s(SB), NOSPLIT, $%d-%s\n", name, 32*spills, r.frame)
	for i, s := range r.body {
		t.at, t.taken = i, 0
		if s.label != "" {
			t.label(s.label)
			t.forgetAddresses()
			continue
		}
		t.statement(s)
	}
	return ""
}

// temp is a register for the statement in work.
func (t *translation) temp() vreg {
	if t.taken == len(t.temps) {
		refuse("%s needs more than %d registers for itself", t.r.body[t.at].op, t.taken)
	}
	t.taken++
	r := t.temps[t.next]
	t.next = (t.next + 1) % len(t.temps)
	return r
}

func (t *translation) forgetAddresses() { clear(t.addresses) }

// written forgets addresses that a register was part of.
func (t *translation) written(register string) {
	for key, parts := range t.parts {
		if slices.Contains(parts, register) {
			delete(t.addresses, key)
		}
	}
}

// memory is an operand in memory.
type memory struct {
	argument string // name+offset(FP)
	base     int
	disp     int
}

// offset is a memory operand some bytes further on.
func (m memory) offset(by int) string {
	switch {
	case m.argument != "":
		if by != 0 {
			refuse("an argument of more than a word")
		}
		return m.argument
	case m.disp+by == 0:
		return fmt.Sprintf("(R%d)", m.base)
	}
	return fmt.Sprintf("%d(R%d)", m.disp+by, m.base)
}

var (
	symbolOperand = regexp.MustCompile(`^(·?[\w·]+)(<>)?(\+(\d+))?\(SB\)$`)
	frameOperand  = regexp.MustCompile(`^\w+\+\d+\(FP\)$`)
	plainOperand  = regexp.MustCompile(`^(-?\w*)\((\w+)\)(?:\((\w+)\*(\d)\))?$`)
)

func isMemory(arg string) bool { return strings.HasSuffix(arg, ")") }

// memory makes an address of an operand in memory: of a base and an index the sum, which stays in a register as long as both are the same.
func (t *translation) memory(arg string) memory {
	if frameOperand.MatchString(arg) {
		return memory{argument: arg}
	}
	if m := symbolOperand.FindStringSubmatch(arg); m != nil {
		disp, _ := strconv.Atoi(m[4])
		symbol := m[1] + m[2]
		r, ok := t.addresses[symbol]
		if !ok {
			r = t.address(symbol)
			t.line("MOVD $%s(SB), R%d", symbol, r)
		}
		return memory{base: r, disp: disp}
	}
	m := plainOperand.FindStringSubmatch(arg)
	if m == nil {
		refuse("the operand %q", arg)
	}
	disp := 0
	if m[1] != "" {
		disp = number64(m[1])
	}
	base, ok := general[m[2]]
	if !ok {
		refuse("the register %q", m[2])
	}
	if m[3] == "" {
		return memory{base: base, disp: disp}
	}
	key := m[2] + "+" + m[3] + "*" + m[4]
	r, ok := t.addresses[key]
	if !ok {
		r = t.address(key, m[2], m[3])
		t.sum(r, base, general[m[3]], m[4])
	}
	return memory{base: r, disp: disp}
}

// sum is a base and an index times 1, 2, 4 or 8.
func (t *translation) sum(to, base, index int, scale string) {
	shift := map[string]int{"1": 0, "2": 1, "4": 2, "8": 3}[scale]
	if shift == 0 {
		t.line("ADD R%d, R%d, R%d", index, base, to)
		return
	}
	t.line("ADD R%d<<%d, R%d, R%d", index, shift, base, to)
}

// address is a register for one.
func (t *translation) address(key string, parts ...string) int {
	r := forAddresses[t.turn%len(forAddresses)]
	t.turn++
	for k, other := range t.addresses {
		if other == r {
			delete(t.addresses, k)
		}
	}
	t.addresses[key], t.parts[key] = r, parts
	return r
}

func number64(text string) int {
	n, err := strconv.ParseInt(strings.TrimPrefix(text, "$"), 0, 64)
	if err != nil {
		refuse("the number %q", text)
	}
	return int(n)
}

var jumps = map[string]string{
	"JLT": "BLT", "JL": "BLT", "JGE": "BGE", "JG": "BGT", "JGT": "BGT", "JLE": "BLE", "JZ": "BEQ", "JE": "BEQ", "JEQ": "BEQ", "JNZ": "BNE", "JNE": "BNE",
}

// flagsUsed reports whether the flags of the statement in work are looked at.
func (t *translation) flagsUsed() bool {
	for _, s := range t.r.body[t.at+1:] {
		if _, ok := jumps[s.op]; ok || strings.HasPrefix(s.op, "CMOV") || strings.HasPrefix(s.op, "SET") || strings.HasPrefix(s.op, "SBB") {
			return true
		}
		switch s.op {
		case "", "JMP", "RET", "ADDQ", "SUBQ", "CMPQ", "CMPL", "DECQ", "INCQ", "DECL", "INCL", "XORQ", "XORL", "ANDQ", "ORQ", "SHLQ", "SHRQ", "SHLL", "TESTQ", "TESTL", "NEGQ", "NEGL", "IMULQ", "VPTEST":
			return false
		}
	}
	return false
}

// statement writes what an instruction does.
func (t *translation) statement(s statement) {
	switch {
	case s.op == "VZEROUPPER":
	case s.op == "RET":
		t.line("RET")
	case s.op == "JMP":
		t.line("B %s", s.args[0])
		t.forgetAddresses()
	case jumps[s.op] != "":
		t.line("%s %s", jumps[s.op], s.args[0])
	case s.op == "PREFETCHT0":
		t.line("PRFM %s, PLDL1KEEP", t.memory(s.args[0]).offset(0))
	case strings.HasPrefix(s.op, "V"), s.op == "MOVSD":
		t.unspilled(s)
	default:
		t.general(s)
	}
}

// unspilled writes an instruction on vectors, those that are on the stack in registers for so long.
func (t *translation) unspilled(s statement) {
	last := len(s.args) - 1
	for i, arg := range s.args {
		n, _, ok := vectorOf(arg)
		if !ok || t.spilled[n] == 0 || slices.Contains(s.args[:i], arg) {
			continue
		}
		r := [2]vreg{t.temp(), t.temp()}
		t.vectors[n] = r
		if isLoad := i == last && last == 1; !isLoad && !isClear(s) {
			for half, r := range r {
				t.line("FMOVQ spilled-%d(SP), F%d", t.spilled[n]-16*half, r)
			}
		}
	}
	t.vector(s)
	n, _, ok := vectorOf(s.args[last])
	if ok && t.spilled[n] > 0 && !readsAll[s.op] {
		for half, r := range t.vectors[n] {
			t.line("FMOVQ F%d, spilled-%d(SP)", r, t.spilled[n]-16*half)
		}
	}
}
