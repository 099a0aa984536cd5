package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
)

// assembler writes assembly for arm64. The assembler of Go has no names for most instructions on vectors: these are written as words, with what they
// stand for in a comment, which TestNEON_Words compares with a disassembler.
type assembler struct {
	text  bytes.Buffer
	index map[constant]int // of constants, in the order in which they are used first
	table []constant
}

// vreg is a vector register: four numbers of 4 bytes, or two of 8.
type vreg int

// vectorInstruction is an instruction whose operands are vectors of one arrangement, or of two.
type vectorInstruction struct {
	name   string
	single uint32 // its word on four elements of 4 bytes
	double uint32 // likewise on two of 8 bytes, 0 if there is none
}

// Instructions, by the names of the architecture. Those on bits take all as they are.
var (
	vFadd  = vectorInstruction{"fadd", 0x4e20d400, 0x4e60d400}
	vFsub  = vectorInstruction{"fsub", 0x4ea0d400, 0x4ee0d400}
	vFmul  = vectorInstruction{"fmul", 0x6e20dc00, 0x6e60dc00}
	vFdiv  = vectorInstruction{"fdiv", 0x6e20fc00, 0x6e60fc00}
	vFmla  = vectorInstruction{"fmla", 0x4e20cc00, 0x4e60cc00}
	vFmls  = vectorInstruction{"fmls", 0x4ea0cc00, 0x4ee0cc00}
	vFmax  = vectorInstruction{"fmax", 0x4e20f400, 0x4e60f400}
	vFmin  = vectorInstruction{"fmin", 0x4ea0f400, 0x4ee0f400}
	vFaddp = vectorInstruction{"faddp", 0x6e20d400, 0x6e60d400}
	vFcmeq = vectorInstruction{"fcmeq", 0x4e20e400, 0x4e60e400}
	vFcmge = vectorInstruction{"fcmge", 0x6e20e400, 0x6e60e400}
	vFcmgt = vectorInstruction{"fcmgt", 0x6ea0e400, 0x6ee0e400}
	vAdd   = vectorInstruction{"add", 0x4ea08400, 0x4ee08400}
	vSub   = vectorInstruction{"sub", 0x6ea08400, 0x6ee08400}
	vSmax  = vectorInstruction{"smax", 0x4ea06400, 0}
	vUzp1  = vectorInstruction{"uzp1", 0x4e801800, 0x4ec01800}
	vUzp2  = vectorInstruction{"uzp2", 0x4e805800, 0x4ec05800}
	vZip1  = vectorInstruction{"zip1", 0x4e803800, 0x4ec03800}
	vZip2  = vectorInstruction{"zip2", 0x4e807800, 0x4ec07800}

	vAnd = vectorInstruction{"and", 0x4e201c00, 0x4e201c00}
	vOrr = vectorInstruction{"orr", 0x4ea01c00, 0x4ea01c00}
	vEor = vectorInstruction{"eor", 0x6e201c00, 0x6e201c00}
	vBsl = vectorInstruction{"bsl", 0x6e601c00, 0x6e601c00} // d is n where d is set, else m
	vBit = vectorInstruction{"bit", 0x6ea01c00, 0x6ea01c00} // d is n where m is set
	vBif = vectorInstruction{"bif", 0x6ee01c00, 0x6ee01c00} // d is n where m is not set

	// of one operand
	vFrintn = vectorInstruction{"frintn", 0x4e218800, 0x4e618800}
	vFrintm = vectorInstruction{"frintm", 0x4e219800, 0x4e619800}
	vFrintp = vectorInstruction{"frintp", 0x4ea18800, 0x4ee18800}
	vFrintz = vectorInstruction{"frintz", 0x4ea19800, 0x4ee19800}
	vFsqrt  = vectorInstruction{"fsqrt", 0x6ea1f800, 0x6ee1f800}
	vFneg   = vectorInstruction{"fneg", 0x6ea0f800, 0x6ee0f800}
	vFcvtns = vectorInstruction{"fcvtns", 0x4e21a800, 0}
	vScvtf  = vectorInstruction{"scvtf", 0x4e21d800, 0}
	vNot    = vectorInstruction{"mvn", 0x6e205800, 0x6e205800}
)

// line writes a line that the assembler of Go knows.
func (a *assembler) line(format string, args ...any) {
	fmt.Fprintf(&a.text, "\t"+format+"\n", args...)
}

func (a *assembler) label(name string) { fmt.Fprintf(&a.text, "%s:\n", name) }

// word writes an instruction, and what it stands for.
func (a *assembler) word(code uint32, format string, args ...any) {
	fmt.Fprintf(&a.text, "\tWORD $%#08x // %s\n", code, fmt.Sprintf(format, args...))
}

// arrangement is that of numbers, or of bits.
func (in vectorInstruction) arrangement(wide bool) (code uint32, suffix string) {
	switch {
	case in.single == in.double:
		return in.single, "16b"
	case wide:
		if in.double == 0 {
			panic("gen: no instruction " + in.name + " on elements of 8 bytes")
		}
		return in.double, "2d"
	}
	return in.single, "4s"
}

