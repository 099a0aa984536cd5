package cpu

import "sync"

// Products of bfloat16 by an instruction that adds the products of two elements at once to a sum of float32: twice as many in the same time. Panels have pairs in
// the place of elements, so that all else is as for products of float32 with half of the steps. Numbers below the normal ones count as 0, and each sum is rounded
// to the nearest.

const (
	leastPaired = 32 // steps of a sum
	brainSize   = 2
)

// pairKernels are the micro-kernels for pairs, and pairRows puts n elements, 32 at most, of two rows together to pairs, count times; rows are ld elements apart,
// width places of dst are written, and 0 beyond n. Both are nil where the processor has no instructions for them.
var (
	pairKernels *matMulKernels[float32]
	pairRows    func(count int, dst *float32, width int, src *uint16, ld, n int)
)

// arePairs reports whether p, of operands of bfloat16, is computed so: where pairs lie in memory, or two rows side by side.
func arePairs[T float](p *product[T]) bool {
	return pairKernels != nil && p.k >= leastPaired && p.k%2 == 0 && pairable(p.a) && pairable(p.b.transposed())
}

var pairGemms = sync.Pool{New: func() any { return newMatGemm(wordAccessor[float32]()) }}

// multiplyPairs computes p, whose operands are bfloat16 and whose result is float32, if it is one of pairs.
func multiplyPairs(p *product[float32]) bool {
	if !arePairs(p) {
		return false
	}
	if p.dst.step != 1 && p.dst.row == 1 {
		*p = p.transposed()
	}
	g := pairGemms.Get().(*matGemm[float32])
	g.compute(p, 2*p.m*p.n*p.k < serialFlops, true)
	pairGemms.Put(g)
	return true
}

// pairable reports whether the steps of a's rows are pairs in memory, or its rows lie side by side.
func pairable(a matrix) bool {
	return a.row == 1 && a.step > 1 || a.step == 1 && a.row%2 == 0 && a.row > 2
}

// packPairs does one of the jobs of packing k pairs.
func packPairs(dst []float32, a matrix, job int, rows *cut, k int, s *scratch) {
	if a.row != 1 { // pairs are moved as elements of float32
		words := wordAccessor[float32]()
		pack(&words, dst, matrix{a.ptr, a.row / 2, 1}, job, rows, k, &pairKernels.pack, s)
		return
	}
	first := job * packSteps
	end := min(first+packSteps, k)
	for p := range rows.panels() {
		i, width := rows.from(p), rows.wide(p)
		n := rows.from(p+1) - i
		pairRows(end-first, &dst[rows.at(p)*k+first*width], width, &slice[uint16](a.at(i, 2*first, brainSize).ptr, 1)[0], a.step, n)
	}
}
