package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
)

// floatKernels are the kernels of src/matmul_float.cu: [a is contiguous along k][b is contiguous along k].
type floatKernels [2][2]*kernel

// floatKernelsOf makes them for float32.
func floatKernelsOf(d dtype.DType) *floatKernels {
	if d != dtype.Float32 {
		return nil
	}
	of := func(transposes string) *kernel {
		return named("matmul_float", "matmul_float_"+transposes+"_"+suffixes[d])
	}
	return &floatKernels{{of("tn"), of("tt")}, {of("nn"), of("nt")}}
}

// How the kernels without tensor cores cut a result. Their speeds are the part of products among their instructions.
var (
	plainTiling = tiling{rows: tile, columns: tile, speed: 65, setUp: 64}
	floatTiling = tiling{rows: side, columns: side, speed: 101, setUp: 64}
)

// inLargeTiles takes these kernels instead of the plain ones if a device is done with them earlier.
func (w *work) inLargeTiles(f *floatKernels, on *device.Properties) {
	// Large tiles read each element of the operands half as often, and leave processors idle where the result has few of them.
	if floatTiling.time(w, on.Processors) >= plainTiling.time(w, on.Processors) {
		return
	}
	w.kernel = f[truth(w.a.Column == 1)][truth(w.b.Column != 1)]
	w.shape.Grid = device.Dim3{X: uint32(floatTiling.blocks(w.m, w.n))}
}