// three is d = n op m.
func (a *assembler) three(in vectorInstruction, wide bool, d, n, m vreg) {
	code, s := in.arrangement(wide)
	a.word(code|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s, v%d.%s", in.name, d, s, n, s, m, s)
}

// two is d = op n.
func (a *assembler) two(in vectorInstruction, wide bool, d, n vreg) {
	code, s := in.arrangement(wide)
	a.word(code|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s", in.name, d, s, n, s)
}

// byElement is d += n * one element of m.
func (a *assembler) byElement(wide bool, d, n, m vreg, element int) {
	code := uint32(0x4f801000) | uint32(element&1)<<21 | uint32(element>>1)<<11
	s, one := "4s", "s"
	if wide {
		code, s, one = 0x4fc01000|uint32(element)<<11, "2d", "d"
	}
	a.word(code|uint32(m)<<16|uint32(n)<<5|uint32(d), "fmla v%d.%s, v%d.%s, v%d.%s[%d]", d, s, n, s, m, one, element)
}

// move copies a register.
func (a *assembler) move(d, n vreg) {
	a.word(0x4ea01c00|uint32(n)<<16|uint32(n)<<5|uint32(d), "mov v%d.16b, v%d.16b", d, n)
}

// shift is d = n shifted: shl, ushr or sshr.
func (a *assembler) shift(name string, wide bool, d, n vreg, by int) {
	size, s := 32, "4s"
	if wide {
		size, s = 64, "2d"
	}
	code, distance := map[string]uint32{"shl": 0x4f005400, "ushr": 0x6f000400, "sshr": 0x4f000400}[name], 2*size-by
	if name == "shl" {
		distance = size + by
	}
	a.word(code|uint32(distance)<<16|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s, #%d", name, d, s, n, s, by)
}

// widen makes two float64 of the lower or the upper two float32, and narrow the reverse, into the lower two, or into the upper ones besides.
func (a *assembler) widen(d, n vreg, upper bool) {
	if upper {
		a.word(0x4e617800|uint32(n)<<5|uint32(d), "fcvtl2 v%d.2d, v%d.4s", d, n)
		return
	}
	a.word(0x0e617800|uint32(n)<<5|uint32(d), "fcvtl v%d.2d, v%d.2s", d, n)
}

func (a *assembler) narrow(d, n vreg, upper bool) {
	if upper {
		a.word(0x4e616800|uint32(n)<<5|uint32(d), "fcvtn2 v%d.4s, v%d.2d", d, n)
		return
	}
	a.word(0x0e616800|uint32(n)<<5|uint32(d), "fcvtn v%d.2s, v%d.2d", d, n)
}

// zero clears a register.
func (a *assembler) zero(d vreg) { a.word(0x6f00e400|uint32(d), "movi v%d.2d, #0x0000000000000000", d) }

// set puts a constant into all elements of a register: by an instruction where there is one for it, else from the table that R6 points to.
func (a *assembler) set(d vreg, c constant) {
	if a.immediate(d, c) {
		return
	}
	at, ok := a.index[c]
	if !ok {
		at = len(a.table)
		a.index[c] = at
		a.table = append(a.table, c)
	}
	a.line("FMOVQ %d(R6), F%d", 16*at, d)
}

// immediate is set for constants that an instruction can have in itself.
func (a *assembler) immediate(d vreg, c constant) bool {
	x, name, code := float64(math.Float32frombits(uint32(c.bits))), "4s", uint32(0x4f00f400)
	if c.wide {
		x, name, code = math.Float64frombits(c.bits), "2d", 0x6f00f400
	}
	if c.bits == 0 {
		a.zero(d)
		return true
	}
	if imm, ok := floatImmediate(x); ok {
		a.word(code|split(imm)|uint32(d), "fmov v%d.%s, #%.8f", d, name, x)
		return true
	}
	if c.wide {
		return false
	}
	for i := range uint32(4) { // one byte is not 0, or not 255
		bits := uint32(c.bits)
		if rest := bits &^ (0xff << (8 * i)); rest == 0 {
			a.word(0x4f000400|i<<13|split(bits>>(8*i))|uint32(d), "movi v%d.4s, #%#x, lsl #%d", d, bits>>(8*i), 8*i)
			return true
		}
		if rest := ^bits &^ (0xff << (8 * i)); rest == 0 {
			a.word(0x6f000400|i<<13|split(^bits>>(8*i))|uint32(d), "mvni v%d.4s, #%#x, lsl #%d", d, ^bits>>(8*i), 8*i)
			return true
		}
	}
	return false
}

// split puts the eight bits of an immediate where instructions have them.
func split(imm uint32) uint32 { return (imm>>5)<<16 | (imm&31)<<5 }

// floatImmediate are the eight bits of a number: a sign, three bits of an exponent and four of a fraction.
func floatImmediate(x float64) (imm uint32, ok bool) {
	for imm := range uint32(256) {
		v := math.Ldexp(1+float64(imm&15)/16, int((imm>>4&7)^4)-3)
		if imm&128 != 0 {
			v = -v
		}
		if v == x {
			return imm, true
		}
	}
	return 0, false
}

// finish writes the table of constants under a name, and all to a file.
func (a *assembler) finish(file, name string) error {
	var head bytes.Buffer
	fmt.Fprint(&head, "// Code generated by kernels/cpu/gen. DO NOT EDIT.\n\n#include \"textflag.h\"\n")
	for i, c := range a.table {
		for half := range 2 {
			bits := c.bits
			if !c.wide {
				bits |= bits << 32
			}
			fmt.Fprintf(&head, "DATA %s<>+%d(SB)/8, $%#x\n", name, 16*i+8*half, bits)
		}
	}
	if len(a.table) > 0 {
		fmt.Fprintf(&head, "GLOBL %s<>(SB), RODATA|NOPTR, $%d\n", name, 16*len(a.table))
	}
	head.Write(a.text.Bytes())
	return os.WriteFile(file, head.Bytes(), 0o644)
}
