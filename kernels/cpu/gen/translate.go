package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Loops for arm64 that are translated from those for AVX2, instruction by instruction: a vector of 32 bytes becomes two of 16, in which AVX2 computes too, as
// few of its instructions cross the middle. There are 32 such registers: what 16 large ones hold has room, and what a function leaves over
// holds operands from memory and what one instruction needs for itself. Of a large register whose halves are always the same, or of which only the lower one is
// used, there is one half. Functions that need more are refused.

// statement is an instruction or a label.
type statement struct {
	label string
	op    string
	args  []string
}

// routine is a function in assembly.
type routine struct {
	name, frame string
	body        []statement
}

// assembly is what a file has.
type assembly struct {
	data     []string // DATA and GLOBL
	routines []*routine
}

type macro struct {
	params []string
	body   []string
}

var (
	defineLine = regexp.MustCompile(`^#define\s+(\w+)(\([^)]*\))?\s*(.*)$`)
	textLine   = regexp.MustCompile(`^TEXT ·(\w+)\(SB\), NOSPLIT, \$0-(\d+)$`)
)

// parse reads assembly for amd64, and takes its macros apart.
func parse(file string) (*assembly, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	a := &assembly{}
	macros := map[string]macro{}
	var add func(line string) error
	add = func(line string) error {
		for _, part := range strings.Split(line, ";") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			name := regexp.MustCompile(`^\w+`).FindString(part)
			if m, ok := macros[name]; ok && m.body != nil {
				for _, l := range m.expand(part[len(name):]) {
					if err := add(l); err != nil {
						return err
					}
				}
				continue
			}
			if err := a.add(part, macros); err != nil {
				return err
			}
		}
		return nil
	}
	lines := strings.Split(string(raw), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if at := strings.Index(line, "//"); at >= 0 {
			line = line[:at]
		}
		if m := defineLine.FindStringSubmatch(line); m != nil {
			d := macro{}
			for _, p := range strings.Split(strings.Trim(m[2], "()"), ",") {
				d.params = append(d.params, strings.TrimSpace(p))
			}
			text := m[3]
			for strings.HasSuffix(strings.TrimSpace(text), `\`) {
				d.body = append(d.body, strings.TrimSuffix(strings.TrimSpace(text), `\`))
				i++
				text = lines[i]
			}
			d.body = append(d.body, text)
			if len(d.body) == 1 && m[2] == "" { // a number
				d.params, d.body = []string{strings.TrimSpace(text)}, nil
			}
			macros[m[1]] = d
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		if err := add(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
	}
	return a, nil
}

// expand is the body of a macro with its arguments.
func (m macro) expand(call string) (lines []string) {
	args := operands(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(call), "("), ")"))
	for _, l := range m.body {
		if m.params[0] != "" {
			for i, p := range m.params {
				l = regexp.MustCompile(`\b`+p+`\b`).ReplaceAllLiteralString(l, args[i])
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// operands are separated by commas that are in no parentheses.
func operands(text string) (list []string) {
	depth, from := 0, 0
	for i, c := range text + "," {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			if o := strings.ReplaceAll(strings.TrimSpace(text[from:i]), " ", ""); o != "" {
				list = append(list, o)
			}
			from = i + 1
		}
	}
	return list
}

func (a *assembly) add(line string, macros map[string]macro) error {
	if strings.HasPrefix(line, "DATA") || strings.HasPrefix(line, "GLOBL") {
		a.data = append(a.data, line)
		return nil
	}
	if m := textLine.FindStringSubmatch(line); m != nil {
		a.routines = append(a.routines, &routine{name: m[1], frame: m[2]})
		return nil
	}
	if len(a.routines) == 0 {
		return fmt.Errorf("%q is in no function", line)
	}
	r := a.routines[len(a.routines)-1]
	if label, ok := strings.CutSuffix(line, ":"); ok {
		r.body = append(r.body, statement{label: label})
		return nil
	}
	op, rest, _ := strings.Cut(strings.Replace(line, "\t", " ", 1), " ")
	s := statement{op: op, args: operands(rest)}
	for i, arg := range s.args {
		for name, m := range macros {
			if m.body == nil { // numbers
				arg = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllLiteralString(arg, m.params[0])
			}
		}
		s.args[i] = arg
	}
	r.body = append(r.body, s)
	return nil
}

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

var vectorName = regexp.MustCompile(`^([XY])(\d+)$`)

// vectorOf is the number of a vector register, and whether all of it is meant.
func vectorOf(arg string) (n int, large, ok bool) {
	m := vectorName.FindStringSubmatch(arg)
	if m == nil {
		return 0, false, false
	}
	n, _ = strconv.Atoi(m[2])
	return n, m[1] == "Y", true
}

// allocate gives vector registers to those of amd64.
func (t *translation) allocate(spills int) {
	var used []int
	uses := map[int]int{}
	whole := map[int]bool{} // both halves are needed
	for _, s := range t.r.body {
		for _, arg := range s.args {
			if n, _, ok := vectorOf(arg); ok {
				if uses[n]++; uses[n] == 1 {
					used = append(used, n)
				}
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, s := range t.r.body {
			if len(s.args) == 0 || readsAll[s.op] {
				continue
			}
			n, large, ok := vectorOf(s.args[len(s.args)-1])
			if ok && large && !whole[n] && !sameHalves(s, whole) {
				whole[n], changed = true, true
			}
		}
	}
	t.spilled = map[int]int{}
	slices.SortStableFunc(used, func(a, b int) int { return uses[a] - uses[b] })
	for _, n := range used {
		if whole[n] && len(t.spilled) < spills {
			t.spilled[n] = 32 * (1 + len(t.spilled))
		}
	}
	slices.Sort(used)
	t.vectors = map[int][2]vreg{}
	at := vreg(0)
	for _, n := range used {
		if t.spilled[n] > 0 {
			continue
		}
		t.vectors[n] = [2]vreg{at, at}
		if whole[n] {
			t.vectors[n] = [2]vreg{at, at + 1}
			at++
		}
		at++
	}
	for r := at; r < neonRegisters; r++ {
		t.temps = append(t.temps, r)
	}
	if len(t.temps) < 2 {
		refuse("%d registers", at)
	}
}

// readsAll are instructions whose last operand is read.
var readsAll = map[string]bool{"VPTEST": true}

// sameHalves reports whether an instruction's result has the same halves.
func sameHalves(s statement, whole map[int]bool) bool {
	if strings.HasPrefix(s.op, "VBROADCAST") || strings.HasPrefix(s.op, "VPBROADCAST") {
		return true
	}
	if _, ok := lanewise[s.op]; !ok && !fusedOps.MatchString(s.op) {
		return false
	}
	args := s.args
	if isClear(s) {
		return true
	}
	for _, arg := range args {
		if strings.HasPrefix(arg, "$") {
			continue
		}
		n, _, ok := vectorOf(arg)
		if !ok || whole[n] {
			return false
		}
	}
	return true
}

// isClear reports whether an instruction sets a register to zeros, or to ones.
func isClear(s statement) bool {
	return (strings.Contains(s.op, "XOR") || strings.Contains(s.op, "CMPEQ")) && len(s.args) == 3 && s.args[0] == s.args[1]
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
