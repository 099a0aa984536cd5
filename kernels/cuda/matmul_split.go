package cuda

import "github.com/cistern-ml/cistern/tensor/dtype"

// A product of few blocks leaves most of a GPU idle. If its sums are long, they are cut into slices: each block computes a tile of
// one slice and leaves its sums in the workspace, and a second kernel adds the slices up in their order.

// With at least so many blocks there is no need for more, and a slice has at least so much of k. A100 and H100 have 108 and 132
// processors; the numbers are the same for all GPUs, so that results are.
const (
	tileBlocks   = 192
	vectorBlocks = 768
	plainDepth   = 128
	tensorDepth  = 256
	vectorDepth  = 1024
	maxSlices    = 64
	sliceStep    = 32 // DEEP in src/matmul_tensor.cu: slices begin where pieces of 16 bytes do
)

// split cuts k.
func (w *work) split(wanted, depth int) {
	have := int(w.grid.X) * int(max(w.grid.Y, 1)) * w.batch.total
	slices := min(wanted/max(have, 1), w.k/depth, maxSlices)
	if slices < 2 || have*2 > wanted || w.m*w.n >= maxLoop {
		return
	}
	w.depth = (w.k/slices + sliceStep) / sliceStep * sliceStep
	w.slices = (w.k + w.depth - 1) / w.depth
	size := uint64(4)
	if w.dtype == dtype.Float64 {
		size = 8
	}
	w.bytes = uint64(w.slices) * uint64(w.batch.total) * uint64(w.m) * uint64(w.n) * size
}

// whole is the same work without slices, for callers that gave no workspace.
func (w work) whole() work {
	w.slices, w.depth, w.bytes = 1, w.k, 0
	return w
}
