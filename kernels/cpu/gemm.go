package cpu

import "github.com/cistern-ml/cistern/device"

// The general product, after Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008), as BLIS has
// refined it. The product is cut into blocks; for each, slices of a and b are packed into panels (pack.go): mr rows of a, or nr
// columns of b, side by side for each step of the sum. The micro-kernel (microkernel.go) multiplies a panel of a with a panel of b
// into a tile of mr x nr results, which it holds in registers. Packing also takes care of strides and of half precision, so the
// kernel sees neither.
//
//	for each block of blockM x blockN results
//	    for each slice of at most blockK steps of the sum
//	        pack the rows of a, and the columns of b     in parallel
//	        for each tile: dst += panel of a * panel of b     in parallel
//
// What is multiplied, matrices (matgemm.go) or a convolution (convgemm.go), differs in how it is packed and in what results begin
// with, and in nothing else. The order of additions for each result is the same wherever it lies and however many goroutines work.

const (
	blockM = 1024 // results of a block; packed operands are blockM*blockK and blockN*blockK elements
	blockN = 2048
	blockK = 288 // the most steps of a slice. A panel of b is blockK*nr elements: it stays in the first-level cache

	taskRows    = 128 // about the results of a task: taskRows*blockK elements of a stay in the second-level cache
	taskColumns = 256
	manyTasks   = 8       // even out processors that are slower than others
	leastTask   = 1 << 17 // multiplications of a task that is cut
)

// gemmOperands are what is multiplied.
type gemmOperands[T float] interface {
	// packJobs is the number of jobs that pack the slice in work, those of a and those of b, and how many of them are worth another
	// goroutine.
	packJobs() (jobs, grain int)
	// pack does jobs lo..hi-1.
	pack(lo, hi int, s *scratch)
	// begins reports whether sums are added to something, and begin sets results of a row of the block, from a column on, to that:
	// to 0 if there is nothing, for empty sums.
	begins() bool
	begin(dst []T, row, column int)
}

// gemm is one product in work, and the memory for it: dst = alpha*a@b plus what results begin with, with dst m by n and k the
// length of the sums.
type gemm[T float] struct {
	access   accessor[T]
	all      *matMulKernels[T]
	operands gemmOperands[T]
	m, n, k  int
	alpha    T
	dst      target
	serial   bool
	pairs    *pairLoops // of steps that are pairs of half precision: gemmpairs.go
	fine     bool       // blocks of few results are cut into narrower tasks: for operands that are dear to pack

	kernel           *microkernel[T] // the one for this product
	direct           bool            // sums on the way stand in dst itself
	block            []T             // or else here: dst has half precision, or its elements lie apart
	packedA, packedB []T

	left, right cut // into panels: rows of the block, and its columns

	i, j, l    int  // the block and the slice in work: first row, column and step
	bm, bn, bk int  // their numbers
	add        bool // there is something in the results that the slice is added to
}

func (g *gemm[T]) multiply() {
	g.kernel = g.all.choose(g.m, g.n)
	joined := g.dst.joined()
	if g.direct = g.access.direct && joined.straight(); g.direct {
		g.dst = joined
	}
	for g.i = 0; g.i < g.m; g.i += blockM {
		for g.j = 0; g.j < g.n; g.j += blockN {
			g.bm, g.bn = min(blockM, g.m-g.i), min(blockN, g.n-g.j)
			g.left, g.right = cut{count: g.bm, width: g.kernel.mr}, cut{count: g.bn, width: g.kernel.nr}
			if g.access.direct || g.pairs != nil { // there are loops that convert panels of full width only
				g.left = g.kernel.cut(g.bm)
			}
			g.multiplyBlock()
		}
	}
}

func (g *gemm[T]) multiplyBlock() {
	if !g.direct {
		g.block = sized(g.block, g.bm*g.bn)
	}
	if g.add = g.operands.begins(); g.add || g.k == 0 {
		g.split(g.bm, max(1, elementGrain/g.bn), (*startJob[T])(g))
	}
	steps := sliceSteps(g.k)
	for g.l = 0; g.l < g.k; g.l += steps {
		g.bk = min(steps, g.k-g.l)
		g.packedA = sized(g.packedA, g.left.rows()*g.bk)
		g.packedB = sized(g.packedB, panels(g.bn, g.kernel.nr)*g.kernel.nr*g.bk)
		jobs, grain := g.operands.packJobs()
		g.split(jobs, grain, (*packJob[T])(g))
		rows, columns := g.tasks()
		g.split(rows*columns, 1, (*tileJob[T])(g))
		g.add = true
	}
	if !g.direct {
		g.split(g.bm, max(1, elementGrain/g.bn), (*finishJob[T])(g))
	}
}

