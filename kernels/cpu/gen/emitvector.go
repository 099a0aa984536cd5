package main

import (
	"log"
	"slices"
	"sort"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// vectorEmitter writes programs as functions on AVX2, for multiples of 8 elements, at least one, or on AVX-512 (emitmasked.go). Two vectors are in work at once where
// there are registers for it.
type vectorEmitter struct {
	constants map[constant]int        // where they lie
	kept      map[constant]VecVirtual // those that the function in work has in registers
	scalars   map[*node]VecVirtual    // likewise, of AVX-512
	masked    bool                    // for AVX-512
}

// vector is a new register.
func (e *vectorEmitter) vector() VecVirtual {
	if e.masked {
		return ZMM()
	}
	return YMM()
}

// constant is a number of 4 or 8 bytes, which fills a vector.
type constant struct {
	bits uint64
	wide bool
}

// signature is the type of the function, without its name.
func (p *program) signature() string {
	return "func(n int, dst, a, b, c *" + p.element() + ", s *byte)"
}

// emitVectors writes all programs, with their constants.
func emitVectors(list []*program) {
	e := vectorEmitter{constants: map[constant]int{}}
	GLOBL("vectorConstants", 8|16) // read only, without pointers
	for _, c := range constantsOf(list) {
		at := 32 * len(e.constants)
		e.constants[c] = at
		for i := range 8 {
			switch {
			case !c.wide:
				DATA(at+4*i, U32(c.bits))
			case i < 4:
				DATA(at+8*i, U64(c.bits))
			}
		}
	}
	for _, p := range list {
		e.function(p)
		if p.name == "expShifted" {
			e.expSum(p)
			dot()
		}
	}
}

// constantsOf are the different constants of programs, narrow ones first.
func constantsOf(list []*program) []constant {
	var all []constant
	for _, p := range list {
		for _, n := range p.nodes {
			if n.op == "constant" {
				all = append(all, constant{n.bits, p.wide})
			}
			if n.op == "quadrant" || n.op == "rest" {
				all = append(all, quadrantConstants...)
			}
		}
	}
	sort.Slice(all, func(i, j int) bool {
		return all[i].wide != all[j].wide && all[j].wide || all[i].wide == all[j].wide && all[i].bits < all[j].bits
	})
	return slices.Compact(all)
}

// body is one vector in work.
type body struct {
	e         *vectorEmitter
	p         *program
	at        int // where its elements begin, from those of the iteration
	registers map[*node]VecVirtual
	masks     map[*node]OpmaskVirtual // of AVX-512
	rest      map[*node]VecVirtual    // of a quadrant: what is left
	index     Register
	pointers  []Register // dst, a, b, c, s

	first, second VecVirtual // pairs of words as they are loaded, of AVX-512
}

// step is how many elements a body takes.
func (p *program) step() int {
	switch {
	case p.wide:
		return 4
	case p.pairs:
		return 16
	}
	return 8
}

func (e *vectorEmitter) function(p *program) {
	TEXT(p.name+"AVX2", NOSPLIT, p.signature())
	n := Load(Param("n"), GP64())
	pointers := e.parameters(p)
	index := GP64()
	XORQ(index, index)
	bodies := 1
	if p.pressure() <= mostPressure && !p.pairs {
		bodies = 2
	}
	e.keepConstants(p, bodies)
	defer clear(e.kept) // they are this function's
	step := p.step()
	if bodies == 2 && step*2 > 8 {
		// As many pairs of vectors as there are, then a single one.
		SUBQ(U8(8), n)
		Label("pairs")
		CMPQ(index, n)
		JGE(LabelRef("last"))
		e.bodies(p, 2, index, pointers)
		ADDQ(U8(16), index)
		JMP(LabelRef("pairs"))
		Label("last")
		JG(LabelRef("done"))
		e.bodies(p, 1, index, pointers)
		Label("done")
	} else {
		Label("loop")
		e.bodies(p, bodies, index, pointers)
		ADDQ(U8(uint8(step*bodies)), index)
		CMPQ(index, n)
		JLT(LabelRef("loop"))
	}
	VZEROUPPER()
	RET()
}

// parameters are the pointers dst, a, b, c and s, those that there are.
func (e *vectorEmitter) parameters(p *program) []Register {
	names := []string{"dst", "a", "b", "c"}[:1+p.inputs]
	if p.pairs {
		names = []string{"dst", "a"}
	}
	pointers := make([]Register, 5)
	for i, name := range names {
		pointers[i] = Load(Param(name), GP64())
	}
	if p.scalars > 0 {
		pointers[4] = Load(Param("s"), GP64())
	}
	return pointers
}

// keepConstants loads the constants of a program into registers, if there are enough of them for so many vectors: a short loop waits for its loads.
func (e *vectorEmitter) keepConstants(p *program, bodies int) {
	e.kept = map[constant]VecVirtual{}
	var list []constant
	for _, n := range p.nodes {
		if c := (constant{n.bits, p.wide}); n.op == "constant" && !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	if bodies*p.pressure()+len(list) > vectorRegisters {
		return
	}
	b := body{e: e, p: p}
	for _, c := range list {
		r := YMM()
		VMOVUPS(b.constant(c.bits, c.wide), r)
		e.kept[c] = r
	}
}

// vectorRegisters are those that a loop has, but for one in which an instruction puts what it overwrites.
const vectorRegisters = 15

// bodies writes vectors side by side, so that one computes while the other waits.
func (e *vectorEmitter) bodies(p *program, count int, index Register, pointers []Register) {
	list := make([]*body, count)
	for i := range list {
		list[i] = &body{e: e, p: p, at: i * p.step(), registers: map[*node]VecVirtual{}, rest: map[*node]VecVirtual{}, index: index, pointers: pointers}
		if p.pairs {
			list[i].loadPairs()
		}
	}
	for _, n := range p.nodes {
		for _, b := range list {
			b.emit(n)
		}
	}
	for _, b := range list {
		b.store()
	}
}

// address is that of an operand's elements, so many further on.
func (b *body) address(operand, further int) Mem {
	size := 4
	if b.p.double {
		size = 8
	}
	return Mem{Base: b.pointers[operand], Index: b.index, Scale: uint8(size), Disp: size * (b.at + further)}
}

// loadPairs takes sixteen words apart: those at even places are input 0, those at odd ones input 1.
func (b *body) loadPairs() {
	first, second, even, odd := YMM(), YMM(), YMM(), YMM()
	VMOVUPS(b.address(1, 0), first)
	VMOVUPS(b.address(1, 8), second)
	VSHUFPS(U8(0x88), second, first, even)
	VSHUFPS(U8(0xdd), second, first, odd)
	for _, n := range b.p.nodes {
		if n.op == "input" {
			b.registers[n] = []VecVirtual{even, odd}[n.bits]
		}
	}
}

func (b *body) store() {
	r := b.register(b.p.results[0])
	switch {
	case b.p.pairs:
		s, low, high := b.register(b.p.results[1]), YMM(), YMM()
		VUNPCKLPS(s, r, low)
		VUNPCKHPS(s, r, high)
		VMOVUPS(low, b.address(0, 0))
		VMOVUPS(high, b.address(0, 8))
	case b.p.wide && !b.p.double:
		x := XMM()
		VCVTPD2PSY(r, x)
		VMOVUPS(x, b.address(0, 0))
	default:
		VMOVUPS(r, b.address(0, 0))
	}
}

// constant is where a constant lies.
func (b *body) constant(bits uint64, wide bool) Mem {
	at, ok := b.e.constants[constant{bits, wide}]
	if !ok {
		log.Fatalf("gen: %s: no constant %#x", b.p.name, bits)
	}
	return NewDataAddr(Symbol{Name: "vectorConstants", Static: true}, at)
}

// scalar is where a scalar lies: narrow ones before wide ones.
func (b *body) scalar(n *node) Mem {
	if b.p.wide {
		return Mem{Base: b.pointers[4], Disp: 16 + 8*int(n.bits)}
	}
	return Mem{Base: b.pointers[4], Disp: 4 * int(n.bits)}
}

// operand is a node in a register, or a constant in memory.
func (b *body) operand(n *node) Op {
	n = origin(n)
	switch {
	case n.op == "constant":
		if r, ok := b.e.kept[constant{n.bits, b.p.wide}]; ok {
			return r
		}
		return b.constant(n.bits, b.p.wide)
	case n.op == "scalar" && b.p.masked:
		if r, ok := b.e.scalars[n]; ok {
			return r
		}
		return b.scalar(n)
	case b.p.inMemory(n):
		return b.address(1+int(n.bits), 0)
	}
	return b.registers[n]
}

// register is a node in a register.
func (b *body) register(n *node) VecVirtual {
	if n = origin(n); !b.p.inMemory(n) {
		return b.registers[n]
	}
	if kept, ok := b.operand(n).(VecVirtual); ok {
		return kept
	}
	return b.loaded(n)
}

// loaded is a new register with the value of a node.
func (b *body) loaded(n *node) VecVirtual {
	r := b.e.vector()
	from := b.operand(n)
	_, inMemory := from.(Mem)
	switch {
	case !inMemory || !b.e.masked:
		VMOVUPS(from, r)
	case b.p.wide:
		VBROADCASTSD(from, r)
	default:
		VBROADCASTSS(from, r)
	}
	return r
}

// own is a register with the value of a node that may be overwritten: that of the node if n is its last use.
func (b *body) own(a, n *node) VecVirtual {
	if o := origin(a); !b.p.inMemory(o) && o.last == n.id {
		return b.registers[o]
	}
	return b.loaded(a)
}

// emit writes one node.
func (b *body) emit(n *node) {
	if n.op == "constant" || n.op == "as" || n.op == "input" && (b.p.fetch || b.p.pairs || b.p.masked) || n.op == "scalar" && b.p.masked {
		return
	}
	if n.op == "fma" || n.op == "fnma" || n.op == "fms" {
		b.registers[n] = b.fused(n)
		return
	}
	if b.e.masked && b.emitMasked(n) {
		return
	}
	dst := b.e.vector()
	b.registers[n] = dst
	switch n.op {
	case "input":
		if b.p.wide && !b.p.double {
			VCVTPS2PD(b.address(1+int(n.bits), 0), dst)
		} else {
			VMOVUPS(b.address(1+int(n.bits), 0), dst)
		}
		return
	case "scalar":
		if b.p.wide {
			VBROADCASTSD(b.scalar(n), dst)
		} else {
			VBROADCASTSS(b.scalar(n), dst)
		}
		return
	case "quadrant", "rest":
		b.quadrant(n, dst)
		return
	case "pick", "choose":
		blend := VBLENDVPS
		if b.p.wide { // by the sign of all 64 bits
			blend = VBLENDVPD
		}
		blend(b.register(n.args[0]), b.operand(n.args[1]), b.register(n.args[2]), dst)
		return
	}
	b.simple(n, dst)
}

// simple writes an operation of one or two operands.
func (b *body) simple(n *node, dst VecVirtual) {
	in, f := b.instruction(n)
	a := n.args
	if len(a) == 2 && in.commutes && b.p.inMemory(origin(a[0])) {
		a = []*node{a[1], a[0]}
	}
	switch {
	case n.op == "compare":
		f.write(b, U8(uint8(n.bits)), b.operand(a[1]), b.register(a[0]), dst)
	case len(a) == 2:
		f.write(b, b.operand(a[1]), b.register(a[0]), dst)
	case in.immediate:
		f.write(b, U8(uint8(n.bits)), b.register(a[0]), dst)
	default:
		f.write(b, b.operand(a[0]), dst)
	}
}

// fused writes a product and a sum in one: the result takes the register of an operand.
func (b *body) fused(n *node) VecVirtual {
	f := products[n.op][b.width()]
	x, y, z := n.args[0], n.args[1], n.args[2]
	dies := func(a *node) bool { o := origin(a); return !b.p.inMemory(o) && o.last == n.id }
	isConstant := func(a *node) bool { return b.p.inMemory(origin(a)) }
	if isConstant(x) {
		x, y = y, x
	}
	same := func(a, c *node) bool { return origin(a) == origin(c) }
	switch {
	case dies(z) && !same(z, x) && !same(z, y), isConstant(y) && isConstant(z), !dies(x) && (!dies(y) || isConstant(y)):
		dst := b.own(z, n)
		if same(z, x) || same(z, y) {
			dst = b.loaded(z)
		}
		f.f231.write(b, b.operand(y), b.register(x), dst)
		return dst
	case isConstant(y): // x dies
		dst := b.registers[origin(x)]
		f.f132.write(b, b.operand(y), b.register(z), dst)
		return dst
	case dies(x) && !same(x, y):
		dst := b.registers[origin(x)]
		f.f213.write(b, b.operand(z), b.register(y), dst)
		return dst
	case dies(y) && !same(x, y):
		dst := b.registers[origin(y)]
		f.f213.write(b, b.operand(z), b.register(x), dst)
		return dst
	default: // a square
		dst := b.registers[origin(x)]
		f.f213.write(b, b.operand(z), dst, dst)
		return dst
	}
}
