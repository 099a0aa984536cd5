package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The nearest multiple of pi/2, of which pi/2 has two parts, and what rounds to an integer when it is added.
const (
	twoOverPi   = 2 / math.Pi
	halfPiHigh  = 0x1.921fb54442d18p+0
	halfPiLow   = 0x1.1a62633145c07p-54
	shiftNumber = 0x1.8p52
)

var quadrantConstants = []constant{
	{math.Float64bits(twoOverPi), true}, {math.Float64bits(halfPiHigh), true}, {math.Float64bits(halfPiLow), true}, {math.Float64bits(shiftNumber), true},
}

// quadrant computes both nodes of an argument when the first of them comes, in float64, one half of the vector after the other.
func (b *body) quadrant(n *node, dst VecVirtual) {
	for other, r := range b.rest {
		if other.args[0] == n.args[0] {
			b.registers[n] = r
			return
		}
	}
	c := func(x float64) Mem { return b.constant(math.Float64bits(x), true) }
	x := b.register(n.args[0])
	var ks, rests [2]VecVirtual
	for half := range 2 {
		low, wide, k, r := XMM(), YMM(), YMM(), YMM()
		VEXTRACTF128(U8(uint8(half)), x, low)
		VCVTPS2PD(low, wide)
		VMOVUPS(c(shiftNumber), k)
		VFMADD231PD(c(twoOverPi), wide, k)
		VSUBPD(c(shiftNumber), k, r)
		VFNMADD231PD(c(halfPiHigh), r, wide)
		VFNMADD231PD(c(halfPiLow), r, wide)
		rest := XMM()
		VCVTPD2PSY(wide, rest)
		ks[half], rests[half] = k, rest
	}
	k, t := dst, YMM()
	if n.op != "quadrant" {
		k, t = YMM(), dst
	}
	// The lower halves of the 64-bit elements, in order.
	VSHUFPS(U8(0x88), ks[1], ks[0], k)
	VPERMQ(U8(0xd8), k, k)
	VINSERTF128(U8(1), rests[1], rests[0].AsY(), t)
	if n.op == "quadrant" {
		b.rest[n] = t
	} else {
		b.rest[n] = k
	}
}

// maskedQuadrant is that on AVX-512.
func (b *body) maskedQuadrant(n *node) {
	for other, r := range b.rest {
		if other.args[0] == n.args[0] {
			b.registers[n] = r
			return
		}
	}
	c := func(x float64) Mem { return b.constant(math.Float64bits(x), true) }
	x := b.register(n.args[0])
	k, rest := ZMM(), ZMM()
	for half := range 2 {
		low, wide, turns, r := YMM(), ZMM(), ZMM(), ZMM()
		if half == 0 {
			VCVTPS2PD(x.AsY(), wide)
		} else {
			VEXTRACTF32X8(U8(1), x, low)
			VCVTPS2PD(low, wide)
		}
		VBROADCASTSD(c(shiftNumber), turns)
		VFMADD231PD_BCST(c(twoOverPi), wide, turns)
		VSUBPD_BCST(c(shiftNumber), turns, r)
		VFNMADD231PD_BCST(c(halfPiHigh), r, wide)
		VFNMADD231PD_BCST(c(halfPiLow), r, wide)
		if half == 0 {
			VPMOVQD(turns, k.AsY()) // the lower halves
			VCVTPD2PS(wide, rest.AsY())
			continue
		}
		number, left := YMM(), YMM()
		VPMOVQD(turns, number)
		VCVTPD2PS(wide, left)
		VINSERTF32X8(U8(1), number, k, k)
		VINSERTF32X8(U8(1), left, rest, rest)
	}
	first, second := k, rest
	if n.op != "quadrant" {
		first, second = rest, k
	}
	b.registers[n], b.rest[n] = first, second
}
