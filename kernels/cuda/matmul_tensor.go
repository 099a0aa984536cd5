package cuda

import "github.com/cistern-ml/cistern/tensor/dtype"

// tensorCores are the kernels of src/matmul_tensor.cu for one type: [a is contiguous along k][b is contiguous along k].
type tensorCores [2][2]*kernel

const side = 128 // SIDE in src/matmul_tensor.cu

// tensorCoresOf makes those of a type, or nil.
func tensorCoresOf(d dtype.DType) *tensorCores {
	if d != dtype.Float16 && d != dtype.BFloat16 {
		return nil
	}
	of := func(turns string) *kernel { return named("matmul_tensor", "matmul_"+turns+"_"+suffixes[d]) }
	return &tensorCores{{of("tn"), of("tt")}, {of("nn"), of("nt")}}
}

// find returns the kernel for a product, or nil if there is none that can, or if the product is too small for its tiles.
func (t *tensorCores) find(p *product) *kernel {
	if t == nil || p.m*p.n < 16*16 || p.k < 16 {
		return nil
	}
	ak, ok := p.line(p.a, 1)
	if !ok {
		return nil
	}
	bk, ok := p.line(transposed(p.b), 2)
	if !ok {
		return nil
	}
	return t[ak][bk]
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
	if a.Ptr%16 != 0 || step%piece != 0 {
		return 0, false
	}
	return alongK, p.pieces(operand)
}
