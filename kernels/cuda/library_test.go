package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/kernels/cuda"
	"github.com/cistern-ml/cistern/kernels/kerneltest"
	"github.com/cistern-ml/cistern/kernels/op"
)

// withLibrary is emulated with the emulated cuBLAS.
func withLibrary(t *testing.T) *cudatest.Rig {
	t.Helper()
	r := cudatest.NewCUBLAS(t, 1)
	r.LoadKernels(emulatedKernels(t))
	t.Cleanup(func() { require.NoError(t, cuda.Unload(r.Devices[0])) })
	return r
}

// The cases that our own kernels pass, with the library on the machine. Many have layouts that BLAS does not know.
func TestConformance_OfProductsWithTheLibrary(t *testing.T) {
	r := withLibrary(t)
	d := r.Devices[0]
	for _, id := range []op.ID{op.MatMul, op.MatMulAct} {
		t.Run(id.String(), func(t *testing.T) { kerneltest.TestOp(t, d, id, thinned(3)) })
	}
	calls := r.Calls()
	for _, f := range []string{"cublasGemmEx", "cublasGemmStridedBatchedEx", "cublasLtMatmul", "cuLaunchKernel"} {
		require.Greater(t, calls[f], 20, f)
	}
	b := d.BLAS()
	require.NoError(t, b.Reason)
	require.Positive(t, b.Products)
	require.Less(t, b.Refusals, b.Products, "%v", b)
}
