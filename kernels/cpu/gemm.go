package cpu

import "github.com/cistern-ml/cistern/device"

// The general matrix product, after Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008), as
// BLIS has refined it. The product is cut into blocks; for each, slices of a and b are packed into panels (pack.go): mr rows
// of a, or nr columns of b, side by side for each step of the sum. The micro-kernel (microkernel.go) multiplies a panel of a
// with a panel of b into a tile of mr x nr results, which it holds in registers. Packing also takes care of strides and of
// half precision, so the kernel sees neither.
//
//	for each block of blockM x blockN results
//	    for each slice of blockK steps of the sum
//	        pack the rows of a, and the columns of b     in parallel
//	        for each tile: dst += panel of a * panel of b     in parallel
//
// The order of additions for each result is the same wherever it lies and however many goroutines work.

const (
	blockM = 1024 // results of a block; packed operands are blockM*blockK and blockN*blockK elements
	blockN = 2048
	blockK = 256 // a panel of b is blockK*nr elements: it stays in the first-level cache

	taskRows    = 128 // about the results of a task: taskRows*blockK elements of a stay in the second-level cache
	taskColumns = 256
)

// gemm is one product in work, and the memory for it.
type gemm[T float] struct {
	access accessor[T]
	all    *matMulKernels[T]
	kernel *microkernel[T] // the one for this product
	serial bool

	product[T]
	packedA, packedB []T
	block            []T // results, where dst cannot hold sums on the way: half precision, or elements apart

	// the block and slice in work
	i, j, l int // first row, column and step
	m, n, k int // their numbers
	out     []T // results of the block; out[0] is the first
	ld      int // distance of their rows
}

func (g *gemm[T]) multiply(p *product[T], serial bool) {
	g.product, g.serial, g.kernel = *p, serial, g.all.choose(p.m, p.n)
	for g.i = 0; g.i < p.m; g.i += blockM {
		for g.j = 0; g.j < p.n; g.j += blockN {
			g.m, g.n = min(blockM, p.m-g.i), min(blockN, p.n-g.j)
			g.multiplyBlock()
		}
	}
	g.out = nil
}

func (g *gemm[T]) multiplyBlock() {
	direct := g.access.direct && g.dst.step == 1 && g.dst.row >= 0
	if direct {
		g.ld = g.dst.row
		g.out = slice[T](g.at(&g.dst, 0, 0), (g.m-1)*g.ld+g.n)
	} else {
		g.ld = g.n
		g.block = sized(g.block, g.m*g.n)
		g.out = g.block
	}
	if g.beta != 0 || g.product.k == 0 {
		g.split(g.m, max(1, elementGrain/g.n), (*startJob[T])(g))
	}
	for g.l = 0; g.l < g.product.k; g.l += blockK {
		g.k = min(blockK, g.product.k-g.l)
		g.packedA = sized(g.packedA, panels(g.m, g.kernel.mr)*g.kernel.mr*g.k)
		g.packedB = sized(g.packedB, panels(g.n, g.kernel.nr)*g.kernel.nr*g.k)
		jobsA, jobsB := g.packJobs()
		g.split(jobsA+jobsB, 4, (*packJob[T])(g))
		rows, columns := g.tasks()
		g.split(rows*columns, 1, (*tileJob[T])(g))
	}
	if !direct {
		g.split(g.m, max(1, elementGrain/g.n), (*finishJob[T])(g))
	}
}

// at is the address of the element of row i and column j of the block in a or dst.
func (g *gemm[T]) at(a *matrix, i, j int) device.Ptr {
	return offset(a.ptr, (g.i+i)*a.row+(g.j+j)*a.step, g.access.size)
}

func (g *gemm[T]) split(n, grain int, j job) {
	if g.serial {
		j.run(0, n)
		return
	}
	split(n, grain, j)
}

// panels is the number of panels of width elements.
func panels(n, width int) int { return (n + width - 1) / width }

