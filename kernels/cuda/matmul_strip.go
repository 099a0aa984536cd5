package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
)

// Products of 64 results along one side, or sums of 64, are few operations for each byte. The kernels of src/matmul_strip.cu keep 64 columns
// of b, or 64 rows of a, and go over strips of the other operand.

// stripKernels are those of one type: down rows of a, which is contiguous along k, [b is contiguous along k]; and across columns of b,
// which is not, [a is contiguous along k].
type stripKernels struct{ down, across [2]*kernel }

// stripKernelsOf makes those of a type, or nil.
func stripKernelsOf(d dtype.DType) *stripKernels {
	if d != dtype.Float16 && d != dtype.BFloat16 {
		return nil
	}
	of := func(name string) *kernel { return roomy("matmul_strip", "matmul_"+name+"_"+suffixes[d]) }
	return &stripKernels{down: [2]*kernel{of("down_nn"), of("down_nt")}, across: [2]*kernel{of("across_tn"), of("across_nn")}}
}

const (
	strip         = 64                                 // SIDE in src/matmul_strip.cu
	stripWarps    = 4                                  // WARPS
	stripShared   = stripWarps * 2 * strip * strip * 2 // KEPT: bytes of the strips of a block
	stripResident = 2                                  // blocks that a processor shall have room for
)

// stripTiling is what a block does of a result before it goes on. Begin and end cost less than a tile's, as copies go on meanwhile.
var stripTiling = tiling{rows: strip * stripWarps, columns: strip, speed: 830, setUp: 32}

// strips is a product in strips.
type strips struct {
	kernel *kernel
	tiling tiling
	parts  int // blocks beside each other, each of which keeps another part
	size   int // of the side that strips cut
}

// inStrips chooses these kernels if a device is done with them in less than so much time.
func (w *work) inStrips(k *stripKernels, on *device.Properties, time int) {
	bytes := stripShared + strip*w.k*2
	if w.leaves || w.slices > 1 || w.k == 0 || w.k%strip != 0 || bytes > max(on.SharedMemory, anyShared) || !w.plain() {
		return
	}
	for _, s := range [...]strips{w.stripsDown(k), w.stripsAcross(k)} {
		if s.kernel == nil {
			continue
		}
		if t := s.tiling.time(w, on.Processors); t < time {
			time = t
			w.kernel, w.stages = s.kernel, 0
			w.shape = device.LaunchShape{
				Grid:  device.Dim3{X: uint32(s.parts), Y: uint32(s.blocks(w.batch.Total, bytes, on))},
				Block: device.Dim3{X: stripWarps * 32}, Shared: uint32(bytes),
			}
		}
	}
}

// stripsDown is the product in strips of rows, if it can be.
func (w *work) stripsDown(k *stripKernels) (s strips) {
	if w.along[0] == 0 || w.n%strip != 0 || w.n != strip && w.k != strip || w.beta != 0 && (w.c.Row != 0 || w.c.Column != 1) {
		return strips{}
	}
	return strips{k.down[w.along[1]], stripTiling, w.n / strip, w.m}
}

// stripsAcross is the product in strips of columns, if it can be. The end of a strip is one of pieces.
func (w *work) stripsAcross(k *stripKernels) (s strips) {
	if w.along[1] == 1 || w.m%strip != 0 || w.m != strip && w.k != strip || w.n%8 != 0 || w.beta != 0 && (w.c.Row != 1 || w.c.Column != 0) {
		return strips{}
	}
	t := stripTiling
	t.rows, t.columns = t.columns, t.rows
	return strips{k.across[w.along[0]], t, w.m / strip, w.n}
}

// blocks is how many share the strips of one product: as many as a device has room for, and no more than give all of them as much to do.
func (s *strips) blocks(batch, bytes int, on *device.Properties) int {
	all := blocksOf(s.size, strip*stripWarps)
	resident := min(max(on.SharedMemory/(bytes+keptShared), 1), stripResident)
	room := max(on.Processors*resident/(s.parts*batch), 1)
	return blocksOf(all, blocksOf(all, room))
}
