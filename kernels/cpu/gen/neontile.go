package main

import "fmt"

// neonTile is a micro-kernel of matrix products, as microkernel.go specifies it, on four vectors of columns or more: all sums are in registers while they run, and an
// instruction multiplies a vector of b with one element of a.
type neonTile struct {
	name   string
	double bool
	rows   int // at once
	groups int // of rows, one after the other, which are a panel of a
	width  int // vectors of a row
}

func neonTiles() (list []neonTile) {
	for rows := 6; rows >= 3; rows-- {
		list = append(list, neonTile{fmt.Sprintf("tile%dx16NEON", rows), false, rows, 1, 4}, neonTile{fmt.Sprintf("tile%dx8NEON", rows), true, rows, 1, 4})
	}
	return append(list, neonTile{"tile8x16NEON", false, 4, 2, 4}, neonTile{"tile8x24NEON", false, 4, 2, 6})
}

// Registers: R0 is k, R1 to R3 are a, b and c, R4 is the distance of rows of c, R5 counts, R6 and R7 walk a and b.

func (t neonTile) size() int {
	if t.double {
		return 8
	}
	return 4
}

func (t neonTile) letter() string {
	if t.double {
		return "D"
	}
	return "S"
}

func (t neonTile) sum(row, i int) vreg { return vreg(row*t.width + i) }
func (t neonTile) column(i int) vreg   { return vreg(t.rows*t.width + i) }
func (t neonTile) element(i int) vreg  { return vreg((t.rows+1)*t.width + i) }

func (t neonTile) write(a *assembler) {
	frame := 45
	if t.double {
		frame = 49
	}
	fmt.Fprintf(&a.text, "\n// %s is a tileLoop.\nTEXT ·%[1]s(SB), NOSPLIT, $0-%d\n", t.name, frame)
	for i, name := range []string{"k", "a", "b", "c", "ld"} {
		a.line("MOVD %s+%d(FP), R%d", name, 8*i, i)
	}
	a.line("LSL $%d, R4, R4", map[int]int{4: 2, 8: 3}[t.size()])
	for group := range t.groups {
		t.group(a, group)
	}
	a.line("RET")
}

// group computes some rows.
func (t neonTile) group(a *assembler, group int) {
	label := func(name string) string {
		if group > 0 {
			return fmt.Sprint(name, group)
		}
		return name
	}
	a.line("MOVD R3, R8")
	for range t.rows {
		a.line("PRFM (R8), PLDL1KEEP")
		a.line("ADD R4, R8, R8")
	}
	for r := range vreg(t.rows * t.width) {
		a.zero(r)
	}
	a.line("ADD $%d, R1, R6", group*t.rows*t.size())
	a.line("MOVD R2, R7")
	a.line("SUBS $4, R0, R5")
	a.line("BLT %s", label("few"))
	a.label(label("loop"))
	for step := range 4 {
		t.step(a, step)
	}
	t.advance(a, 4)
	a.line("SUBS $4, R5, R5")
	a.line("BGE %s", label("loop"))
	a.label(label("few"))
	a.line("ADDS $4, R5, R5")
	a.line("BEQ %s", label("store"))
	a.label(label("one"))
	t.step(a, 0)
	t.advance(a, 1)
	a.line("SUBS $1, R5, R5")
	a.line("BNE %s", label("one"))
	a.label(label("store"))
	t.store(a, label)
}

func (t neonTile) advance(a *assembler, steps int) {
	a.line("ADD $%d, R6, R6", steps*t.rows*t.groups*t.size())
	a.line("ADD $%d, R7, R7", steps*t.width*16)
}

// step adds one step of the sum.
func (t neonTile) step(a *assembler, step int) {
	from := step * t.rows * t.groups * t.size()
	perVector := 16 / t.size()
	type place struct {
		r vreg
		i int
	}
	var elements []place
	next := 0
	for left := t.rows; left > 0; next++ {
		r, n := t.element(next), min(left, perVector)
		if n == 3 { // two, and one in a register of its own
			n = 2
		}
		load := map[int]string{1: "FMOV" + t.letter(), 2: "FMOVD", 4: "FMOVQ"}[n]
		if t.double && n == 2 {
			load = "FMOVQ"
		}
		a.line("%s %d(R6), F%d", load, from+(t.rows-left)*t.size(), r)
		for i := range n {
			elements = append(elements, place{r, i})
		}
		left -= n
	}
	for i := 0; i < t.width; i += 2 {
		a.line("FLDPQ %d(R7), (F%d, F%d)", step*t.width*16+16*i, t.column(i), t.column(i+1))
	}
	for row, e := range elements {
		for i := range t.width {
			a.byElement(t.double, t.sum(row, i), t.column(i), e.r, e.i)
		}
	}
}

