package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
)

// tensorTile is a tile of src/matmul_tensor.h, and what it takes.
type tensorTile struct {
	name string
	tiling
	deep     int // of k in a stage of shared memory
	threads  int
	resident int // blocks that a processor shall have room for
}

// tiles are those that there are, large ones first. The speeds follow from what must go through shared memory for each product.
var tiles = [...]tensorTile{
	{name: "large", tiling: tiling{128, 256, 1000, 128}, deep: 64, threads: 256, resident: 1},
	{name: "middle", tiling: tiling{128, 128, 900, 64}, deep: 32, threads: 128, resident: 2},
	{name: "small", tiling: tiling{64, 64, 550, 64}, deep: 64, threads: 128, resident: 3},
}

// tensorCores are the kernels for one type: [tile][a is contiguous along k][b is contiguous along k].
type tensorCores [len(tiles)][2][2]*kernel

// tensorCoresOf makes those of a type, or nil.
func tensorCoresOf(d dtype.DType) *tensorCores {
	if d != dtype.Float16 && d != dtype.BFloat16 {
		return nil
	}
	all := new(tensorCores)
	for i, t := range tiles {
		of := func(transposes string) *kernel {
			return roomy("matmul_"+t.name, "matmul_"+t.name+"_"+transposes+"_"+suffixes[d])
		}
		all[i] = [2][2]*kernel{{of("tn"), of("tt")}, {of("nn"), of("nt")}}
	}
	return all
}

// find reports whether there are kernels for a product, and how its operands lie; not for one that is too small for tiles.
func (c *tensorCores) find(p *product) (ak, bk int, ok bool) {
	if c == nil || p.m*p.n < 16*16 || p.k < 16 { // an mma is 16 by 8 by 16: less than that would be mostly padding
		return 0, 0, false
	}
	if ak, ok = p.line(p.a, 1); ok {
		bk, ok = p.line(transposed(p.b), 2)
	}
	return ak, bk, ok
}

// line reports whether an operand, whose columns are those of k, can be copied in pieces of 16 bytes, and whether along k.
func (p *product) line(a matrix, operand int) (alongK int, ok bool) {
	const piece = 8
	step := a.Row
	switch {
	case a.Column == 1:
		alongK = 1
	case a.Row == 1:
		step = a.Column
	default:
		return 0, false
	}
	if a.Ptr%16 != 0 || step%piece != 0 { // cp.async of 16 bytes faults on any other address: an error that ends the context
		return 0, false
	}
	return alongK, p.pieces(operand)
}

// A tile has at least two stages of shared memory and at most MOST_STAGES of src/matmul_tensor.h.
const (
	fewestStages = 2
	mostStages   = 4
	anyShared    = 48 << 10 // bytes that every block can have
	keptShared   = 1 << 10  // bytes that a processor keeps of each block's
)

// stages is how many fit into a processor's shared memory as many times as blocks shall, and how many bytes they are.
func (t *tensorTile) stages(shared int) (n, bytes int) {
	stage := (t.rows + t.columns) * t.deep * 2 // bytes, of half types
	n = min(max((shared/t.resident-keptShared)/stage, fewestStages), mostStages)
	return n, n * stage
}

// onTensorCores chooses the tile with which the busiest processor is done first, and returns when that is.
func (w *work) onTensorCores(c *tensorCores, on *device.Properties) (best int) {
	shared := max(on.SharedMemory, anyShared)
	for i := range tiles {
		t := &tiles[i]
		n, bytes := t.stages(shared)
		if bytes > shared { // even the fewest stages: no block of it could run on this GPU
			continue
		}
		time := t.time(w, on.Processors)
		if w.kernel != nil && time >= best {
			continue
		}
		best = time
		w.kernel, w.stages = c[i][w.along[0]][w.along[1]], n
		w.shape = device.LaunchShape{
			Grid: device.Dim3{X: uint32(t.blocks(w.m, w.n))}, Block: device.Dim3{X: uint32(t.threads)}, Shared: uint32(bytes),
		}
	}
	return best
}
