package cpu

import (
	"github.com/cistern-ml/cistern/device"
)

// A convolution as a product of matrices that are never formed ("implicit GEMM"): the blocks, panels and micro-kernels are those
// of gemm.go, but the panels are packed straight from the image. For the result and for the gradient of the image
//
//	dst[output, place] = bias[output] + sum over (channel, tap) of kernel[output, (channel, tap)] * image[(channel, tap), place]
//
// where places are those of all images. For the gradient of the kernel the sum is over places:
//
//	dst[output, (channel, tap)] = sum over places of gradient[output, place] * image[(channel, tap), place]
//
// The memory taken is that of packed panels, blockM*blockK and blockN*blockK elements, whatever the size of the images.

// taps is the kernel as a matrix: rows are dst's channels, steps are (channel, tap).
type taps struct {
	ptr                        device.Ptr
	row, channel, down, across int // distances in elements
}

// convGemm is one product in work, and the memory for it.
type convGemm[T float] struct {
	access accessor[T]
	all    *matMulKernels[T]
	kernel *microkernel[T]
	serial bool

	overPlaces bool // the sum is over places: the gradient of the kernel
	m, n, k    int
	image      patch[T]
	kernels    taps     // unless overPlaces
	gradient   patch[T] // if overPlaces
	bias       []T      // of m elements, or nil
	dst        target

	packedA, packedB []T
	block            []T // results of a block, where dst cannot hold sums on the way
	direct           bool
	i, j, l          int // the block and the slice in work: first row, column and step
	bm, bn, bk       int // their numbers
}

func (g *convGemm[T]) multiply() {
	g.kernel = g.all.choose(g.m, g.n)
	if joined := g.dst.joined(); g.access.direct && joined.straight() {
		g.direct, g.dst = true, joined
	} else {
		g.direct = false
	}
	for g.i = 0; g.i < g.m; g.i += blockM {
		for g.j = 0; g.j < g.n; g.j += blockN {
			g.bm, g.bn = min(blockM, g.m-g.i), min(blockN, g.n-g.j)
			g.multiplyBlock()
		}
	}
}

func (g *convGemm[T]) multiplyBlock() {
	if !g.direct {
		g.block = sized(g.block, g.bm*g.bn)
	}
	if g.starts() {
		g.split(g.bm, max(1, elementGrain/g.bn), (*convStartJob[T])(g))
	}
	for g.l = 0; g.l < g.k; g.l += blockK {
		g.bk = min(blockK, g.k-g.l)
		g.packedA = sized(g.packedA, panels(g.bm, g.kernel.mr)*g.kernel.mr*g.bk)
		g.packedB = sized(g.packedB, panels(g.bn, g.kernel.nr)*g.kernel.nr*g.bk)
		g.split(panels(g.bm, g.kernel.mr)+panels(g.bn, g.kernel.nr), 2, (*convPackJob[T])(g))
		rows, columns := g.tasks()
		g.split(rows*columns, 1, (*convTileJob[T])(g))
	}
	if !g.direct {
		g.split(g.bm, max(1, elementGrain/g.bn), (*convFinishJob[T])(g))
	}
}

func (g *convGemm[T]) split(n, grain int, j job) {
	if g.serial {
		j.run(0, n)
		return
	}
	split(n, grain, j)
}

// starts reports whether results begin with something else than the first slice of the sum.
func (g *convGemm[T]) starts() bool { return g.bias != nil || g.k == 0 }

// convStartJob sets rows of the block to their bias, or to 0.
type convStartJob[T float] convGemm[T]

func (j *convStartJob[T]) run(lo, hi int) {
	g := (*convGemm[T])(j)
	for ; lo < hi; lo++ {
		var v T
		if g.bias != nil {
			v = g.bias[g.i+lo]
		}
		if !g.direct {
			fillSlice(g.block[lo*g.bn:][:g.bn], v)
			continue
		}
		g.runs(lo, 0, g.bn, func(dst []T, _ int) { fillSlice(dst, v) })
	}
}

