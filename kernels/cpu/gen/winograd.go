package main

import (
	"fmt"
	"maps"
	"math"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The transforms of Winograd's convolution, as winogradtransform.go specifies them: eight tiles at a time, one in each lane of a vector.

const lanes = 8

// The matrices of winogradtransform.go.
var (
	imageMatrix = [][]float64{
		{1, -1.5, -2, 1.5, 1, 0},
		{0, -1, .5, 2.5, 1, 0},
		{0, 1, -2.5, .5, 1, 0},
		{0, -2, -1, 2, 1, 0},
		{0, .5, -1, -.5, 1, 0},
		{0, 1, -1.5, -2, 1.5, 1},
	}
	gradientMatrix = [][]float64{
		{1, 0, 0, 0},
		{1. / 3, 1. / 3, 1. / 3, 1. / 3},
		{-1. / 3, 1. / 3, -1. / 3, 1. / 3},
		{-16. / 15, -8. / 15, -4. / 15, -2. / 15},
		{1. / 15, -2. / 15, 4. / 15, -8. / 15},
		{0, 0, 0, 1},
	}
	filterMatrix = [][]float64{
		{1, 0, 0},
		{1. / 3, 1. / 3, 1. / 3},
		{-1. / 3, 1. / 3, -1. / 3},
		{-16. / 15, -8. / 15, -4. / 15},
		{1. / 15, -2. / 15, 4. / 15},
		{0, 0, 1},
	}
	filter5Matrix = [][]float64{
		{1, 0, 0, 0, 0},
		{1. / 3, 1. / 3, 1. / 3, 1. / 3, 1. / 3},
		{-1. / 3, 1. / 3, -1. / 3, 1. / 3, -1. / 3},
		{-16. / 15, -8. / 15, -4. / 15, -2. / 15, -1. / 15},
		{1. / 15, -2. / 15, 4. / 15, -8. / 15, 16. / 15},
		{0, 0, 0, 0, 1},
	}
	resultMatrix = [][]float64{
		{1, 1, 1, 1, 1, 0},
		{0, 1, -1, .5, -2, 0},
		{0, 1, 1, .25, 4, 0},
		{0, 1, -1, .125, -8, 1},
	}
	result2Matrix = [][]float64{
		{1, 1, 1, 1, 1, 0},
		{0, 1, -1, .5, -2, 1},
	}
	tapsMatrix = [][]float64{
		{1, 1, 1, 1, 1, 0},
		{0, 1, -1, .5, -2, 0},
		{0, 1, 1, .25, 4, 1},
	}
)

func generateWinograd() {
	transformIn("winogradImageAVX2", imageMatrix, false)
	transformIn("winogradGradientAVX2", gradientMatrix, false)
	transformIn("winogradFilterAVX2", filterMatrix, false)
	transformIn("winogradTurnedAVX2", filterMatrix, true)
	transformIn("winogradFilter5AVX2", filter5Matrix, false)
	transformIn("winogradTurned5AVX2", filter5Matrix, true)
	transformOut("winogradResultAVX2", resultMatrix)
	transformOut("winogradResult2AVX2", result2Matrix)
	transformOut("winogradTapsAVX2", tapsMatrix)
	halves("tile8x16AVX2", 2)
	halves("tile8x24AVX2", 3)
	shift("shifts8AVX", 8)
	shift("shifts4AVX", 4)
}

// linear multiplies vectors with the rows of a matrix. Its coefficients are vectors in memory.
type linear struct {
	rows      [][]float64
	constants map[float64]Op
}

func newLinear(rows [][]float64) linear {
	l := linear{rows, map[float64]Op{}}
	for _, row := range rows {
		for _, v := range row {
			if v = math.Abs(v); v != 0 && v != 1 {
				l.constants[v] = factorOf(v)
			}
		}
	}
	return l
}

// inRegisters is l with its coefficients in registers.
func (l linear) inRegisters() linear {
	for _, v := range slices.Sorted(maps.Keys(l.constants)) {
		r := YMM()
		VMOVUPS(l.constants[v], r)
		l.constants[v] = r
	}
	return l
}

var factors = map[float64]Mem{}

// factorOf is a vector of v in memory.
func factorOf(v float64) Mem {
	m, ok := factors[v]
	if !ok {
		m = GLOBL(fmt.Sprintf("factor%d", len(factors)), RODATA|NOPTR)
		for i := range lanes {
			DATA(4*i, U32(math.Float32bits(float32(v))))
		}
		factors[v] = m
	}
	return m
}

// row is row i times in.
func (l linear) row(i int, in []VecVirtual) VecVirtual {
	var first, second = -1, -1 // terms that begin the sum: a factor of 1 first, and one of 1 or -1 second
	row := l.rows[i]
	for x, v := range row {
		if v == 1 && first < 0 {
			first = x
		} else if math.Abs(v) == 1 && second < 0 {
			second = x
		}
	}
	sum := YMM()
	switch {
	case first >= 0 && second >= 0:
		plus(row[second], in[second], in[first], sum)
	case first >= 0:
		VMOVAPS(in[first], sum)
	default:
		for first = 0; row[first] == 0; first++ {
		}
		if row[first] < 0 { // 0 - product
			VXORPS(sum, sum, sum)
			VFNMADD231PS(l.constants[-row[first]], in[first], sum)
		} else {
			VMULPS(l.constants[row[first]], in[first], sum)
		}
	}
	for x, v := range row {
		switch {
		case x == first || x == second || v == 0:
		case math.Abs(v) == 1:
			plus(v, in[x], sum, sum)
		case v < 0:
			VFNMADD231PS(l.constants[-v], in[x], sum)
		default:
			VFMADD231PS(l.constants[v], in[x], sum)
		}
	}
	return sum
}

// plus is sum = b + sign*a.
func plus(sign float64, a, b, sum VecVirtual) {
	if sign < 0 {
		VSUBPS(a, b, sum)
	} else {
		VADDPS(a, b, sum)
	}
}

// places are the addresses of eight lanes.
func places(base Register) (at [lanes]GPVirtual) {
	list := Load(Param("lanes"), GP64())
	for i := range at {
		at[i] = GP64()
		MOVQ(Mem{Base: list, Disp: 8 * i}, at[i])
		LEAQ(Mem{Base: base, Index: at[i], Scale: 4}, at[i])
	}
	return at
}

// bytesOf is an argument that counts elements, in bytes.
func bytesOf(name string) Register {
	r := Load(Param(name), GP64())
	SHLQ(U8(2), r)
	return r
}

// transformIn writes a function that computes M x M' of tiles x, with a matrix M of six rows: the 36 results, a vector each, go to dst,
// position elements apart. Of turned tiles the first element is the last. Tiles of three rows have them one behind the other.
func transformIn(name string, matrix [][]float64, turned bool) {
	TEXT(name, NOSPLIT, "func(dst *float32, position int, src *float32, lanes *[8]int, row int, work *[288]float32)")
	src := Load(Param("src"), GP64())
	at := places(src)
	work := Load(Param("work"), GP64())
	m, n := newLinear(matrix), len(matrix[0])
	if n == 6 {
		m = m.inRegisters()
	}
	down := GP64()
	XORQ(down, down)
	row := bytesOf("row")
	if n > 3 {
		count := GP64()
		MOVQ(U32(n), count)
		if turned {
			ADDQ(U32((n-1)*6*32), work)
		}
		Label("rows")
		columns := loadRow(at, down, 0, n)
		if turned {
			slices.Reverse(columns)
		}
		rowIn(m, columns, work, 0)
		ADDQ(row, down)
		if turned {
			SUBQ(U32(6*32), work)
		} else {
			ADDQ(U32(6*32), work)
		}
		DECQ(count)
		JNZ(LabelRef("rows"))
		if turned {
			ADDQ(U32(6*32), work)
		} else {
			SUBQ(U32(n*6*32), work)
		}
	} else {
		for r := range 3 {
			to := r
			if turned {
				to = 2 - r
			}
			back := r / 2 * 4 // nothing is read behind the last row
			columns := loadRow(at, down, -back, 4)[back/4:][:3]
			if turned {
				columns[0], columns[2] = columns[2], columns[0]
			}
			rowIn(m, columns, work, to*6*32)
			ADDQ(row, down)
		}
	}
	dst := Load(Param("dst"), GP64())
	position := bytesOf("position")
	six := GP64()
	LEAQ(Mem{Base: position, Index: position, Scale: 2}, six)
	ADDQ(six, six)
	count := GP64()
	MOVQ(U32(6), count)
	Label("columns")
	in := make([]VecVirtual, n)
	for i := range in {
		in[i] = YMM()
		VMOVUPS(Mem{Base: work, Disp: i * 6 * 32}, in[i])
	}
	to := GP64()
	MOVQ(dst, to)
	for i := range matrix {
		VMOVUPS(m.row(i, in), Mem{Base: to})
		if i < 5 {
			ADDQ(six, to)
		}
	}
	ADDQ(position, dst)
	ADDQ(Imm(32), work)
	DECQ(count)
	JNZ(LabelRef("columns"))
	VZEROUPPER()
	RET()
}

// rowIn writes the six products with a row of tiles.
func rowIn(m linear, columns []VecVirtual, work Register, disp int) {
	for i := range m.rows {
		VMOVUPS(m.row(i, columns), Mem{Base: work, Disp: disp + 32*i})
	}
}

// loadRow reads n elements of the row of each lane and gives them by columns. It reads multiples of four, the last first: so there are
// registers enough. Of five elements it reads none behind them, but the last four and the first four.
func loadRow(at [lanes]GPVirtual, down Register, disp, n int) (columns []VecVirtual) {
	for x := (n - 1) / 4 * 4; x >= 0; x -= 4 {
		back := 0
		if n == 5 && x > 0 {
			back = 3
		}
		var four [4]VecVirtual
		for i := range four {
			four[i] = YMM()
			VMOVUPS(Mem{Base: at[i], Index: down, Scale: 1, Disp: disp + 4*(x-back)}, four[i].AsX())
			VINSERTF128(U8(1), Mem{Base: at[i+4], Index: down, Scale: 1, Disp: disp + 4*(x-back)}, four[i], four[i])
		}
		columns = append(transpose(four, back+n-x)[back:], columns...)
	}
	return columns
}

// transpose exchanges rows and columns of the two 4x4 halves of four vectors, and gives the first n, or two, in these registers and
// two more.
func transpose(a [4]VecVirtual, n int) []VecVirtual {
	left, right := YMM(), YMM()
	VUNPCKLPS(a[1], a[0], left)
	VUNPCKLPS(a[3], a[2], right)
	if n <= 2 {
		VUNPCKLPD(right, left, a[0])
		VUNPCKHPD(right, left, a[1])
		return a[:2]
	}
	VUNPCKHPS(a[1], a[0], a[0])
	VUNPCKHPS(a[3], a[2], a[2])
	VUNPCKLPD(right, left, a[1])
	VUNPCKHPD(right, left, left)
	VUNPCKLPD(a[2], a[0], a[3])
	VUNPCKHPD(a[2], a[0], a[0])
	return []VecVirtual{a[1], left, a[3], a[0]}
}

// transformOut writes a function that computes M x M' of 36 vectors, position elements apart in src, with a matrix M of two to four
// rows. Each lane is a tile of dst, whose rows are row elements apart; rows of three elements lie one behind the other, and get no bias.
func transformOut(name string, matrix [][]float64) {
	n := len(matrix)
	if n != 3 {
		TEXT(name, NOSPLIT, "func(dst *float32, lanes *[8]int, row int, src *float32, position int, bias float32, work *[288]float32)")
	} else {
		TEXT(name, NOSPLIT, "func(dst *float32, lanes *[8]int, src *float32, position int, work *[288]float32)")
	}
	work := Load(Param("work"), GP64())
	m := newLinear(matrix).inRegisters()
	columnsOut(m, work, n)
	dst := Load(Param("dst"), GP64())
	at := places(dst)
	down := GP64()
	XORQ(down, down)
	count := GP64()
	if n != 3 {
		row := bytesOf("row")
		MOVQ(U32(n), count)
		Label("rows")
		storeRow(at, down, resultRow(m, work), n)
		ADDQ(row, down)
		ADDQ(U32(6*32), work)
		DECQ(count)
		JNZ(LabelRef("rows"))
	} else {
		for r := range 3 {
			fourth := YMM()
			VXORPS(fourth, fourth, fourth)
			n := 3 + min(1, 2-r) // the next row writes over an element too many
			storeRow(at, down, append(resultRow(m, work), fourth), n)
			ADDQ(Imm(12), down)
			ADDQ(U32(6*32), work)
		}
	}
	VZEROUPPER()
	RET()
}

// columnsOut writes the products of the matrix with the six columns.
func columnsOut(m linear, work Register, n int) {
	src := Load(Param("src"), GP64())
	position := bytesOf("position")
	six := GP64()
	LEAQ(Mem{Base: position, Index: position, Scale: 2}, six)
	ADDQ(six, six)
	count := GP64()
	MOVQ(U32(6), count)
	Label("columns")
	from := GP64()
	MOVQ(src, from)
	in := make([]VecVirtual, 6)
	for i := range in {
		in[i] = YMM()
		VMOVUPS(Mem{Base: from}, in[i])
		if i < 5 {
			ADDQ(six, from)
		}
	}
	for i := range n {
		VMOVUPS(m.row(i, in), Mem{Base: work, Disp: i * 6 * 32})
	}
	ADDQ(position, src)
	ADDQ(Imm(32), work)
	DECQ(count)
	JNZ(LabelRef("columns"))
	SUBQ(U32(6*32), work)
}

// resultRow is a row of results, by columns.
func resultRow(m linear, work Register) (columns []VecVirtual) {
	in := make([]VecVirtual, 6)
	for i := range in {
		in[i] = YMM()
		VMOVUPS(Mem{Base: work, Disp: 32 * i}, in[i])
	}
	for i := range m.rows {
		columns = append(columns, m.row(i, in))
	}
	if len(columns) != 3 {
		bias := YMM()
		VBROADCASTSS(address("bias"), bias)
		for _, c := range columns {
			VADDPS(bias, c, c)
		}
	}
	return columns
}

// storeRow writes the row of each lane.
func storeRow(at [lanes]GPVirtual, down Register, columns []VecVirtual, n int) {
	if n == 2 {
		storePairs(at, down, columns)
		return
	}
	four := [4]VecVirtual(columns)
	for i, r := range transpose(four, 4) {
		if n == 4 {
			VMOVUPS(r.AsX(), Mem{Base: at[i], Index: down, Scale: 1})
			VEXTRACTF128(U8(1), r, Mem{Base: at[i+4], Index: down, Scale: 1})
			continue
		}
		VMOVLPS(r.AsX(), Mem{Base: at[i], Index: down, Scale: 1})
		VEXTRACTPS(U8(2), r.AsX(), Mem{Base: at[i], Index: down, Scale: 1, Disp: 8})
		VEXTRACTF128(U8(1), r, r.AsX())
		VMOVLPS(r.AsX(), Mem{Base: at[i+4], Index: down, Scale: 1})
		VEXTRACTPS(U8(2), r.AsX(), Mem{Base: at[i+4], Index: down, Scale: 1, Disp: 8})
	}
}

// storePairs writes the two elements of a row of each lane.
func storePairs(at [lanes]GPVirtual, down Register, columns []VecVirtual) {
	high := YMM()
	VUNPCKHPS(columns[1], columns[0], high)
	VUNPCKLPS(columns[1], columns[0], columns[0])
	for i := 0; i < lanes; i += 4 {
		for k, r := range []VecVirtual{columns[0], high} {
			VMOVLPS(r.AsX(), Mem{Base: at[i+2*k], Index: down, Scale: 1})
			VMOVHPS(r.AsX(), Mem{Base: at[i+2*k+1], Index: down, Scale: 1})
			if i == 0 {
				VEXTRACTF128(U8(1), r, r.AsX())
			}
		}
	}
}

// halves writes a micro-kernel of AVX2 for panels of 8 rows: 4 rows of two or three vectors, and then the other 4.
func halves(name string, width int) {
	TEXT(name, NOSPLIT, "func(k int, a, b, c *float32, ld int, alpha float32, add bool)")
	t := tile{rows: 4, panel: 8, width: width, unroll: 4, vectors: ymm, scalars: single}
	t.load()
	count := RDI
	MOVQ(U32(2), count)
	Label("half")
	MOVQ(RAX, R9)
	MOVQ(RBX, R10)
	MOVQ(RCX, R11)
	t.clear()
	t.loop()
	t.store(func() {
		DECQ(count)
		JZ(LabelRef("end"))
		MOVQ(R9, RAX)
		ADDQ(Imm(16), RAX)
		MOVQ(R10, RBX)
		MOVQ(R11, RCX)
		JMP(LabelRef("half"))
	})
	Label("end")
	VZEROUPPER()
	RET()
}

// shift writes shiftsGo (convshiftblock.go) for chunks of so many elements.
func shift(name string, size int) {
	TEXT(name, NOSPLIT, "func(dst *float32, nr int, src *float32, offsets *int, taps int, chunks *int, count int)")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	nr := bytesOf("nr")
	offsets, taps := Load(Param("offsets"), GP64()), Load(Param("taps"), GP64())
	chunks, count := Load(Param("chunks"), GP64()), Load(Param("count"), GP64())
	for _, few := range []int{3, 4} { // a panel is a line of results, or parts of two, as a rule
		CMPQ(count, Imm(uint64(few)))
		JE(LabelRef(fmt.Sprint("chunks", few)))
	}
	Label("tap")
	from, chunk, left, at, to := GP64(), GP64(), GP64(), GP64(), GP64()
	MOVQ(Mem{Base: offsets}, from)
	LEAQ(Mem{Base: src, Index: from, Scale: 4}, from)
	MOVQ(chunks, chunk)
	MOVQ(count, left)
	Label("chunk")
	MOVQ(Mem{Base: chunk}, at)
	MOVQ(Mem{Base: chunk, Disp: 8}, to)
	v := shiftVector(size)
	VMOVUPS(Mem{Base: from, Index: at, Scale: 4}, v)
	VMOVUPS(v, Mem{Base: dst, Index: to, Scale: 4})
	ADDQ(Imm(16), chunk)
	DECQ(left)
	JNZ(LabelRef("chunk"))
	ADDQ(nr, dst)
	ADDQ(Imm(8), offsets)
	DECQ(taps)
	JNZ(LabelRef("tap"))
	VZEROUPPER()
	RET()
	for _, few := range []int{3, 4} {
		shiftFew(few, size, dst, src, nr, offsets, taps, chunks)
	}
}

// shiftFew is the loop for so many chunks, whose places are kept in registers. It stores from left to right, as the one for any number.
func shiftFew(chunks, size int, dst, src, nr, offsets, taps, list Register) {
	Label(fmt.Sprint("chunks", chunks))
	places, values := make([]Register, 2*chunks), make([]Op, chunks)
	for i := range places {
		places[i] = GP64()
		MOVQ(Mem{Base: list, Disp: 8 * i}, places[i])
	}
	from := GP64()
	tap := fmt.Sprint("tapOf", chunks)
	Label(tap)
	MOVQ(Mem{Base: offsets}, from)
	LEAQ(Mem{Base: src, Index: from, Scale: 4}, from)
	for i := range values {
		values[i] = shiftVector(size)
		VMOVUPS(Mem{Base: from, Index: places[2*i], Scale: 4}, values[i])
	}
	for i, v := range values {
		VMOVUPS(v, Mem{Base: dst, Index: places[2*i+1], Scale: 4})
	}
	ADDQ(nr, dst)
	ADDQ(Imm(8), offsets)
	DECQ(taps)
	JNZ(LabelRef(tap))
	VZEROUPPER()
	RET()
}

// shiftVector is a register for a chunk.
func shiftVector(size int) Op {
	switch size {
	case 4:
		return XMM()
	case 8:
		return YMM()
	}
	return ZMM()
}