// store writes the rows, times alpha, or adds them to what is there. R3 goes on.
func (t neonTile) store(a *assembler, label func(string) string) {
	alpha := t.column(0)
	a.line("FMOV%s alpha+40(FP), F%d", t.letter(), alpha)
	size := 2
	if t.double {
		size = 3
	}
	a.fill(size, alpha, alpha, 0)
	a.line("MOVBU add+%d(FP), R8", 40+t.size())
	a.line("CBNZ R8, %s", label("add"))
	for _, add := range []bool{false, true} {
		if add {
			a.label(label("add"))
		}
		for row := range t.rows {
			for i := range t.width {
				r := t.sum(row, i)
				a.three(vFmul, t.double, r, r, alpha)
				if add {
					other := t.column(1 + i%(t.width-1))
					a.line("FMOVQ %d(R3), F%d", 16*i, other)
					a.three(vFadd, t.double, r, r, other)
				}
			}
			for i := 0; i < t.width; i += 2 {
				a.line("FSTPQ (F%d, F%d), %d(R3)", t.sum(row, i), t.sum(row, i+1), 16*i)
			}
			a.line("ADD R4, R3, R3")
		}
		if !add {
			a.line("B %s", label("done"))
		}
	}
	a.label(label("done"))
}

// neonUnpacked is the tile of six rows of gemmsmall.go, on operands as they lie.
func neonUnpacked(a *assembler) {
	const rows, width = 6, 4
	fmt.Fprintf(&a.text, "\n// product6x16NEON is a tile of a smallKernel.\nTEXT ·product6x16NEON(SB), NOSPLIT, $0-69\n")
	for i, name := range []string{"k", "a", "row", "step", "b", "ld", "c", "to"} {
		a.line("MOVD %s+%d(FP), R%d", name, 8*i, i)
	}
	pointers := []int{1, 8, 9, 10, 11, 12}
	for i, p := range pointers[1:] {
		a.line("ADD R2, R%d, R%d", pointers[i], p)
	}
	for r := range vreg(rows * width) {
		a.zero(r)
	}
	column := func(i int) vreg { return vreg(rows*width + i) }
	element := func(row int) vreg { return vreg((rows+1)*width + row%4) }
	a.label("loop")
	for i := 0; i < width; i += 2 {
		a.line("FLDPQ %d(R4), (F%d, F%d)", 16*i, column(i), column(i+1))
	}
	for row, p := range pointers {
		a.line("FMOVS (R%d), F%d", p, element(row))
		for i := range width {
			a.byElement(false, vreg(row*width+i), column(i), element(row), 0)
		}
	}
	for _, p := range pointers {
		a.line("ADD R3, R%d, R%[1]d", p)
	}
	a.line("ADD R5, R4, R4")
	a.line("SUBS $1, R0, R0")
	a.line("BNE loop")
	alpha := column(0)
	a.line("FMOVS alpha+64(FP), F%d", alpha)
	a.fill(2, alpha, alpha, 0)
	a.line("MOVBU add+68(FP), R8")
	a.line("CBNZ R8, add")
	for _, add := range []bool{false, true} {
		if add {
			a.label("add")
		}
		for row := range rows {
			for i := range width {
				r := vreg(row*width + i)
				a.three(vFmul, false, r, r, alpha)
				if add {
					other := element(i)
					a.line("FMOVQ %d(R6), F%d", 16*i, other)
					a.three(vFadd, false, r, r, other)
				}
				a.line("FMOVQ F%d, %d(R6)", r, 16*i)
			}
			a.line("ADD R7, R6, R6")
		}
		a.line("RET")
	}
}

// writeProducts writes the tiles of matrix products for arm64.
func writeProducts(file string) error {
	a := &assembler{index: map[constant]int{}}
	for _, t := range neonTiles() {
		t.write(a)
	}
	neonUnpacked(a)
	return a.finish(file, "")
}
