package main

import (
	"fmt"
	"maps"
	"slices"
	"sort"
)

// neonRegisters are those of vectors.
const neonRegisters = 32

// neonEmitter writes programs as functions on NEON, for multiples of 8 elements, at least one such group. Vectors have four elements, or two of programs that
// compute in float64; as many are in work at once as there are registers for, up to 16 elements. Registers are given to nodes as they come, and taken back where
// a node is used last; what is left over has constants.
//
// General registers: R0 is how many elements are left, R1 to R4 are where dst, a, b and c go on, R5 is s, R6 the table of constants.
type neonEmitter struct {
	*assembler
	p       *program
	free    []vreg
	least   int // registers that were free at the worst time
	kept    map[constant]vreg
	scalars map[*node]vreg
}

// outOfRegisters is what take panics with.
type outOfRegisters struct{}

func (e *neonEmitter) take() vreg {
	if len(e.free) == 0 {
		panic(outOfRegisters{})
	}
	r := e.free[len(e.free)-1]
	e.free = e.free[:len(e.free)-1]
	e.least = min(e.least, len(e.free))
	return r
}

func (e *neonEmitter) give(r vreg) { e.free = append(e.free, r) }

// neonBody is one vector in work.
type neonBody struct {
	*neonEmitter
	at        int // where its elements begin, from those of the iteration
	registers map[*node]vreg
	rest      map[*node]vreg // of a quadrant: what is left
	temporary []vreg         // constants of the instruction in work
}

// neonStep is how many elements a body takes.
func (p *program) neonStep() int {
	switch {
	case p.wide:
		return 2
	case p.pairs:
		return 8
	}
	return 4
}

// size is that of an element in bytes.
func (p *program) size() int {
	if p.double {
		return 8
	}
	return 4
}

// neonFunction writes one function.
func neonFunction(a *assembler, p *program, name, signature string, load func(e *neonEmitter)) {
	// The largest number of elements at once for which there are registers, and then the rest, by eight.
	least := 8
	if p.pairs {
		least = 16
	}
	for step := 16; ; step /= 2 {
		bodies := max(1, step/p.neonStep())
		left, ok := neonFits(p, bodies, load)
		if !ok {
			if bodies == 1 {
				panic("gen: " + p.name + " needs too many registers")
			}
			continue
		}
		e := newNEON(a, p)
		fmt.Fprintf(&a.text, "\n// %s\nTEXT ·%s(SB), NOSPLIT, $0-%s\n", p.does, name, signature)
		load(e)
		e.keepConstants(left)
		if step > least {
			a.line("SUBS $%d, R0, R0", step)
			a.line("BLT rest")
			a.label("loop")
			e.iteration(bodies)
			a.line("SUBS $%d, R0, R0", step)
			a.line("BGE loop")
			a.label("rest")
			a.line("ADDS $%d, R0, R0", step)
			a.line("BEQ done")
			a.label("last")
			e.iteration(bodies / 2)
			a.line("SUBS $%d, R0, R0", step/2)
			a.line("BGT last")
			a.label("done")
		} else {
			a.label("loop")
			e.iteration(bodies)
			a.line("SUBS $%d, R0, R0", step)
			a.line("BGT loop")
		}
		a.line("RET")
		return
	}
}

func newNEON(a *assembler, p *program) *neonEmitter {
	e := &neonEmitter{assembler: a, p: p, least: neonRegisters, kept: map[constant]vreg{}, scalars: map[*node]vreg{}}
	for r := neonRegisters - 1; r >= 0; r-- {
		e.give(vreg(r))
	}
	return e
}

// neonFits reports whether there are registers for so many bodies, and how many are left over.
func neonFits(p *program, bodies int, load func(e *neonEmitter)) (left int, ok bool) {
	defer func() {
		switch r := recover(); r.(type) {
		case nil:
		case outOfRegisters:
			left, ok = 0, false
		default:
			panic(r)
		}
	}()
	e := newNEON(&assembler{index: map[constant]int{}}, p)
	load(e)
	e.iteration(bodies)
	return e.least, true
}

