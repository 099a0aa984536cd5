package main

import (
	"log"
	"sort"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
	"github.com/mmcloughlin/avo/x86"
)

// Programs as functions on AVX-512 (F, BW, DQ, VL), for any number of elements from 1 on: of the last vectors, masks say which elements there are. Vectors of
// an iteration are loaded at its start and stored at its end, in two ways, whole and masked, with the same instructions between.

// maskedRegisters are those of vectors, but for one in which an instruction puts what it overwrites, and maskRegisters those of masks, but for that of
// elements.
const (
	maskedRegisters = 31
	maskRegisters   = 6
)

// emitMaskedVectors writes all programs, with their constants.
func emitMaskedVectors(list []*program) {
	e := vectorEmitter{constants: map[constant]int{}, masked: true}
	GLOBL("vectorConstants", 8|16) // read only, without pointers
	at := 0
	for _, wide := range []bool{true, false} { // each at a multiple of its size
		for _, c := range constantsOf(list) {
			switch {
			case c.wide != wide:
				continue
			case wide:
				DATA(at, U64(c.bits))
			default:
				DATA(at, U32(c.bits))
			}
			e.constants[c] = at
			at += 4
			if wide {
				at += 4
			}
		}
	}
	for _, p := range list {
		e.maskedFunction(p)
		if p.name == "expShifted" {
			e.maskedExpSum(p)
		}
	}
}

// inputsFirst puts the inputs in front, where they are loaded, and keeps the order of the rest: there are registers for all programs.
func (p *program) inputsFirst() {
	sort.SliceStable(p.nodes, func(i, j int) bool { return p.nodes[i].op == "input" && p.nodes[j].op != "input" })
	p.place()
}

// maskPressure is the largest number of masks in use at once.
func (p *program) maskPressure() (most int) {
	for at := range p.nodes {
		live := 0
		for _, n := range p.nodes[:at+1] {
			if p.inMask(n) && (n.last > at || n.id == at) {
				live++
			}
		}
		most = max(most, live)
	}
	return most
}

// maskedStep is how many elements a body takes.
func (p *program) maskedStep() int {
	switch {
	case p.wide:
		return 8
	case p.pairs:
		return 32
	}
	return 16
}

// maskedBodies is how many vectors are in work at once, as long as there are so many elements: two where registers are enough.
func (p *program) maskedBodies() int {
	if p.pairs || 2*p.pressure() >= maskedRegisters || 2*p.maskPressure() > maskRegisters {
		return 1
	}
	return 2
}

// maskedFunction writes one function. Registers: left counts the elements from index on.
func (e *vectorEmitter) maskedFunction(p *program) {
	TEXT(p.name+"AVX512", NOSPLIT, p.signature())
	left := Load(Param("n"), GP64())
	pointers := e.parameters(p)
	index := GP64()
	XORQ(index, index)
	e.scalars = map[*node]VecVirtual{}
	e.keepMasked(p, pointers)
	defer clear(e.kept)
	if p.maskedBodies() == 2 {
		Label("pairs")
		CMPQ(left, U8(2*p.maskedStep()))
		JLT(LabelRef("loop"))
		e.maskedIteration(p, "pairs", e.maskedBodiesAt(p, 2, index, pointers), left, index)
	}
	list := e.maskedBodiesAt(p, 1, index, pointers)
	Label("loop")
	CMPQ(left, U8(p.maskedStep()))
	JLT(LabelRef("lastLoad"))
	results := e.maskedIteration(p, "loop", list, left, index)
	// Fewer elements are left than a vector has.
	Label("lastLoad")
	list[0].loadMasked(left)
	JMP(LabelRef("compute"))
	Label("lastStore")
	list[0].storeMasked(results, left)
	VZEROUPPER()
	RET()
}

// maskedBodiesAt are bodies side by side, with registers for their inputs.
func (e *vectorEmitter) maskedBodiesAt(p *program, count int, index Register, pointers []Register) []*body {
	list := make([]*body, count)
	for i := range list {
		list[i] = &body{e: e, p: p, at: i * p.maskedStep(), index: index, pointers: pointers}
		list[i].registers, list[i].masks, list[i].rest = map[*node]VecVirtual{}, map[*node]OpmaskVirtual{}, map[*node]VecVirtual{}
		list[i].inputRegisters()
	}
	return list
}

