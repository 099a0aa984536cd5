package main

import (
	"fmt"
	"log"
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// tile is a micro-kernel: the product of a packed panel of rows of a and one of columns of b, two or three vectors wide, is in registers
// while the sum runs, as many for each row. What is left over are as many registers for a step of b, and two or one for elements of a.
type tile struct {
	name    string
	suffix  string // of the name, if it is not that of the instruction set
	typ     string // of an element
	rows    int
	panel   int // rows of a panel of a, if there are more
	width   int // vectors of a row, if they are not two
	unroll  int // steps of the sum in an iteration, a power of two
	vectors vectors
	scalars scalars
}

// vectors are the registers of an instruction set.
type vectors struct {
	bytes     int
	registers []Op
	zero      func(Op) // clears one
}

// scalars are the instructions for elements of a type.
type scalars struct {
	bytes, shift                    int
	move, broadcast, fma, mul, plus func(...Op)
}

var (
	ymm = vectors{32, []Op{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}, func(r Op) { VXORPS(r, r, r) }}
	zmm = vectors{64, []Op{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24,
		Z25, Z26, Z27, Z28, Z29, Z30, Z31}, func(r Op) { VPXORQ(r, r, r) }}

	single = scalars{4, 2, VMOVUPS, VBROADCASTSS, VFMADD231PS, VMULPS, VADDPS}
	double = scalars{8, 3, VMOVUPD, VBROADCASTSD, VFMADD231PD, VMULPD, VADDPD}
)

// generate writes the function: c = alpha*a*b, or c += that, for a tile whose rows are ld elements apart.
func (t tile) generate() {
	TEXT(t.name, NOSPLIT, fmt.Sprintf("func(k int, a, b, c *%[1]s, ld int, alpha %[1]s, add bool)", t.typ))
	t.load()
	t.prefetch()
	t.clear()
	t.loop()
	t.store(func() {
		VZEROUPPER()
		RET()
	})
}

// load reads the arguments, but for alpha and add.
func (t tile) load() {
	Load(Param("k"), RCX)
	Load(Param("a"), RAX)
	Load(Param("b"), RBX)
	Load(Param("c"), RDX)
	Load(Param("ld"), RSI)
	SHLQ(U8(t.scalars.shift), RSI)
}

// prefetch asks for the rows of results, so that they are near when the sum is done.
func (t tile) prefetch() {
	MOVQ(RDX, R8)
	for range t.rows {
		PREFETCHT0(Mem{Base: R8})
		PREFETCHT0(Mem{Base: R8, Disp: t.across()*t.vectors.bytes - 1})
		ADDQ(RSI, R8)
	}
}

func (t tile) clear() {
	for _, r := range t.sums() {
		t.vectors.zero(r)
	}
}

// sums are the registers of the tile; rest are those after them: two of b, two of a.
func (t tile) sums() []Op { return t.vectors.registers[:t.across()*t.rows] }
func (t tile) rest() []Op { return t.vectors.registers[t.across()*t.rows:] }

func (t tile) across() int { return max(2, t.width) }

// loop adds k steps: as many as are unrolled at a time, and then one at a time.
func (t tile) loop() {
	shift := bits.Len(uint(t.unroll)) - 1
	MOVQ(RCX, R8)
	SHRQ(U8(shift), R8)
	JZ(LabelRef("rest"))
	Label("loop")
	t.steps(t.unroll)
	DECQ(R8)
	JNZ(LabelRef("loop"))
	Label("rest")
	ANDQ(U8(t.unroll-1), RCX)
	JZ(LabelRef("store"))
	Label("one")
	t.steps(1)
	DECQ(RCX)
	JNZ(LabelRef("one"))
}

// steps adds n steps, and moves on in both panels.
func (t tile) steps(n int) {
	a, b := max(t.rows, t.panel)*t.scalars.bytes, t.across()*t.vectors.bytes // of a step
	for i := range n {
		t.step(i*a, i*b)
	}
	ADDQ(U32(n*a), RAX)
	ADDQ(U32(n*b), RBX)
}

// step adds one step of the sum, whose elements of a and b lie so many bytes from the pointers: each element of a times all vectors of b.
// Elements of a take turns in the registers that are left, so that one is loaded while the other is used.
func (t tile) step(a, b int) {
	sums, n := t.sums(), t.across()
	vectors, elements := t.rest()[:n], t.rest()[n:]
	for i, v := range vectors {
		t.scalars.move(Mem{Base: RBX, Disp: b + i*t.vectors.bytes}, v)
	}
	for row := range t.rows {
		element := elements[row%min(2, len(elements))]
		t.scalars.broadcast(Mem{Base: RAX, Disp: a + row*t.scalars.bytes}, element)
		for i, v := range vectors {
			t.scalars.fma(v, element, sums[n*row+i])
		}
	}
}

// store writes the rows of the tile, times alpha, or adds them to what is there, and then does what end says.
func (t tile) store(end func()) {
	alpha := t.rest()[3]
	Label("store")
	t.scalars.broadcast(address("alpha"), alpha)
	MOVBLZX(address("add"), R8L)
	TESTL(R8L, R8L)
	JNZ(LabelRef("add"))
	t.rowsOut(alpha, false)
	end()
	Label("add")
	t.rowsOut(alpha, true)
	end()
}

func (t tile) rowsOut(alpha Op, add bool) {
	for row := range t.rows {
		for i, r := range t.sums()[t.across()*row:][:t.across()] {
			at := Mem{Base: RDX, Disp: i * t.vectors.bytes}
			t.scalars.mul(alpha, r, r)
			if add {
				t.scalars.plus(at, r, r)
			}
			t.scalars.move(r, at)
		}
		ADDQ(RSI, RDX)
	}
}

// address is where an argument lies.
func address(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		log.Fatalf("gen: argument %s: %v", name, err)
	}
	return b.Addr
}
