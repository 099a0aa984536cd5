package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/blas"
	"github.com/cistern-ml/cistern/device/cuda/internal/cublas"
	"github.com/cistern-ml/cistern/device/dtype"
)

// Products without an epilogue: cublasGemmEx and cublasGemmStridedBatchedEx.

// multiply makes the calls of a product without an epilogue. begun says that one of several calls has enqueued work on the stream.
func (m *multiplier) multiply(s *Stream, p *blas.Product, g *blas.Gemm, work device.Ptr, bytes uint64) (begun bool, err error) {
	c, err := s.blasCalls("MatMul")
	if err != nil {
		return false, err
	}
	defer c.release()
	// The order matters: SetStream takes the workspace away. Without one of the caller's, cuBLAS would take memory of its own, in a capture
	// too, where that becomes part of the graph.
	c.add(cublas.SetStream, m.handle, s.handle)
	c.add(cublas.SetWorkspace, m.handle, uintptr(work), uintptr(bytes))
	for i := range p.Calls(g) {
		at := p.At(g, i)
		if p.Dims == 0 {
			at = *g
		}
		s.work.note("cublasGemmEx")
		if err := c.timed(s, m, p, &at); err != nil {
			return i > 0, err // the first one's refusal is harmless: nothing is on the stream, and another kernel can compute it all
		}
		c.reset() // stream and workspace stay set: m.mu is held
	}
	return false, nil
}

// timed runs the batch with the call of one product, which a profile times.
func (c *blasCalls) timed(s *Stream, m *multiplier, p *blas.Product, g *blas.Gemm) error {
	c.timing = s.time()
	c.timing.begin(c.b)
	c.gemm(m, p, g)
	c.timing.end(c.b)
	err := c.run()
	if c.timing != nil {
		c.timing.operation = productOperation("cublasGemmEx", p, g)
	}
	c.timing.finish(err == nil)
	c.timing = nil
	return err
}

// gemm adds the call of one product, or of a strided batch.
func (c *blasCalls) gemm(m *multiplier, p *blas.Product, g *blas.Gemm) {
	t, compute := types(p.Type, m.tf32.Load())
	r, _ := types(p.ResultType(), false)
	alpha, beta := c.scalars(p.Type, p.Alpha, g.Beta)
	opA, opB := operation(g.TransA), operation(g.TransB)
	rows, columns, depth := uintptr(g.M), uintptr(g.N), uintptr(g.K)
	if p.Dims == 0 {
		c.add(cublas.GemmEx, m.handle, opA, opB, rows, columns, depth, alpha, uintptr(g.A), t, uintptr(g.LDA),
			uintptr(g.B), t, uintptr(g.LDB), beta, uintptr(g.D), r, uintptr(g.LDD), compute, cublas.GemmDefault)
		return
	}
	c.add(cublas.GemmStridedBatchedEx, m.handle, opA, opB, rows, columns, depth, alpha,
		uintptr(g.A), t, uintptr(g.LDA), uintptr(g.StrideA), uintptr(g.B), t, uintptr(g.LDB), uintptr(g.StrideB), beta,
		uintptr(g.D), r, uintptr(g.LDD), uintptr(g.StrideC), uintptr(g.Count), compute, cublas.GemmDefault)
}

func operation(transposed bool) uintptr {
	if transposed {
		return cublas.OpT
	}
	return cublas.OpN
}

// types are the library's numbers for an element type and what it is computed with.
func types(d dtype.DType, tf32 bool) (data, compute uintptr) {
	switch d {
	case dtype.Float64:
		return cublas.R64F, cublas.Compute64F
	case dtype.Float16: // sums in float32, as everywhere here: those in float16 are faster on some GPUs, and overflow
		return cublas.R16F, cublas.Compute32F
	case dtype.BFloat16:
		return cublas.R16BF, cublas.Compute32F
	}
	if tf32 {
		return cublas.R32F, cublas.Compute32FFastTF32
	}
	return cublas.R32F, cublas.Compute32F
}

// scalars puts alpha and beta where the library reads them, in the type of computation: in host memory, the mode in which handles are
// made, so it has read them when the call returns.
func (c *blasCalls) scalars(d dtype.DType, alpha, beta float64) (a, b uintptr) {
	if d == dtype.Float64 {
		return c.b.Word(0, math.Float64bits(alpha)), c.b.Word(1, math.Float64bits(beta))
	}
	return c.b.Word(0, uint64(math.Float32bits(float32(alpha)))), c.b.Word(1, uint64(math.Float32bits(float32(beta))))
}