// maskedIteration writes the loads, the computation and the stores of whole vectors, the jump to the loop's label and the return; of a single vector it says in which registers the
// results are, and there are jumps for the last elements.
func (e *vectorEmitter) maskedIteration(p *program, loop string, list []*body, left, index Register) (results []Register) {
	for _, b := range list {
		b.loadWhole()
	}
	if len(list) == 1 {
		Label("compute")
	}
	for _, b := range list {
		b.begin()
	}
	for _, n := range p.nodes {
		for _, b := range list {
			b.emit(n)
		}
	}
	step := len(list) * p.maskedStep()
	for _, b := range list {
		results = b.end()
		if len(list) == 1 {
			CMPQ(left, U8(step))
			JLT(LabelRef("lastStore"))
		}
		for j, r := range results {
			VMOVUPS(r, b.address(0, 16*j))
		}
	}
	ADDQ(U8(step), index)
	SUBQ(U8(step), left)
	JNZ(LabelRef(loop))
	VZEROUPPER()
	RET()
	return results
}

// keepMasked loads constants and scalars into registers, those that are used most first, as long as there are registers.
func (e *vectorEmitter) keepMasked(p *program, pointers []Register) {
	e.kept = map[constant]VecVirtual{}
	uses := map[*node]int{}
	for _, n := range p.nodes {
		for _, a := range n.args {
			uses[origin(a)]++
		}
	}
	var list []*node
	for _, n := range p.nodes {
		if p.inMemory(n) {
			list = append(list, n)
		}
	}
	sort.SliceStable(list, func(i, j int) bool { return uses[list[i]] > uses[list[j]] })
	free := maskedRegisters - p.maskedBodies()*p.pressure() - 1
	b := body{e: e, p: p, pointers: pointers}
	for _, n := range list {
		if free == 0 {
			break
		}
		c := constant{n.bits, p.wide}
		if n.op == "constant" && e.kept[c] != nil || e.scalars[n] != nil { // of constants the same bits of another kind
			continue
		}
		free--
		r := b.loaded(n)
		if n.op == "scalar" {
			e.scalars[n] = r
		} else {
			e.kept[c] = r
		}
	}
}

// inputRegisters are where inputs are loaded.
func (b *body) inputRegisters() {
	for _, n := range b.p.nodes {
		if n.op == "input" {
			b.registers[n] = ZMM()
		}
	}
	if b.p.pairs {
		b.first, b.second = ZMM(), ZMM()
	}
}

// input is the register of the only input.
func (b *body) input() VecVirtual {
	for n, r := range b.registers {
		if n.op == "input" {
			return r
		}
	}
	panic("gen: " + b.p.name + " has no input")
}

// loadWhole loads the inputs.
func (b *body) loadWhole() {
	if b.p.pairs {
		VMOVUPS(b.address(1, 0), b.first)
		VMOVUPS(b.address(1, 16), b.second)
		return
	}
	for _, n := range b.p.nodes {
		switch {
		case n.op != "input":
		case b.p.wide && !b.p.double:
			VCVTPS2PD(b.address(1+int(n.bits), 0), b.registers[n])
		default:
			VMOVUPS(b.address(1+int(n.bits), 0), b.registers[n])
		}
	}
}

// mask says which of the elements are there, of so many that are left from those of the iteration on.
func (b *body) mask(left Register, further int) OpmaskVirtual {
	bits, k := GP64(), K()
	MOVQ(I32(-1), bits)
	BZHIQ(left, bits, bits)
	if b.at+further > 0 {
		SHRQ(U8(b.at+further), bits)
	}
	KMOVW(bits.As32(), k)
	return k
}