// sized is memory for n elements: s if it is large enough. What is in it is undefined.
func sized[T any](s []T, n int) []T {
	if watch != nil {
		return watched[T](n)
	}
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// startJob sets rows of results to beta*c, or to 0 where the sum is empty.
type startJob[T float] gemm[T]

func (j *startJob[T]) run(lo, hi int) {
	g := (*gemm[T])(j)
	for ; lo < hi; lo++ {
		row := g.out[lo*g.ld:][:g.n]
		if g.beta == 0 {
			clear(row)
			continue
		}
		g.access.load(row, g.at(&g.c, lo, 0), g.c.step)
		for i := range row {
			row[i] *= g.beta
		}
	}
}

// finishJob writes rows of results to dst.
type finishJob[T float] gemm[T]

func (j *finishJob[T]) run(lo, hi int) {
	g := (*gemm[T])(j)
	for ; lo < hi; lo++ {
		g.access.store(g.at(&g.dst, lo, 0), g.dst.step, g.out[lo*g.ld:][:g.n])
	}
}

// packJobs is the number of packing jobs for a and for b.
func (g *gemm[T]) packJobs() (a, b int) {
	right := g.b.transposed()
	return packJobs(&g.a, g.m, g.kernel.mr, g.k), packJobs(&right, g.n, g.kernel.nr, g.k)
}

// packJob does packing jobs: those for a, then those for b.
type packJob[T float] gemm[T]

func (j *packJob[T]) run(lo, hi int) {
	g := (*gemm[T])(j)
	jobsA, _ := g.packJobs()
	a := g.a.at(g.i, g.l, g.access.size)
	b := g.b.at(g.l, g.j, g.access.size).transposed()
	s := takeScratch()
	defer scratches.Put(s)
	for ; lo < hi; lo++ {
		if lo < jobsA {
			pack(&g.access, g.packedA, a, lo, g.m, g.kernel.mr, g.k, g.all.pack, s)
		} else {
			pack(&g.access, g.packedB, b, lo-jobsA, g.n, g.kernel.nr, g.k, g.all.pack, s)
		}
	}
}

// tasks is the number of tasks along rows and columns of the block.
func (g *gemm[T]) tasks() (rows, columns int) {
	return panels(g.m, g.taskRows()), panels(g.n, g.taskColumns())
}

func (g *gemm[T]) taskRows() int    { return taskRows / g.kernel.mr * g.kernel.mr }
func (g *gemm[T]) taskColumns() int { return taskColumns / g.kernel.nr * g.kernel.nr }

// tileJob computes tasks: blocks of tiles.
type tileJob[T float] gemm[T]

func (j *tileJob[T]) run(lo, hi int) {
	g := (*gemm[T])(j)
	s := takeScratch()
	defer scratches.Put(s)
	_, columns := g.tasks()
	for ; lo < hi; lo++ {
		i, c := lo/columns*g.taskRows(), lo%columns*g.taskColumns()
		g.task(i, min(i+g.taskRows(), g.m), c, min(c+g.taskColumns(), g.n), s)
	}
}

// task computes the tiles of rows i..iEnd-1 and columns j..jEnd-1. The panel of b is the one that stays.
func (g *gemm[T]) task(i, iEnd, j, jEnd int, s *scratch) {
	mr, nr := g.kernel.mr, g.kernel.nr
	add := g.l > 0 || g.beta != 0
	for ; j < jEnd; j += nr {
		b := g.packedB[j*g.k:]
		for r := i; r < iEnd; r += mr {
			a := g.packedA[r*g.k:]
			if r+mr <= g.m && j+nr <= g.n {
				g.kernel.tile(g.k, &a[0], &b[0], &g.out[r*g.ld+j], g.ld, g.alpha, add)
				continue
			}
			t := scratchBuffer[T](s, 0, mr*nr)
			g.kernel.tile(g.k, &a[0], &b[0], &t[0], nr, g.alpha, false)
			g.putTile(t, r, j, add)
		}
	}
}

// putTile adds a tile, or sets it, that reaches over the end of the block.
func (g *gemm[T]) putTile(t []T, i, j int, add bool) {
	nr := g.kernel.nr
	n := min(nr, g.n-j)
	for r := range min(g.kernel.mr, g.m-i) {
		out, row := g.out[(i+r)*g.ld+j:][:n], t[r*nr:][:n]
		if !add {
			copy(out, row)
			continue
		}
		for x := range out {
			out[x] += row[x]
		}
	}
}
