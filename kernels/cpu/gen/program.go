package main

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// program is a function of elements, written once and emitted several times: as instructions on vectors (emitvector.go, emitmasked.go, emitneon.go) and in Go on one element
// (emitgo.go). All do the same operations in the same order, so they give the same bits.
//
// A program is a list of nodes without branches. Computation is in float32, or in float64 if it is wide. Elements are float32, and float64 if it is double,
// which is wide too.
type program struct {
	name, does string
	wide       bool
	double     bool
	pairs      bool // of random words: element 2j and 2j+1 come from words 2j and 2j+1, and the program has two inputs and outputs
	inputs     int
	scalars    int
	nodes      []*node
	known      map[string]*node // by what they compute
	results    []*node
	fetch      bool // inputs are taken from memory each time, for want of registers
	masked     bool // for AVX-512 (emitmasked.go): masks have registers of their own, and there are twice as many of others
	neon       bool // for NEON (emitneon.go): twice as many registers, and all operands are in them
}

// kind is what a node holds.
type kind int

const (
	number  kind = iota // of floating point
	integer             // as wide as a number
	mask                // all bits, or none
)

// node is an operation on nodes before it.
type node struct {
	op       string
	kind     kind
	args     []*node
	bits     uint64 // of constants; the place of inputs and scalars; the distance of shifts; the predicate of comparisons
	id, last int    // its place, and that of its last use
}

// Predicates of comparisons, as instructions number them. All but unequal and notLess are false for NaN.
const (
	equal     = 0
	less      = 17
	lessEqual = 18
	unequal   = 4
	greaterEq = 29
	greater   = 30
)

func (p *program) add(op string, k kind, bits uint64, args ...*node) *node {
	key := fmt.Sprint(op, k, bits)
	for _, a := range args {
		key += fmt.Sprint(" ", a.id)
	}
	if n := p.known[key]; n != nil {
		return n
	}
	n := &node{op: op, kind: k, bits: bits, args: args, id: len(p.nodes)}
	p.nodes = append(p.nodes, n)
	p.known[key] = n
	return n
}

func (p *program) input(i int) *node {
	p.inputs = max(p.inputs, i+1)
	return p.add("input", number, uint64(i))
}

// words are the bits of input i.
func (p *program) words(i int) *node { return p.asInteger(p.input(i)) }

func (p *program) scalar(i int) *node {
	p.scalars = max(p.scalars, i+1)
	return p.add("scalar", number, uint64(i))
}

// value is a constant.
func (p *program) value(x float64) *node {
	if p.wide {
		return p.add("constant", number, math.Float64bits(x))
	}
	return p.add("constant", number, uint64(math.Float32bits(float32(x))))
}

// whole is a constant of an integer, or of bits.
func (p *program) whole(bits uint64) *node { return p.add("constant", integer, bits) }

func (p *program) plus(a, b *node) *node       { return p.add("plus", a.kind, 0, a, b) }
func (p *program) minus(a, b *node) *node      { return p.add("minus", a.kind, 0, a, b) }
func (p *program) times(a, b *node) *node      { return p.add("times", number, 0, a, b) }
func (p *program) over(a, b *node) *node       { return p.add("over", number, 0, a, b) }
func (p *program) root(a *node) *node          { return p.add("root", number, 0, a) }
func (p *program) fma(a, b, c *node) *node     { return p.add("fma", number, 0, a, b, c) }             // a*b + c
func (p *program) fnma(a, b, c *node) *node    { return p.add("fnma", number, 0, a, b, c) }            // c - a*b
func (p *program) fms(a, b, c *node) *node     { return p.add("fms", number, 0, a, b, c) }             // a*b - c
func (p *program) least(a, b *node) *node      { return p.add("least", number, 0, a, b) }              // b if either is NaN
func (p *program) most(a, b *node) *node       { return p.add("most", number, 0, a, b) }               // b if either is NaN
func (p *program) positive(a *node) *node      { return p.add("positive", integer, 0, a, p.whole(0)) } // of signed ones, 0 for those below; narrow only
func (p *program) round(a *node) *node         { return p.add("round", number, 0, a) }
func (p *program) floor(a *node) *node         { return p.add("floor", number, 0, a) }
func (p *program) ceil(a *node) *node          { return p.add("ceil", number, 0, a) }
func (p *program) trunc(a *node) *node         { return p.add("trunc", number, 0, a) }
func (p *program) toInteger(a *node) *node     { return p.add("toInteger", integer, 0, a) } // the nearest; narrow only
func (p *program) toNumber(a *node) *node      { return p.add("toNumber", number, 0, a) }   // of signed ones; narrow only
func (p *program) asNumber(a *node) *node      { return p.add("as", number, 0, a) }
func (p *program) and(a, b *node) *node        { return p.add("and", a.kind, 0, a, b) }
func (p *program) or(a, b *node) *node         { return p.add("or", a.kind, 0, a, b) }
func (p *program) xor(a, b *node) *node        { return p.add("xor", a.kind, 0, a, b) }
func (p *program) left(a *node, n int) *node   { return p.add("left", integer, uint64(n), a) }
func (p *program) right(a *node, n int) *node  { return p.add("right", integer, uint64(n), a) }  // zeros come in
func (p *program) signed(a *node, n int) *node { return p.add("signed", integer, uint64(n), a) } // the sign comes in; narrow only
func (p *program) pick(m, a, b *node) *node    { return p.add("pick", a.kind, 0, m, a, b) }      // a where m is, else b

