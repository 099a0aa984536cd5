package cuda

import "github.com/cistern-ml/cistern/device/dtype"

// vectorKernels are the kernels of src/matmul_vector.cu for one type: [the matrix is contiguous along k][pieces of 16 bytes].
type vectorKernels [2][2]*kernel

func vectorKernelsOf(d dtype.DType) *vectorKernels {
	of := func(name string) *kernel { return named("matmul_vector", "gemv_"+name+"_"+suffixes[d]) }
	return &vectorKernels{{of("column_s"), of("column_v")}, {of("row_s"), of("row_v")}}
}

const warp = 32

// find returns the kernel for a product with a vector, whose n is 1, and the elements of the result that a block has; nil if
// the product is another one, or the matrix is contiguous nowhere.
func (v *vectorKernels) find(p *product) (k *kernel, each int) {
	if p.n != 1 {
		return nil, 0
	}
	piece := 16 / p.dtype.Size()
	switch {
	case p.a.Column == 1 || p.k == 1: // a warp for each row of the matrix
		if p.a.Row%piece == 0 && p.b.Row == 1 && p.a.Ptr%16 == 0 && p.b.Ptr%16 == 0 && p.pieces(1) && p.pieces(2) {
			return v[1][1], threads / warp
		}
		return v[1][0], threads / warp // the same in single elements, wherever they lie
	case p.a.Row == 1: // neighbouring threads have neighbouring rows, and go down the columns
		if p.a.Column%piece == 0 && p.a.Ptr%16 == 0 && p.pieces(1) {
			return v[0][1], warp * piece
		}
		return v[0][0], warp
	}
	return nil, 0
}

// pieces reports whether all products of the batch begin at pieces of 16 bytes of an operand.
func (p *product) pieces(operand int) bool {
	piece := 16 / p.dtype.Size()
	for d := range p.batch.NDim {
		if p.batch.Stride[operand][d]%piece != 0 {
			return false
		}
	}
	return true
}
