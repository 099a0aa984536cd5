package main

import (
	"log"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// form is an instruction, and that which takes one element from memory for all places, of AVX-512.
type form struct{ plain, broadcast func(...Op) }

// write writes the instruction: what AVX-512 has in memory is one element.
func (f form) write(b *body, operands ...Op) {
	write := f.plain
	for _, o := range operands {
		if _, ok := o.(Mem); ok && b.e.masked {
			write = f.broadcast
		}
	}
	if write == nil {
		log.Fatalf("gen: %s: no such instruction", b.p.name)
	}
	write(operands...)
}

// instruction is an operation on float32 and float64, and on integers.
type instruction struct {
	number, integer     [2]form
	commutes, immediate bool
}

// width is the place of a program's forms: of float32, or of float64.
func (b *body) width() int {
	if b.p.wide {
		return 1
	}
	return 0
}

// instruction is that of a node, and its form.
func (b *body) instruction(n *node) (instruction, form) {
	in := table[n.op]
	if other, ok := maskedTable[n.op]; ok && b.e.masked {
		in = other
	}
	i := b.width()
	f := in.number[i]
	if n.kind == integer && in.integer[i].plain != nil {
		f = in.integer[i]
	}
	if f.plain == nil {
		log.Fatalf("gen: %s: no instruction for %s", b.p.name, n.op)
	}
	return in, f
}

var table = map[string]instruction{
	"plus": {
		number: [2]form{{VADDPS, VADDPS_BCST}, {VADDPD, VADDPD_BCST}}, integer: [2]form{{VPADDD, VPADDD_BCST}, {VPADDQ, VPADDQ_BCST}}, commutes: true,
	},
	"minus":     {number: [2]form{{VSUBPS, VSUBPS_BCST}, {VSUBPD, VSUBPD_BCST}}, integer: [2]form{{VPSUBD, VPSUBD_BCST}, {VPSUBQ, VPSUBQ_BCST}}},
	"times":     {number: [2]form{{VMULPS, VMULPS_BCST}, {VMULPD, VMULPD_BCST}}, commutes: true},
	"over":      {number: [2]form{{VDIVPS, VDIVPS_BCST}, {VDIVPD, VDIVPD_BCST}}},
	"root":      {number: [2]form{{plain: VSQRTPS}, {plain: VSQRTPD}}},
	"least":     {number: [2]form{{VMINPS, VMINPS_BCST}, {VMINPD, VMINPD_BCST}}},
	"most":      {number: [2]form{{VMAXPS, VMAXPS_BCST}, {VMAXPD, VMAXPD_BCST}}},
	"round":     {number: [2]form{rounded(8), roundedWide(8)}},
	"floor":     {number: [2]form{rounded(9), roundedWide(9)}},
	"ceil":      {number: [2]form{rounded(10), roundedWide(10)}},
	"trunc":     {number: [2]form{rounded(11), roundedWide(11)}},
	"toInteger": {number: [2]form{{plain: VCVTPS2DQ}}},
	"toNumber":  {number: [2]form{{plain: VCVTDQ2PS}}},
	"positive":  {number: [2]form{{VPMAXSD, VPMAXSD_BCST}}},
	"and":       {number: [2]form{{plain: VANDPS}, {plain: VANDPS}}, commutes: true},
	"or":        {number: [2]form{{plain: VORPS}, {plain: VORPS}}, commutes: true},
	"xor":       {number: [2]form{{plain: VXORPS}, {plain: VXORPS}}, commutes: true},
	"left":      {number: [2]form{{plain: VPSLLD}, {plain: VPSLLQ}}, immediate: true},
	"right":     {number: [2]form{{plain: VPSRLD}, {plain: VPSRLQ}}, immediate: true},
	"signed":    {number: [2]form{{plain: VPSRAD}}, immediate: true},
	"compare":   {number: [2]form{{VCMPPS, VCMPPS_BCST}, {VCMPPD, VCMPPD_BCST}}},
}

// maskedTable is what AVX-512 has under other names.
var maskedTable = map[string]instruction{
	"round": {number: [2]form{scaled(8), scaledWide(8)}},
	"floor": {number: [2]form{scaled(9), scaledWide(9)}},
	"ceil":  {number: [2]form{scaled(10), scaledWide(10)}},
	"trunc": {number: [2]form{scaled(11), scaledWide(11)}},
	"and":   {number: [2]form{{VPANDD, VPANDD_BCST}, {VPANDQ, VPANDQ_BCST}}, commutes: true},
	"or":    {number: [2]form{{VPORD, VPORD_BCST}, {VPORQ, VPORQ_BCST}}, commutes: true},
	"xor":   {number: [2]form{{VPXORD, VPXORD_BCST}, {VPXORQ, VPXORQ_BCST}}, commutes: true},
}

// rounded and roundedWide are to whole numbers, in the direction that instructions number so; scaled and scaledWide are those of AVX-512.
func rounded(way uint8) form     { return form{plain: func(o ...Op) { VROUNDPS(U8(way), o[0], o[1]) }} }
func roundedWide(way uint8) form { return form{plain: func(o ...Op) { VROUNDPD(U8(way), o[0], o[1]) }} }
func scaled(way uint8) form      { return form{plain: func(o ...Op) { VRNDSCALEPS(U8(way), o[0], o[1]) }} }
func scaledWide(way uint8) form {
	return form{plain: func(o ...Op) { VRNDSCALEPD(U8(way), o[0], o[1]) }}
}

// forms are an instruction of a product and a sum, by the numbers of the operands that are multiplied and added, the first being the result.
type forms struct{ f132, f213, f231 form }

var products = map[string][2]forms{
	"fma": {
		{form{VFMADD132PS, VFMADD132PS_BCST}, form{VFMADD213PS, VFMADD213PS_BCST}, form{VFMADD231PS, VFMADD231PS_BCST}},
		{form{VFMADD132PD, VFMADD132PD_BCST}, form{VFMADD213PD, VFMADD213PD_BCST}, form{VFMADD231PD, VFMADD231PD_BCST}},
	},
	"fnma": {
		{form{VFNMADD132PS, VFNMADD132PS_BCST}, form{VFNMADD213PS, VFNMADD213PS_BCST}, form{VFNMADD231PS, VFNMADD231PS_BCST}},
		{form{VFNMADD132PD, VFNMADD132PD_BCST}, form{VFNMADD213PD, VFNMADD213PD_BCST}, form{VFNMADD231PD, VFNMADD231PD_BCST}},
	},
	"fms": {
		{form{VFMSUB132PS, VFMSUB132PS_BCST}, form{VFMSUB213PS, VFMSUB213PS_BCST}, form{VFMSUB231PS, VFMSUB231PS_BCST}},
		{form{VFMSUB132PD, VFMSUB132PD_BCST}, form{VFMSUB213PD, VFMSUB213PD_BCST}, form{VFMSUB231PD, VFMSUB231PD_BCST}},
	},
}