// runs calls f for the runs of memory of n columns, from column j on, of a row of the block, and where each begins.
func (g *convGemm[T]) runs(row, j, n int, f func(dst []T, from int)) {
	at := g.dst.grid.at(g.j + j)
	for from := 0; from < n; {
		count := min(n-from, g.dst.grid[2]-at[2])
		f(slice[T](g.dst.place(g.i+row, at, g.access.size), count), from)
		from += count
		g.dst.grid.nextRow(&at)
	}
}

// convFinishJob writes rows of the block to dst.
type convFinishJob[T float] convGemm[T]

func (j *convFinishJob[T]) run(lo, hi int) {
	g := (*convGemm[T])(j)
	for ; lo < hi; lo++ {
		row := g.block[lo*g.bn:][:g.bn]
		at := g.dst.grid.at(g.j)
		for len(row) > 0 {
			n := min(len(row), g.dst.grid[2]-at[2])
			g.access.store(g.dst.place(g.i+lo, at, g.access.size), g.dst.stride[2], row[:n])
			row = row[n:]
			g.dst.grid.nextRow(&at)
		}
	}
}

// tasks is the number of tasks along rows and columns of the block. Small blocks are cut finer, to have work for all.
func (g *convGemm[T]) tasks() (rows, columns int) {
	return panels(g.bm, g.taskRows()), panels(g.bn, g.taskColumns())
}

func (g *convGemm[T]) taskRows() int { return max(1, taskRows/g.kernel.mr) * g.kernel.mr }

func (g *convGemm[T]) taskColumns() int {
	nr := g.kernel.nr
	if g.bm*g.bn < 16*taskRows*taskColumns {
		return 2 * nr
	}
	return taskColumns / nr * nr
}

// convTileJob computes tasks: blocks of tiles.
type convTileJob[T float] convGemm[T]

func (j *convTileJob[T]) run(lo, hi int) {
	g := (*convGemm[T])(j)
	s := takeScratch()
	defer scratches.Put(s)
	_, columns := g.tasks()
	for ; lo < hi; lo++ {
		i, c := lo/columns*g.taskRows(), lo%columns*g.taskColumns()
		g.task(i, min(i+g.taskRows(), g.bm), c, min(c+g.taskColumns(), g.bn), s)
	}
}

// task computes the tiles of rows i..iEnd-1 and columns j..jEnd-1. The panel of the image is the one that stays.
func (g *convGemm[T]) task(i, iEnd, j, jEnd int, s *scratch) {
	mr, nr := g.kernel.mr, g.kernel.nr
	add := g.l > 0 || g.starts()
	for ; j < jEnd; j += nr {
		b := g.packedB[j*g.bk:]
		at := g.dst.grid.at(g.j + j)
		whole := j+nr <= g.bn && (!g.direct || at[2]+nr <= g.dst.grid[2])
		for r := i; r < iEnd; r += mr {
			a := g.packedA[r*g.bk:]
			switch {
			case whole && r+mr <= g.bm && g.direct:
				out := slice[T](g.dst.place(g.i+r, at, g.access.size), 1)
				g.kernel.tile(g.bk, &a[0], &b[0], &out[0], g.dst.row, 1, add)
			case whole && r+mr <= g.bm:
				g.kernel.tile(g.bk, &a[0], &b[0], &g.block[r*g.bn+j], g.bn, 1, add)
			default:
				t := scratchBuffer[T](s, 0, mr*nr)
				g.kernel.tile(g.bk, &a[0], &b[0], &t[0], nr, 1, false)
				g.putTile(t, r, j, add)
			}
		}
	}
}

// putTile adds a tile, or sets it, that reaches over the end of the block or of an image.
func (g *convGemm[T]) putTile(t []T, i, j int, add bool) {
	nr := g.kernel.nr
	n := min(nr, g.bn-j)
	for r := range min(g.kernel.mr, g.bm-i) {
		row := t[r*nr:][:n]
		put := func(out []T, from int) {
			if !add {
				copy(out, row[from:])
				return
			}
			for x, v := range row[from:][:len(out)] {
				out[x] += v
			}
		}
		if g.direct {
			g.runs(i+r, j, n, put)
		} else {
			put(g.block[(i+r)*g.bn+j:][:n], 0)
		}
	}
}