// sliceSteps is how many steps of k a slice has: about the same in all, as one of few steps adds little to the results that it reads and writes.
func sliceSteps(k int) int {
	number := max(1, panels(k, blockK))
	return panels(panels(k, number), packSteps) * packSteps
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

// runs calls f for the pieces of n results of a row of the block, the first of them at a place of dst's grid, that lie in one row of
// the grid: with the piece's address, the number of results before it and its own.
func (g *gemm[T]) runs(row int, at [3]int, n int, f func(p device.Ptr, from, count int)) {
	for from := 0; from < n; {
		count := min(n-from, g.dst.grid[2]-at[2])
		f(g.dst.place(g.i+row, at, g.access.size), from, count)
		from += count
		g.dst.grid.nextRow(&at)
	}
}

// startJob sets rows of results to what they begin with.
type startJob[T float] gemm[T]

func (j *startJob[T]) run(lo, hi int) {
	g := (*gemm[T])(j)
	at := g.dst.grid.at(g.j)
	for ; lo < hi; lo++ {
		if !g.direct {
			g.operands.begin(g.block[lo*g.bn:][:g.bn], lo, 0)
			continue
		}
		g.runs(lo, at, g.bn, func(p device.Ptr, from, count int) { g.operands.begin(slice[T](p, count), lo, from) })
	}
}

// finishJob writes rows of the block to dst.
type finishJob[T float] gemm[T]

func (j *finishJob[T]) run(lo, hi int) {
	g := (*gemm[T])(j)
	first := g.dst.grid.at(g.j)
	for ; lo < hi; lo++ {
		row := g.block[lo*g.bn:][:g.bn]
		at := first
		for len(row) > 0 {
			n := min(len(row), g.dst.grid[2]-at[2])
			g.access.store(g.dst.place(g.i+lo, at, g.access.size), g.dst.stride[2], row[:n])
			row = row[n:]
			g.dst.grid.nextRow(&at)
		}
	}
}

// packJob packs panels.
type packJob[T float] gemm[T]

func (j *packJob[T]) run(lo, hi int) {
	s := takeScratch()
	j.operands.pack(lo, hi, s)
	scratches.Put(s)
}

// tasks is the number of tasks along rows and columns of the block.
func (g *gemm[T]) tasks() (rows, columns int) {
	return panels(g.left.panels(), g.taskPanels()), panels(g.bn, g.taskColumns())
}

// taskPanels is about the panels of rows that a task may have, so that all tasks have the same.
func (g *gemm[T]) taskPanels() int {
	all := g.left.panels()
	return panels(all, panels(all, taskRows/g.kernel.mr))
}

// taskColumns is about the columns that a task may have, fewer where processors would have too few tasks to share.
func (g *gemm[T]) taskColumns() int {
	nr, rows := g.kernel.nr, g.taskPanels()*g.kernel.mr
	if g.fine && g.bm*g.bn < 16*taskRows*taskColumns {
		return 2 * nr
	}
	columns := taskColumns / nr
	for columns > 1 && panels(g.bm, rows)*panels(g.bn, columns*nr) < manyTasks && rows*columns/2*nr*g.bk >= leastTask {
		columns /= 2
	}
	return columns * nr
}

// tileJob computes tasks: blocks of tiles.
type tileJob[T float] gemm[T]

func (j *tileJob[T]) run(lo, hi int) {
	g := (*gemm[T])(j)
	s := takeScratch()
	defer scratches.Put(s)
	_, columns := g.tasks()
	for ; lo < hi; lo++ {
		i, c := lo/columns*g.taskPanels(), lo%columns*g.taskColumns()
		g.task(i, min(i+g.taskPanels(), g.left.panels()), c, min(c+g.taskColumns(), g.bn), s)
	}
}

// task computes the tiles of panels i..iEnd-1 of rows and columns j..jEnd-1. The panel of b is the one that stays.
func (g *gemm[T]) task(i, iEnd, j, jEnd int, s *scratch) {
	nr := g.kernel.nr
	for ; j < jEnd; j += nr {
		b := g.packedB[j*g.bk:]
		at := g.dst.grid.at(g.j + j)
		whole := j+nr <= g.bn && (!g.direct || at[2]+nr <= g.dst.grid[2])
		for p := i; p < iEnd; p++ {
			r, wide := g.left.from(p), g.left.wide(p)
			n := g.left.from(p+1) - r
			a, tile := g.packedA[g.left.at(p)*g.bk:], g.kernel.of(wide)
			switch {
			case whole && n == wide && g.direct:
				out := slice[T](g.dst.place(g.i+r, at, g.access.size), 1)
				tile(g.bk, &a[0], &b[0], &out[0], g.dst.row, g.alpha, g.add)
			case whole && n == wide:
				tile(g.bk, &a[0], &b[0], &g.block[r*g.bn+j], g.bn, g.alpha, g.add)
			default:
				t := scratchBuffer[T](s, 0, wide*nr)
				tile(g.bk, &a[0], &b[0], &t[0], nr, g.alpha, false)
				g.putTile(t, r, n, j, at)
			}
		}
	}
}

// putTile adds a tile of some rows, or sets it, that reaches over the end of the block or of a run; its first column is at.
func (g *gemm[T]) putTile(t []T, i, rows, j int, at [3]int) {
	nr := g.kernel.nr
	n := min(nr, g.bn-j)
	for r := range rows {
		row := t[r*nr:][:n]
		switch {
		case !g.direct:
			putRow(g.block[(i+r)*g.bn+j:][:n], row, g.add)
		case at[2]+n <= g.dst.grid[2]:
			putRow(slice[T](g.dst.place(g.i+i+r, at, g.access.size), n), row, g.add)
		default:
			g.runs(i+r, at, n, func(p device.Ptr, from, count int) { putRow(slice[T](p, count), row[from:][:count], g.add) })
		}
	}
}

func putRow[T float](out, row []T, add bool) {
	if !add {
		copy(out, row)
		return
	}
	for x := range out {
		out[x] += row[x]
	}
}
