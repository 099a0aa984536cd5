package cpu

import "sync"

// Products of half precision by an instruction that adds the products of two elements at once to a sum of float32: twice as many in the same time, or sixteen times
// as many by tiles. Panels have pairs in the place of elements, so that all else is as for products of float32 with half of the steps. Numbers of bfloat16 below the
// normal ones count as 0, and each sum is rounded to the nearest.

const (
	leastPaired = 32 // steps of a sum
	halfSize    = 2
)

// pairLoops are the micro-kernels for pairs of a type.
type pairLoops struct {
	matMulKernels[float32]

	// tiles: the left operand's panels have the first packSteps pairs of each row side by side, then the next ones, and panels have a multiple of so many pairs,
	// with zeros beyond those that there are.
	tiles bool
}

// pairKernels are those for each type, and pairRows puts n elements, 32 at most, of two rows together to pairs, count times; rows are ld elements apart,
// width places of dst are written, and 0 beyond n. They are nil where the processor has no instructions for them.
var (
	pairKernels [brainHalf + 1]*pairLoops
	pairRows    func(count int, dst *float32, width int, src *uint16, ld, n int)
)

// pairsOf is the way to compute p, of operands of a type, by pairs: where they lie in memory, or two rows side by side. It is nil if there is none.
func pairsOf[T float](h half, p *product[T]) *pairLoops {
	if loops := pairKernels[h]; loops != nil && p.k >= leastPaired && p.k%2 == 0 && pairable(p.a) && pairable(p.b.transposed()) {
		return loops
	}
	return nil
}

var pairGemms = sync.Pool{New: func() any { return newMatGemm(wordAccessor[float32]()) }}

// multiplyPairs computes p, whose operands have a type of half precision and whose result is float32, if it is one of pairs.
func multiplyPairs(h half, p *product[float32]) bool {
	loops := pairsOf(h, p)
	if loops == nil {
		return false
	}
	if p.dst.step != 1 && p.dst.row == 1 {
		*p = p.transposed()
	}
	g := pairGemms.Get().(*matGemm[float32])
	g.compute(p, 2*p.m*p.n*p.k < serialFlops, loops)
	pairGemms.Put(g)
	return true
}

// pairable reports whether the steps of a's rows are pairs in memory, or its rows lie side by side.
func pairable(a matrix) bool {
	return a.row == 1 && a.step > 1 || a.step == 1 && a.row%2 == 0 && a.row > 2
}

// pairJob is one of the jobs of packing pairs, of some rows.
type pairJob struct {
	loops *pairLoops
	left  bool // operand
	rows  *cut
	job   int
	k     int // pairs of a panel
	there int // those that are not beyond the operands' end
}

// run packs pairs of a into dst.
func (j *pairJob) run(dst []float32, a matrix, s *scratch) {
	switch {
	case a.row == 1 && j.left && j.loops.tiles:
		j.tilesOfColumns(dst, a, s)
	case a.row == 1:
		j.columns(dst, a)
	case j.left && j.loops.tiles:
		j.tileRows(dst, a)
	default: // pairs are moved as elements of float32
		words, at := wordAccessor[float32](), j.rows.at(j.job)
		pack(&words, dst[at*(j.k-j.there):], matrix{a.ptr, a.row / 2, 1}, j.job, j.rows, j.there, &j.loops.pack, s)
		clear(dst[at*j.k:][:j.rows.wide(j.job)*j.k][j.rows.wide(j.job)*j.there:])
	}
}

// steps are those that a job packs of all panels, and how many of them there are.
func (j *pairJob) steps() (first, count, there int) {
	first = j.job * packSteps
	count = min(packSteps, j.k-first)
	return first, count, max(0, min(count, j.there-first))
}

// columns packs some steps of all panels, whose elements of a step lie side by side.
func (j *pairJob) columns(dst []float32, a matrix) {
	first, count, there := j.steps()
	for p := range j.rows.panels() {
		i, width := j.rows.from(p), j.rows.wide(p)
		to := dst[j.rows.at(p)*j.k+first*width:][:count*width]
		if there > 0 {
			pairRows(there, &to[0], width, &slice[uint16](a.at(i, 2*first, halfSize).ptr, 1)[0], a.step, j.rows.from(p+1)-i)
		}
		clear(to[there*width:])
	}
}

// tilesOfColumns is columns for tiles: pairs of a step lie side by side, and are turned to lie by rows.
func (j *pairJob) tilesOfColumns(dst []float32, a matrix, s *scratch) {
	first, _, there := j.steps()
	const width = 32
	turned := scratchBuffer[float32](s, 0, packSteps*width)
	for p := range j.rows.panels() {
		i := j.rows.from(p)
		if there > 0 {
			pairRows(there, &turned[0], width, &slice[uint16](a.at(i, 2*first, halfSize).ptr, 1)[0], a.step, j.rows.from(p+1)-i)
		}
		clear(turned[there*width:])
		j.loops.pack.sixteen(width, &dst[j.rows.at(p)*j.k+first*width], packSteps, &turned[0], width, 0, 1<<packSteps-1)
	}
}

// tileRows packs a panel of rows in which pairs lie side by side.
func (j *pairJob) tileRows(dst []float32, a matrix) {
	i, width := j.rows.from(j.job), j.rows.wide(j.job)
	n := j.rows.from(j.job+1) - i
	panel := dst[j.rows.at(j.job)*j.k:][:width*j.k]
	for r := range n {
		row := slice[float32](a.at(i+r, 0, halfSize).ptr, j.there)
		for to := panel[r*packSteps:]; ; to = to[width*packSteps:] {
			if len(row) < packSteps {
				clear(to[copy(to[:packSteps], row):packSteps])
				break
			}
			*(*[packSteps]float32)(to) = *(*[packSteps]float32)(row)
			if row = row[packSteps:]; len(row) == 0 {
				break
			}
		}
	}
	for ; n < width && len(panel) > 0; panel = panel[width*packSteps:] {
		clear(panel[n*packSteps : width*packSteps])
	}
}
