package cuda

import "github.com/cistern-ml/cistern/device/dtype"

// A product of few blocks leaves most of a GPU idle. If its sums are long, they are cut into slices: each block computes a tile of
// one slice and leaves its sums in the workspace, and a second kernel adds the slices up in their order.

// With at least so many blocks there is no need for more, and a slice has at least so much of k. A100 and H100 have 108 and 132
// processors; the numbers are the same for all GPUs, so that sums are cut alike. Blocks on tensor cores are counted in tiles of one
// size, whichever is taken.
const (
	tileBlocks   = 192
	tensorBlocks = 132
	vectorBlocks = 768
	plainDepth   = 128
	tensorDepth  = 256
	vectorDepth  = 1024
	maxSlices    = 64
	side         = 128 // of those tiles, and SIDE in src/conv_tensor.cu
	sliceStep    = 64  // slices begin where pieces of 16 bytes do, and stages of shared memory
)

// split cuts k for products of so many blocks, if there is workspace for the slices.
func (w *work) split(blocks, wanted, depth int, workspace uint64) {
	// The bits of a result depend on how its sums are cut: so on nothing but sizes, and on whether there is workspace.
	have := blocks * w.batch.Total
	slices := min(wanted/max(have, 1), w.k/depth, maxSlices)
	if slices < 2 || have*2 > wanted || w.m*w.n >= maxLoop { // half the blocks will do: a second kernel must pay
		return
	}
	of := (w.k/slices + sliceStep) / sliceStep * sliceStep // rounded up, so that there may be fewer slices than planned
	slices = (w.k + of - 1) / of
	size := uint64(4)
	if w.dtype == dtype.Float64 {
		size = 8
	}
	bytes := uint64(slices) * uint64(w.batch.Total) * uint64(w.m) * uint64(w.n) * size
	if bytes <= workspace {
		w.slices, w.depth, w.bytes = slices, of, bytes
	}
}
