package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// The gradient of the kernel by Winograd's convolution: each element is the sum, over tiles of the gradient of 4x4, of the 3x3 places
// where the tile meets the patch of the image that it came from:
//
//	dst = A' [ sum over tiles of (G tile G') * (B' patch B) ] A
//
// The sums are 36 products of matrices, [outputs, tiles] times [tiles, channels]. Tiles are taken some at a time, for which both
// factors are transformed in parallel over tiles and channels; their products are added to what those before have given.

const (
	winogradSums  = 2 << 20 // elements of transformed gradients and patches that are kept together
	winogradChunk = 32      // tiles that a worker transforms, of 8 channels
)

// winogradWeight is one gradient of kernels in work, for one group.
type winogradWeight struct {
	kernels           *winogradKernels
	tile              *microkernel[float32]
	patches           winogradPatches // of the image
	gradients         winogradPatches
	channels, outputs int
	weights           winogradWeights

	images, outs, sums matrices36 // patches, tiles of the gradient, and their products
	first, count       int        // the tiles in work
	tiles              int
}

var winogradWeightPool = sync.Pool{New: func() any { return &winogradWeight{kernels: &winogradLoops} }}

func winogradWeightCall(l accessor[float32], v *op.Convolution) {
	g := winogradWeightPool.Get().(*winogradWeight)
	k, h, w := v.Kernel.Strides, v.Result.Shape[2], v.Result.Shape[3]
	g.channels, g.outputs = v.Channels, v.Outputs
	for group := range v.Groups {
		g.patches = patchesOf(l, v.Image, group*v.Channels, [2]int{h, w}, [2]int{-v.Padding[0], -v.Padding[1]}, 6, 4)
		g.gradients = patchesOf(l, v.Result, group*v.Outputs, [2]int{h, w}, [2]int{}, 4, 4)
		g.weights = winogradWeights{
			access: l, ptr: offset(v.Kernel.Ptr, group*v.Outputs*k[0], l.size), row: k[0], channel: k[1], down: k[2], across: k[3],
		}
		g.compute()
	}
	winogradWeightPool.Put(g)
}

func (g *winogradWeight) compute() {
	g.tile = g.kernels.choose(g.channels)
	g.tiles = g.patches.grid.len()
	most := max(winogradChunk, winogradSums/winogradPositions/(g.rows()+g.columns())/winogradChunk*winogradChunk)
	for g.first = 0; g.first < g.tiles; g.first += most {
		g.count = min(most, g.tiles-g.first)
		g.images.resize(g.columns() * g.count)
		g.outs.resize(g.rows() * g.count)
		chunks := panels(g.count, winogradChunk)
		split(chunks*(panels(g.channels, winogradLanes)+panels(g.outputs, winogradLanes)), 1, (*winogradFactorJob)(g))
		if g.count == g.tiles {
			split(panels(g.outputs, winogradRows), 1, (*winogradTapsJob)(g))
			return
		}
		if g.first == 0 {
			g.sums.resize(g.rows() * g.columns())
		}
		split(winogradPositions, 1, (*winogradProductJob)(g))
	}
	split(panels(g.outputs, winogradLanes), 1, (*winogradFinishJob)(g))
}

func (g *winogradWeight) rows() int    { return panels(g.outputs, g.tile.mr) * g.tile.mr }
func (g *winogradWeight) columns() int { return panels(g.channels, g.tile.nr) * g.tile.nr }

// winogradFactorJob transforms chunks of tiles, eight channels at a time: patches, and then gradients.
type winogradFactorJob winogradWeight

func (j *winogradFactorJob) run(lo, hi int) {
	g := (*winogradWeight)(j)
	w := takeWinogradWorker()
	defer winogradWorkers.Put(w)
	images, outputs := panels(g.channels, winogradLanes), panels(g.outputs, winogradLanes)
	for ; lo < hi; lo++ {
		chunk, part := lo/(images+outputs), lo%(images+outputs)
		if part < images {
			g.factors(w, &g.patches, &g.images, g.kernels.image, chunk, part*winogradLanes, g.channels, g.tile.nr)
		} else {
			g.factors(w, &g.gradients, &g.outs, g.kernels.gradient, chunk, (part-images)*winogradLanes, g.outputs, g.tile.mr)
		}
	}
}

