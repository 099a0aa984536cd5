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
	g.compute(p, serial, g.access.half == brainHalf && arePairs(p))
}

// compute computes p, of pairs of bfloat16 if it is said so.
func (g *matGemm[T]) compute(p *product[T], serial, pairs bool) {
	g.product, g.serial = *p, serial
	g.m, g.n, g.k, g.alpha = p.m, p.n, p.k, p.alpha
	if g.all, g.pairs = matMulKernelsOf[T](), pairs; pairs {
		g.all, g.k = any(pairKernels).(*matMulKernels[T]), p.k/2
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
	if g.pairs {
		l, size = 2*l, brainSize
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
			g.packOne(g.packedA, a, lo, &g.left, s)
		} else {
			g.packOne(g.packedB, b, lo-jobsA, &g.right, s)
		}
	}
}

func (g *matGemm[T]) packOne(dst []T, a matrix, job int, rows *cut, s *scratch) {
	if g.pairs {
		packPairs(any(dst).([]float32), a, job, rows, g.bk, s)
	} else {
		pack(&g.access, dst, a, job, rows, g.bk, &g.all.pack, s)
	}
}
