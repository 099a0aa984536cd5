package cpu

import (
	"sync"

	"github.com/cistern-ml/cistern/kernels/op"
)

// Winograd's convolution, after Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015): of kernels of 3x3 and 5x5 with
// a stride and a dilation of 1. Results are computed in tiles of 4x4, and with kernels of 5x5 of 2x2, from patches of 6x6 of the image, with
// 36 multiplications for each channel in place of 144, or 100:
//
//	result = A' [ sum over channels of (G kernel G') * (B' patch B) ] A        (* is by element)
//
// The sums over channels are 36 products of matrices, one for each position of a transformed patch: transformed kernels, [outputs,
// channels], times transformed patches, [channels, tiles]. The gradient of the image is the same, with kernels turned by 180 degrees.
// The gradient of a kernel of 3x3 (winogradweight.go) is a convolution of patches with tiles of the gradient, in which the sums are over
// tiles.
//
// A result has an error of about 1e-5 times the root of the mean square of all results, where a sum of products has 1e-6. So has
// no multiplication by zeros of the padding any effect; but a value that is not finite makes the whole tile, and what its patch meets,
// not finite.
//
// The order of additions for each result is fixed: it depends neither on where a tile lies nor on how the work is cut. Memory is
// that of winogradImages or winogradFilters elements, and of each worker as much as its second-level cache has.
//
//	kernels few, tiles many     kernels transformed        in parallel over outputs
//	                            patches, products, results in parallel over blocks of tiles
//	kernels many                patches transformed        in parallel over tiles and channels
//	                            kernels, products, results in parallel over blocks of outputs

const (
	winogradFilters = 1 << 20      // elements of transformed kernels that are kept whole
	winogradImages  = 36 * 1 << 16 // elements of transformed patches that are kept together where kernels are many
	winogradBlock   = 300 << 10    // elements of patches and products in one worker's work, where kernels are few
	winogradRows    = 32           // outputs of one worker's work, where kernels are many
	winogradDepth   = 16           // channels that a worker transforms
)

// isWinograd reports whether the tiles are the way to compute a convolution of float32. It looks at shapes alone.
func isWinograd(v *op.Convolution, id op.ID) bool {
	const channels, most, tiles = 16, 2048, 12
	const kernels = 512 * 1024 // of a gradient, which keeps the products of 36 matrices of as many: 72 MiB
	image, result, kernel := v.Image.Shape, v.Result.Shape, v.Kernel.Shape
	form := winogradLoops.form(v)
	if form == nil || kernel[3] != kernel[2] || v.Stride != [2]int{1, 1} || v.Dilation != [2]int{1, 1} {
		return false
	}
	if id == op.Conv2DGradWeight && form.taps != 3 {
		return false
	}
	if min(v.Channels, v.Outputs) < channels || max(v.Channels, v.Outputs) > most {
		return false
	}
	if id == op.Conv2DGradWeight && v.Channels*v.Outputs > kernels {
		return false
	}
	full := func(h, w int) bool { // at least 12 tiles, whose places are mostly results
		count := v.N * panels(h, form.size) * panels(w, form.size)
		return count >= tiles && 5*h*w*v.N >= 2*form.size*form.size*count
	}
	return full(image[2], image[3]) && full(result[2], result[3])
}

// form is what computes kernels of the height that those of v have, or nil.
func (k *winogradKernels) form(v *op.Convolution) *winogradForm {
	switch v.Kernel.Shape[2] {
	case 3:
		return &k.three
	case 5:
		return &k.five
	}
	return nil
}

// winogradConv is one convolution in work, for one group.
type winogradConv struct {
	access  accessor[float32]
	kernels *winogradKernels
	form    *winogradForm
	tile    *microkernel[float32]

	patches  winogradPatches // of the image, in the sense of op.Axis
	channels int
	results  winogradTargets
	outputs  int
	bias     []float32
	weights  winogradWeights

	filters, images matrices36 // transformed: what is kept whole
	first, count    int        // the tiles in work
}

// matrices36 is memory of 36 matrices.
type matrices36 struct {
	data     []float32
	position int // distance of the matrices
}

// resize makes room for matrices of n elements. Their distance is an odd number of cache lines: what lies at all positions then
// falls into different sets of a cache.
func (m *matrices36) resize(n int) {
	const line = 16
	m.position = panels(n, line)*line | line
	m.data = sized(m.data, winogradPositions*m.position)
}

func (m *matrices36) at(position, i int) *float32 { return &m.data[position*m.position+i] }

// winogradWorker is what a worker needs.
type winogradWorker struct {
	work                  winogradWork
	lanes                 [winogradLanes]int
	plan                  patchPlan
	buffer, kernels       []float32
	tiles                 [winogradLanes * 25]float32 // of results, of 4x4 at most, or of kernels
	images, filters, sums matrices36
	targets               winogradTargets
}

var winogradWorkers = sync.Pool{New: func() any { return new(winogradWorker) }}

func takeWinogradWorker() *winogradWorker { return winogradWorkers.Get().(*winogradWorker) }

// isExact reports whether a call's device wants sums of products, without transforms (host.Device.SetExactConvolutions).
func isExact(c *op.Call) bool {
	if c.Stream == nil {
		return false
	}
	d, ok := c.Stream.Device().(interface{ ExactConvolutions() bool })
	return ok && d.ExactConvolutions()
}