// choose is a where the sign bit of s is set, else b.
func (p *program) choose(s, a, b *node) *node {
	if p.masked {
		return p.pick(p.add("signs", mask, 0, s), a, b)
	}
	return p.add("choose", number, 0, s, a, b)
}

// asInteger is the same bits.
func (p *program) asInteger(a *node) *node {
	if p.masked && a.kind == mask {
		return p.add("bits", integer, 0, a)
	}
	return p.add("as", integer, 0, a)
}

func (p *program) compare(predicate int, a, b *node) *node {
	return p.add("compare", mask, uint64(predicate), a, b)
}

// quadrant gives the nearest multiple of pi/2 as an integer, and what is left of a, for |a| up to 2^50 or so: it is computed in float64.
func (p *program) quadrant(a *node) (k, r *node) {
	return p.add("quadrant", integer, 0, a), p.add("rest", number, 0, a)
}

// result says what the program gives.
func (p *program) result(n ...*node) { p.results = n }

// signBit is the constant of that bit, and so on.
func (p *program) signBit() *node {
	if p.wide {
		return p.whole(1 << 63)
	}
	return p.whole(1 << 31)
}

func (p *program) magnitude(a *node) *node {
	bits := uint64(1<<31 - 1)
	if p.wide {
		bits = 1<<63 - 1
	}
	return p.asNumber(p.and(p.asInteger(a), p.whole(bits)))
}

func (p *program) negative(a *node) *node {
	return p.asNumber(p.xor(p.asInteger(a), p.signBit()))
}

// sign is the sign bit of a.
func (p *program) sign(a *node) *node { return p.and(p.asInteger(a), p.signBit()) }

// withSign puts a sign bit on a number that has none.
func (p *program) withSign(a, sign *node) *node { return p.asNumber(p.or(p.asInteger(a), sign)) }

// element is the type of elements.
func (p *program) element() string {
	if p.double {
		return "float64"
	}
	return "float32"
}

// polynomial is c[0] + c[1]*x + ...
func (p *program) polynomial(x *node, c ...float64) *node {
	y := p.value(c[len(c)-1])
	for i := len(c) - 2; i >= 0; i-- {
		y = p.fma(y, x, p.value(c[i]))
	}
	return y
}

// mostPressure is how many registers a program may need for two vectors to be in work at once.
const mostPressure = 7

// finish drops what nothing uses, and puts the rest in an order that needs few registers.
func (p *program) finish() {
	used := map[*node]bool{}
	var mark func(n *node)
	mark = func(n *node) {
		if used[n] {
			return
		}
		used[n] = true
		for _, a := range n.args {
			mark(a)
		}
	}
	for _, n := range p.results {
		mark(n)
	}
	var list []*node
	for _, n := range p.nodes {
		if used[n] {
			n.id = len(list)
			list = append(list, n)
		}
	}
	p.nodes = list
	if p.masked {
		p.inputsFirst()
		return
	}
	p.place()
	if p.pressure() > mostPressure && p.wide == p.double && !p.pairs && !p.neon {
		p.fetch = true
		p.place()
	}
	if inOrder := p.pressure(); !p.pairs && inOrder > mostPressure {
		p.nodes = p.nested()
		if p.place(); p.pressure() > inOrder {
			p.nodes = list
			p.place()
		}
	}
}

// nested is the nodes in the order in which expressions need them, of two operands the one that needs more registers first.
func (p *program) nested() (list []*node) {
	needs := map[*node]int{}
	var need func(n *node) int
	need = func(n *node) int {
		if k, ok := needs[n]; ok {
			return k
		}
		var all []int
		for _, a := range n.args {
			all = append(all, need(a))
		}
		sort.Sort(sort.Reverse(sort.IntSlice(all)))
		k := 0
		if !p.inMemory(n) {
			k = 1
		}
		for i, a := range all {
			k = max(k, a+i)
		}
		needs[n] = k
		return k
	}
	done := map[*node]bool{}
	var visit func(n *node)
	visit = func(n *node) {
		if done[n] {
			return
		}
		done[n] = true
		args := slices.Clone(n.args)
		sort.SliceStable(args, func(i, j int) bool { return need(args[i]) > need(args[j]) })
		for _, a := range args {
			visit(a)
		}
		list = append(list, n)
	}
	for _, n := range p.results {
		visit(n)
	}
	return list
}

// inMemory reports whether instructions may take a node from memory, where it stays.
func (p *program) inMemory(n *node) bool {
	return n.op == "constant" || n.op == "input" && p.fetch || n.op == "scalar" && p.masked
}

// place numbers the nodes, and finds where each is used last.
func (p *program) place() {
	list := p.nodes
	for i, n := range list {
		n.id = i
	}
	for _, n := range list {
		n.last = n.id
		for _, a := range n.args {
			origin(a).last = n.id
			a.last = n.id
		}
	}
	for _, n := range p.results {
		origin(n).last = len(list)
	}
}

// origin is the node whose register a node is in: the same bits under another kind.
func origin(n *node) *node {
	for n.op == "as" {
		n = n.args[0]
	}
	return n
}

// inMask reports whether a node is in a register of masks.
func (p *program) inMask(n *node) bool { return p.masked && n.kind == mask }

// pressure is the largest number of registers in use at once.
func (p *program) pressure() (most int) {
	for at := range p.nodes {
		live := 0
		for _, n := range p.nodes[:at+1] {
			if n.op != "as" && !p.inMemory(n) && !p.inMask(n) && n.last > at || n.id == at {
				live++
			}
		}
		most = max(most, live)
	}
	return most
}