// keepConstants loads constants into so many registers: those that instructions take as a factor first, as a constant that is added is where the sum goes anyway.
func (e *neonEmitter) keepConstants(count int) {
	uses := map[constant]int{}
	var list []constant
	use := func(c constant, n int) {
		if uses[c] == 0 {
			list = append(list, c)
		}
		uses[c] += n
	}
	for _, n := range e.p.nodes {
		for i, arg := range n.args {
			if o := origin(arg); o.op == "constant" && (n.op != "fma" && n.op != "fnma" || i < 2) {
				use(constant{o.bits, e.p.wide}, 1)
			}
		}
		if n.op == "quadrant" {
			for _, c := range quadrantConstants {
				use(c, 2)
			}
		}
	}
	sort.SliceStable(list, func(i, j int) bool { return uses[list[i]] > uses[list[j]] })
	for _, c := range list[:min(count, len(list))] {
		r := e.take()
		e.set(r, c)
		e.kept[c] = r
	}
}

// iteration writes vectors side by side, so that one computes while the other waits, and moves on.
func (e *neonEmitter) iteration(count int) {
	list := make([]*neonBody, count)
	for i := range list {
		list[i] = &neonBody{neonEmitter: e, at: i * e.p.neonStep(), registers: map[*node]vreg{}, rest: map[*node]vreg{}}
		if e.p.pairs {
			list[i].loadPairs()
		}
	}
	for _, n := range e.p.nodes {
		for _, b := range list {
			b.emit(n)
			b.forget(n)
		}
	}
	for _, b := range list {
		b.store()
	}
	for i := range 1 + e.inputs() {
		e.line("ADD $%d, R%d, R%[2]d", count*e.p.neonStep()*e.p.size(), 1+i)
	}
}

// inputs is how many pointers there are beside dst.
func (e *neonEmitter) inputs() int {
	if e.p.pairs {
		return 1
	}
	return e.p.inputs
}

// forget gives back the registers of nodes that n was the last to use.
func (b *neonBody) forget(n *node) {
	for _, r := range b.temporary {
		b.give(r)
	}
	b.temporary = b.temporary[:0]
	for i, arg := range n.args {
		o := origin(arg)
		r, own := b.registers[o]
		if !own || o.last != n.id || slices.ContainsFunc(n.args[:i], func(a *node) bool { return origin(a) == o }) {
			continue
		}
		if result, ok := b.registers[n]; !ok || result != r { // or n has taken it over
			b.give(r)
		}
		delete(b.registers, o)
	}
}

// dies reports whether n is the last to use a node, whose register it may take.
func (b *neonBody) dies(a, n *node) bool {
	o := origin(a)
	_, own := b.registers[o]
	return own && o.last == n.id
}

// register is where a node is: a constant is loaded, for one instruction.
func (b *neonBody) register(n *node) vreg {
	n = origin(n)
	if r, ok := b.scalars[n]; ok && n.op == "scalar" {
		return r
	}
	if n.op != "constant" {
		r, ok := b.registers[n]
		if !ok {
			panic(fmt.Sprintf("gen: %s: %s is nowhere", b.p.name, n.op))
		}
		return r
	}
	c := constant{n.bits, b.p.wide}
	if r, ok := b.kept[c]; ok {
		return r
	}
	r := b.take()
	b.set(r, c)
	b.temporary = append(b.temporary, r)
	return r
}

// result is a register for what a node comes to: that of an operand that dies, or a new one.
func (b *neonBody) result(n *node) vreg {
	for _, a := range n.args {
		if b.dies(a, n) {
			return b.registers[origin(a)]
		}
	}
	return b.take()
}

