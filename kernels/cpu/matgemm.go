package cpu

// matGemm is a product of matrices in work.
type matGemm[T float] struct {
	gemm[T]
	product product[T]
}

func newMatGemm[T float](l accessor[T]) *matGemm[T] {
	g := &matGemm[T]{gemm: gemm[T]{access: l, all: matMulKernelsOf[T]()}}
	g.operands = g
	return g
}

func (g *matGemm[T]) multiply(p *product[T], serial bool) {
	g.compute(p, serial, pairsOf(g.access.half, p))
}

// compute computes p, by pairs if there are loops for them.
func (g *matGemm[T]) compute(p *product[T], serial bool, pairs *pairLoops) {
	g.product, g.serial = *p, serial
	g.m, g.n, g.k, g.alpha = p.m, p.n, p.k, p.alpha
	if g.all, g.pairs = matMulKernelsOf[T](), pairs; pairs != nil {
		g.all, g.k = any(&pairs.matMulKernels).(*matMulKernels[T]), p.k/2
		if pairs.tiles {
			g.k = panels(g.k, packSteps) * packSteps
		}
	}
	g.dst = target{ptr: p.dst.ptr, row: p.dst.row, grid: grid{1, 1, p.n}, stride: [3]int{2: p.dst.step}}
	g.gemm.multiply()
}

func (g *matGemm[T]) begins() bool { return g.product.beta != 0 }

func (g *matGemm[T]) begin(dst []T, row, column int) {
	if g.product.beta == 0 {
		clear(dst)
		return
	}
	c := g.product.c.at(g.i+row, g.j+column, g.access.size)
	g.access.load(dst, c.ptr, c.step)
	if g.product.beta != 1 {
		for i := range dst {
			dst[i] *= g.product.beta
		}
	}
}

// slices are the steps of a and of b in work, from the block's first row and column on; both have rows of steps.
func (g *matGemm[T]) slices() (a, b matrix) {
	l, size := g.l, g.access.size
	if g.pairs != nil {
		l, size = 2*l, halfSize
	}
	return g.product.a.at(g.i, l, size), g.product.b.at(l, g.j, size).transposed()
}

func (g *matGemm[T]) packJobs() (jobs, grain int) {
	a, b := g.slices()
	return packJobs(&a, &g.left, g.bk) + packJobs(&b, &g.right, g.bk), 4
}

func (g *matGemm[T]) pack(lo, hi int, s *scratch) {
	a, b := g.slices()
	jobsA := packJobs(&a, &g.left, g.bk)
	for ; lo < hi; lo++ {
		if lo < jobsA {
			g.packOne(g.packedA, a, lo, &g.left, true, s)
		} else {
			g.packOne(g.packedB, b, lo-jobsA, &g.right, false, s)
		}
	}
}

func (g *matGemm[T]) packOne(dst []T, a matrix, job int, rows *cut, left bool, s *scratch) {
	if g.pairs == nil {
		pack(&g.access, dst, a, job, rows, g.bk, &g.all.pack, s)
		return
	}
	j := pairJob{loops: g.pairs, left: left, rows: rows, job: job, k: g.bk, there: min(g.bk, g.product.k/2-g.l)}
	j.run(any(dst).([]float32), a, s)
}