// factors transforms the tiles of a chunk, of eight channels, to a panel of width channels.
func (g *winogradWeight) factors(w *winogradWorker, s *winogradPatches, to *matrices36, f winogradIn, chunk, channel, channels, width int) {
	first := chunk * winogradChunk
	count := min(winogradChunk, g.count-first)
	w.plan.make(s, g.first+first, count)
	size := w.plan.size | 15
	w.buffer = sized(w.buffer, winogradLanes*size)
	clear(w.buffer)
	for i := range w.lanes {
		w.lanes[i] = i * size
		if channel+i < channels {
			w.plan.copy(s, w.buffer[i*size:][:size], channel+i)
		}
	}
	for t := range count {
		dst := to.at(0, channel/width*width*g.count+(first+t)*width+channel%width)
		f(dst, to.position, &w.buffer[w.plan.at[t]], &w.lanes, w.plan.row, &w.work)
	}
}

// product adds the products at a position, for rows outputs from panel first on.
func (g *winogradWeight) product(sums *matrices36, p, first, rows int, add bool) {
	mr, nr, n, columns := g.tile.mr, g.tile.nr, g.count, g.columns()
	for j := 0; j < columns; j += nr {
		for i := 0; i < rows; i += mr {
			g.tile.tile(n, g.outs.at(p, (first+i)*n), g.images.at(p, j*n), sums.at(p, i*columns+j), columns, 1, add)
		}
	}
}

// winogradProductJob adds the products of the tiles in work to sums, by positions.
type winogradProductJob winogradWeight

func (j *winogradProductJob) run(lo, hi int) {
	g := (*winogradWeight)(j)
	for ; lo < hi; lo++ {
		g.product(&g.sums, lo, 0, g.rows(), g.first > 0)
	}
}

// winogradFinishJob writes the gradients of eight outputs at a time.
type winogradFinishJob winogradWeight

func (j *winogradFinishJob) run(lo, hi int) {
	g := (*winogradWeight)(j)
	w := takeWinogradWorker()
	defer winogradWorkers.Put(w)
	for k := lo * winogradLanes; k < min(hi*winogradLanes, g.outputs); k++ {
		g.finish(&g.sums, k, k, w)
	}
}

// winogradTapsJob computes the gradients of blocks of outputs, where all tiles are in work.
type winogradTapsJob winogradWeight

func (j *winogradTapsJob) run(lo, hi int) {
	g := (*winogradWeight)(j)
	w := takeWinogradWorker()
	defer winogradWorkers.Put(w)
	for ; lo < hi; lo++ {
		first := lo * winogradRows
		count := min(winogradRows, g.outputs-first)
		rows := panels(count, g.tile.mr) * g.tile.mr
		w.sums.resize(rows * g.columns())
		for p := range winogradPositions {
			g.product(&w.sums, p, first, rows, false)
		}
		for k := range count {
			g.finish(&w.sums, k, first+k, w)
		}
	}
}

// finish writes the gradient of output k, whose sums are in a row.
func (g *winogradWeight) finish(sums *matrices36, row, k int, w *winogradWorker) {
	s := &g.weights
	direct := s.access.direct && s.across == 1 && s.down == 3 && s.channel == 9
	for c := 0; c < g.channels; c += winogradLanes {
		for i := range w.lanes {
			w.lanes[i] = 9 * i
		}
		src := sums.at(0, row*g.columns()+c)
		at := offset(s.ptr, k*s.row+c*s.channel, s.access.size)
		if direct && c+winogradLanes <= g.channels {
			g.kernels.taps(&slice[float32](at, 1)[0], &w.lanes, src, sums.position, &w.work)
			continue
		}
		g.kernels.taps(&w.tiles[0], &w.lanes, src, sums.position, &w.work)
		n := min(winogradLanes, g.channels-c)
		if s.across == 1 && s.down == 3 && s.channel == 9 {
			s.access.store(at, 1, w.tiles[:9*n])
			continue
		}
		for i := range n {
			for r := range 3 {
				s.access.store(offset(at, i*s.channel+r*s.down, s.access.size), s.across, w.tiles[9*i+3*r:][:3])
			}
		}
	}
}