// loadMasked loads the inputs that are there, and zeros.
func (b *body) loadMasked(left Register) {
	k := b.mask(left, 0)
	if b.p.pairs {
		VMOVUPS_Z(b.address(1, 0), k, b.first)
		VMOVUPS_Z(b.address(1, 16), b.mask(left, 16), b.second)
		return
	}
	for _, n := range b.p.nodes {
		switch {
		case n.op != "input":
		case b.p.double:
			VMOVUPD_Z(b.address(1+int(n.bits), 0), k, b.registers[n])
		case b.p.wide:
			VCVTPS2PD_Z(b.address(1+int(n.bits), 0), k, b.registers[n])
		default:
			VMOVUPS_Z(b.address(1+int(n.bits), 0), k, b.registers[n])
		}
	}
}

// begin takes apart pairs that were loaded, as loadPairs does.
func (b *body) begin() {
	if !b.p.pairs {
		return
	}
	for _, n := range b.p.nodes {
		if n.op == "input" {
			VSHUFPS(U8([]uint8{0x88, 0xdd}[n.bits]), b.second, b.first, b.registers[n])
		}
	}
}

// end are the registers that are stored: two of pairs.
func (b *body) end() []Register {
	r := b.register(b.p.results[0])
	switch {
	case b.p.pairs:
		s, low, high := b.register(b.p.results[1]), ZMM(), ZMM()
		VUNPCKLPS(s, r, low)
		VUNPCKHPS(s, r, high)
		return []Register{low, high}
	case b.p.wide && !b.p.double:
		narrow := YMM()
		VCVTPD2PS(r, narrow)
		return []Register{narrow}
	}
	return []Register{r}
}

// storeMasked stores results of elements that are there.
func (b *body) storeMasked(results []Register, left Register) {
	for i, r := range results {
		k := b.mask(left, 16*i)
		if b.p.double {
			VMOVUPD(r, k, b.address(0, 16*i))
		} else {
			VMOVUPS(r, k, b.address(0, 16*i))
		}
	}
}

// emitMasked writes a node whose instructions are others than those of AVX2, and reports whether it is one.
func (b *body) emitMasked(n *node) bool {
	if n.kind == mask {
		k := K()
		b.masks[n] = k
		b.emitMask(n, k)
		return true
	}
	if n.op == "quadrant" || n.op == "rest" {
		b.maskedQuadrant(n)
		return true
	}
	if n.op != "bits" && n.op != "pick" {
		return false
	}
	dst := ZMM()
	b.registers[n] = dst
	switch {
	case n.op == "pick":
		f := []form{{blend(x86.VBLENDMPS), blend(x86.VBLENDMPS_BCST)}, {blend(x86.VBLENDMPD), blend(x86.VBLENDMPD_BCST)}}[b.width()]
		f.write(b, b.operand(n.args[1]), b.register(n.args[2]), b.masks[n.args[0]], dst)
	case b.p.wide:
		VPMOVM2Q(b.masks[n.args[0]], dst)
	default:
		VPMOVM2D(b.masks[n.args[0]], dst)
	}
	return true
}

// blend writes an instruction of which avo believes that it reads its result, as others with masks do: the register would not be free before.
func blend(make func(...Op) (*ir.Instruction, error)) func(...Op) {
	return func(o ...Op) {
		in, err := make(o...)
		if err != nil {
			log.Fatal("gen: ", err)
		}
		in.Inputs = o[:len(o)-1]
		Instruction(in)
	}
}

// emitMask writes a node that is a mask.
func (b *body) emitMask(n *node, k OpmaskVirtual) {
	a := n.args
	switch n.op {
	case "compare":
		_, f := b.instruction(n)
		f.write(b, U8(uint8(n.bits)), b.operand(a[1]), b.register(a[0]), k)
	case "signs":
		if b.p.wide {
			VPMOVQ2M(b.register(a[0]), k)
		} else {
			VPMOVD2M(b.register(a[0]), k)
		}
	case "and":
		KANDW(b.masks[a[1]], b.masks[a[0]], k)
	case "or":
		KORW(b.masks[a[1]], b.masks[a[0]], k)
	case "xor":
		KXORW(b.masks[a[1]], b.masks[a[0]], k)
	default:
		log.Fatalf("gen: %s: no instruction for the mask %s", b.p.name, n.op)
	}
}