// copied is a register for what a node comes to, with the value of one of its operands.
func (b *neonBody) copied(a, n *node, others ...*node) vreg {
	o := origin(a)
	shared := slices.ContainsFunc(others, func(x *node) bool { return origin(x) == o })
	if b.dies(a, n) && !shared {
		return b.registers[o]
	}
	d := b.take()
	c := constant{o.bits, b.p.wide}
	if _, kept := b.kept[c]; o.op == "constant" && !kept {
		b.set(d, c)
	} else {
		b.move(d, b.register(a))
	}
	return d
}

func (b *neonBody) offset(further int) int { return b.p.size() * (b.at + further) }

// loadPairs takes eight words apart: those at even places are input 0, those at odd ones input 1.
func (b *neonBody) loadPairs() {
	first, second, even, odd := b.take(), b.take(), b.take(), b.take()
	b.line("FMOVQ %d(R2), F%d", b.offset(0), first)
	b.line("FMOVQ %d(R2), F%d", b.offset(4), second)
	b.three(vUzp1, false, even, first, second)
	b.three(vUzp2, false, odd, first, second)
	b.give(first)
	b.give(second)
	for _, n := range b.p.nodes {
		if n.op == "input" {
			b.registers[n] = []vreg{even, odd}[n.bits]
		}
	}
}

func (b *neonBody) store() {
	r := b.register(b.p.results[0])
	switch {
	case b.p.pairs:
		s, low, high := b.register(b.p.results[1]), b.take(), b.take()
		b.three(vZip1, false, low, r, s)
		b.three(vZip2, false, high, r, s)
		b.line("FMOVQ F%d, %d(R1)", low, b.offset(0))
		b.line("FMOVQ F%d, %d(R1)", high, b.offset(4))
		b.give(low)
		b.give(high)
	case b.p.wide && !b.p.double:
		low := b.take()
		b.narrow(low, r, false)
		b.line("FMOVD F%d, %d(R1)", low, b.offset(0))
		b.give(low)
	default:
		b.line("FMOVQ F%d, %d(R1)", r, b.offset(0))
	}
	for _, r := range b.temporary {
		b.give(r)
	}
	b.temporary = nil
	left := slices.Sorted(maps.Values(b.registers)) // results, perhaps one twice; in one order, so that what is written is the same each time
	for _, r := range slices.Compact(left) {
		b.give(r)
	}
}

// emit writes one node.
func (b *neonBody) emit(n *node) {
	wide, a := b.p.wide, n.args
	switch n.op {
	case "constant", "as", "scalar":
		return
	case "input":
		b.load(n)
		return
	case "quadrant", "rest":
		b.quadrant(n)
		return
	case "fma", "fnma", "fms":
		b.fused(n)
		return
	case "pick":
		b.pick(n)
		return
	case "choose":
		s := b.register(a[0])
		d := b.take()
		b.shift("sshr", wide, d, s, 8*b.elementSize()-1)
		b.three(vBsl, wide, d, b.register(a[1]), b.register(a[2]))
		b.registers[n] = d
		return
	case "least", "most":
		x, y := b.register(a[0]), b.register(a[1])
		d := b.take()
		if n.op == "least" {
			b.three(vFcmgt, wide, d, y, x)
		} else {
			b.three(vFcmgt, wide, d, x, y)
		}
		b.three(vBsl, wide, d, x, y)
		b.registers[n] = d
		return
	case "compare":
		b.compare(n)
		return
	case "positive":
		zero := b.register(a[1])
		x := b.register(a[0])
		d := b.result(n)
		b.three(vSmax, wide, d, x, zero)
		b.registers[n] = d
		return
	case "left", "right", "signed":
		x := b.register(a[0])
		d := b.result(n)
		b.shift(map[string]string{"left": "shl", "right": "ushr", "signed": "sshr"}[n.op], wide, d, x, int(n.bits))
		b.registers[n] = d
		return
	}
	in, ok := neonTable[n.op]
	if n.kind == integer && neonIntegers[n.op].name != "" {
		in = neonIntegers[n.op]
	}
	if !ok {
		panic(fmt.Sprintf("gen: %s: no instruction for %s", b.p.name, n.op))
	}
	var from [2]vreg
	for i, x := range a {
		from[i] = b.register(x)
	}
	d := b.result(n)
	if len(a) == 2 {
		b.three(in, wide, d, from[0], from[1])
	} else {
		b.two(in, wide, d, from[0])
	}
	b.registers[n] = d
}

var neonTable = map[string]vectorInstruction{
	"plus": vFadd, "minus": vFsub, "times": vFmul, "over": vFdiv, "root": vFsqrt, "greatest": vFmax, "smallest": vFmin,
	"round": vFrintn, "floor": vFrintm, "ceil": vFrintp, "trunc": vFrintz,
	"toInteger": vFcvtns, "toNumber": vScvtf, "and": vAnd, "or": vOrr, "xor": vEor,
}

var neonIntegers = map[string]vectorInstruction{"plus": vAdd, "minus": vSub}

// elementSize is that of a number in bytes.
func (b *neonBody) elementSize() int {
	if b.p.wide {
		return 8
	}
	return 4
}

func (b *neonBody) load(n *node) {
	if b.p.pairs {
		return
	}
	d := b.take()
	b.registers[n] = d
	if b.p.wide && !b.p.double {
		b.line("FMOVD %d(R%d), F%d", b.offset(0), 2+n.bits, d)
		b.widen(d, d, false)
		return
	}
	b.line("FMOVQ %d(R%d), F%d", b.offset(0), 2+n.bits, d)
}

// fused writes a product and a sum in one: the result takes the register of what is added, if that dies.
func (b *neonBody) fused(n *node) {
	x, y, z := n.args[0], n.args[1], n.args[2]
	in := vFmla
	if n.op == "fnma" {
		in = vFmls
	}
	var d vreg
	if n.op == "fms" {
		from := b.register(z)
		d = b.take()
		b.two(vFneg, b.p.wide, d, from)
	} else {
		d = b.copied(z, n, x, y)
	}
	b.three(in, b.p.wide, d, b.register(x), b.register(y))
	b.registers[n] = d
}

// pick takes the register of whichever operand dies.
func (b *neonBody) pick(n *node) {
	m, x, y := n.args[0], n.args[1], n.args[2]
	var d vreg
	switch {
	case b.dies(m, n) && origin(m) != origin(x) && origin(m) != origin(y):
		d = b.copied(m, n)
		b.three(vBsl, b.p.wide, d, b.register(x), b.register(y))
	case b.dies(y, n) && origin(y) != origin(x):
		d = b.copied(y, n)
		b.three(vBit, b.p.wide, d, b.register(x), b.register(m))
	case b.dies(x, n) && origin(y) != origin(x):
		d = b.copied(x, n)
		b.three(vBif, b.p.wide, d, b.register(y), b.register(m))
	default:
		d = b.take()
		b.move(d, b.register(m))
		b.three(vBsl, b.p.wide, d, b.register(x), b.register(y))
	}
	b.registers[n] = d
}

func (b *neonBody) compare(n *node) {
	x, y := b.register(n.args[0]), b.register(n.args[1])
	d := b.result(n)
	switch n.bits {
	case equal, unequal:
		b.three(vFcmeq, b.p.wide, d, x, y)
		if n.bits == unequal {
			b.two(vNot, b.p.wide, d, d)
		}
	case less:
		b.three(vFcmgt, b.p.wide, d, y, x)
	case lessEqual:
		b.three(vFcmge, b.p.wide, d, y, x)
	case greaterEq:
		b.three(vFcmge, b.p.wide, d, x, y)
	case greater:
		b.three(vFcmgt, b.p.wide, d, x, y)
	default:
		panic("gen: " + b.p.name + " compares in no known way")
	}
	b.registers[n] = d
}
